// One block of threads, each a fiber. The block can be left while its threads wait for the kernels
// ahead.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulation/emulator.h"

namespace plimsoll::emulation {

enum class State : uint8_t { ready, at_block_barrier, at_warp_op, at_previous, done };

/// A thread.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  State state = State::ready;
  Indices indices;
  Site site;
  bool vote = false;
  WarpOp op = WarpOp::sync;
  uint32_t mask = 0;
  uint64_t value = 0;
  unsigned source = 0;
  uint64_t result = 0;
  unsigned buffer = 0;  // next_buffer()
};

class Block final : public RunningBlock {
 public:
  Block(const Kernel& kernel, Size3 index, Order order, Previous previous);
  ~Block() override;

  void run() override;
  void set_previous_done() override { previous_ = Previous::done; }
  [[nodiscard]] bool ended() const override { return done_ == fibers_.size(); }

  // State of the thread that runs.
  void* shared() { return shared_.get(); }
  [[nodiscard]] size_t shared_bytes() const { return kernel_.shared_bytes; }
  [[nodiscard]] BlockVotes votes() const { return votes_; }
  Fiber& fiber() { return *running_; }
  /// Lets the others run until the running fiber is ready again.
  void wait(State state, Site site);
  void wait_for_previous(Site site);

 private:
  static void enter(boost::context::detail::transfer_t from);
  void start(unsigned thread);
  static void arrived(boost::context::detail::transfer_t from);
  /// Runs the fiber up to where it waits, then those behind it in its warp, each in its turn.
  void resume(Fiber& fiber);
  void turn_to(Fiber& fiber);
  /// The first behind this one in turn, of the same warp, that is ready.
  [[nodiscard]] Fiber* next_in_warp(const Fiber& fiber);
  void run_warp(unsigned warp);
  void check_shared() const;
  void release_previous();
  void release_block_if_complete();
  void release_warp_if_complete(unsigned warp, const Fiber& last);
  void answer(unsigned warp, uint32_t mask);
  [[nodiscard]] bool waits_for_previous() const;
  [[noreturn]] void report_stuck() const;
  [[nodiscard]] unsigned turned(unsigned index, unsigned count) const {
    return order_ == Order::forward ? index : count - 1 - index;
  }

  const Kernel& kernel_;
  Size3 index_;
  Order order_;
  Previous previous_;
  bool waited_ = false;  // a thread did, for the kernels ahead
  std::vector<Fiber> fibers_;
  std::vector<std::unique_ptr<std::byte[]>> stacks_;
  Fiber* running_ = nullptr;
  std::unique_ptr<std::byte[]> shared_;
  BlockVotes votes_;
  unsigned done_ = 0;
  unsigned at_barrier_ = 0;
};

/// The block whose thread runs, if any.
extern Block* running_block;

}  // namespace plimsoll::emulation
