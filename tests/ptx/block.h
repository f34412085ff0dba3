// A block of threads that runs from a kernel's code: whose turn it is, and who waits for whom.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emulation/emulator.h"
#include "ptx/state.h"

namespace plimsoll::ptx {

/// Whether accesses to shared memory are compared, which takes half as long again.
enum class Watch : uint8_t { nothing, races };

class Block final : public emulation::RunningBlock {
 public:
  /// `kernel` and `code` outlive the block. Throws Misuse where the launch does
  /// not fit the kernel.
  Block(const Code& code, const emulation::Kernel& kernel, emulation::Size3 index,
        emulation::Order order, emulation::Previous previous, Watch watch);
  ~Block() override;
  void run() override;
  void set_previous_done() override { previous_ = emulation::Previous::done; }
  [[nodiscard]] bool ended() const override { return ended_ == threads_; }

 private:
  /// A barrier of the block (bar.sync and its like).
  struct Barrier {
    struct Arrival {
      Warp* warp;
      const Instruction* instruction;
      Mask lanes;
      Mask votes;
    };
    unsigned arrived = 0;
    unsigned expected = 0;
    bool counted = false;  // of a number of threads, else of all
    std::vector<Arrival> waiting;
  };
  static constexpr unsigned kBarriers = 16;

  void prepare();
  bool run_warp(Warp& warp);
  void run_fragment(Context& c, size_t number, int64_t& left);
  /// Carries out what is more than its function; true: the fragment goes on behind it.
  bool change_flow(Context& c, size_t number, const Instruction& i, Mask lanes, int32_t& at);
  void branch(Context& c, size_t number, const Instruction& i, Mask lanes, int32_t at);
  void leave(Context& c, size_t number, const Instruction& i, Mask lanes, int32_t at);
  bool run_together(Context& c, const Instruction& i, Mask lanes, Mask here);
  void arrive(Context& c, size_t number, const Instruction& i, Mask lanes);
  void release_if_complete(unsigned barrier);
  void answer(Barrier& barrier);
  [[nodiscard]] bool waits_for_previous() const;
  [[noreturn]] void report_stuck();

  const emulation::Kernel& kernel_;
  emulation::Order order_;
  emulation::Previous previous_;
  bool waited_ = false;  // a thread did, for the kernels ahead
  BlockState state_;
  Barrier barriers_[kBarriers];
  unsigned threads_ = 0;
  unsigned ended_ = 0;
  uint64_t instructions_ = 0;
};

}  // namespace plimsoll::ptx
