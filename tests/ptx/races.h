// Accesses to shared memory by two warps that nothing orders, by vector clocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace plimsoll::ptx {

/// A write to shared memory. atomic: such writes do not race with each other; same: the bytes are
/// there already; recorded: it happens now, and is not only begun.
struct Write {
  bool atomic = false;
  bool same = false;
  bool recorded = true;
};

/// What the warps of a block did to shared memory, and which of it each of them knows to have
/// happened. Warps learn from each other at barriers.
class Races {
 public:
  static constexpr unsigned kWarps = 32;
  /// A block begins.
  void start(size_t shared_bytes);
  /// What the warp has done so far is known to those that learn at the barrier.
  void tell(const void* barrier, unsigned warp);
  void learn(const void* barrier, unsigned warp);
  void forget(const void* barrier) { barriers_.erase(barrier); }
  [[nodiscard]] uint32_t epoch(unsigned warp) const { return clocks_[warp][warp]; }

  /// A warp whose write the reader need not see, if any.
  std::optional<unsigned> read(size_t offset, size_t bytes, unsigned warp);
  /// A warp whose access comes before or after the write as it happens, if any.
  std::optional<unsigned> write(size_t offset, size_t bytes, unsigned warp, Write how);
  /// A copy has arrived that a warp began at an epoch of its own.
  void arrive(size_t offset, size_t bytes, unsigned warp, uint32_t epoch);

 private:
  using Clock = std::array<uint32_t, kWarps>;
  static constexpr uint8_t kNobody = 255;
  /// Two bytes.
  struct Cell {
    uint32_t block = 0;
    uint32_t epoch = 0;
    uint8_t writer = kNobody;
    bool atomic = false;
    uint32_t readers = 0;
    Clock read{};
  };
  Cell& cell(size_t number);
  [[nodiscard]] std::optional<unsigned> foreign_writer(const Cell& cell, unsigned warp,
                                                       bool atomic) const;
  [[nodiscard]] std::optional<unsigned> foreign_reader(const Cell& cell, unsigned warp) const;
  std::vector<Cell> cells_;
  std::array<Clock, kWarps> clocks_{};
  std::map<const void*, Clock> barriers_;
  uint32_t block_ = 0;
};

}  // namespace plimsoll::ptx
