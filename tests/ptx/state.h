// What a block of threads is made of while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulation/emulator.h"
#include "ptx/code.h"
#include "ptx/races.h"

namespace plimsoll::ptx {

struct alignas(64) Words {
  uint32_t lane[kLanes];
};
struct alignas(64) Wides {
  uint64_t lane[kLanes];
};

/// A copy to shared memory that goes on beside the thread that started it. What `from` does not
/// have is filled with zeros.
struct Copy {
  std::byte* to;
  const std::byte* from;
  uint32_t bytes;
  uint32_t from_bytes;
};
/// A thread's copies (cp.async): those of the group that is open, and groups that are closed.
struct LaneCopies {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
};

/// A copy by the copy engine (cp.async.bulk), which arrives at a barrier in shared memory.
struct BulkCopy {
  std::byte* to;
  const std::byte* from;
  uint32_t bytes;
  const void* barrier;
  unsigned warp;
  uint32_t epoch;
};

enum class Wait : uint8_t { none, for_lanes, for_block, for_previous };
/// Lanes of a warp that stand at one instruction.
struct Fragment {
  int32_t at = 0;
  Mask lanes = 0;
  Wait wait = Wait::none;
  unsigned barrier = 0;
  bool rests = false;  // until others have had their turn
};

struct Warp {
  unsigned number = 0;
  Mask present = 0;  // lanes that are threads
  Mask alive = 0;
  std::vector<Words> words;
  std::vector<Wides> wides;
  std::vector<Mask> predicates;
  std::vector<std::byte> local;
  std::vector<Fragment> fragments;
  std::vector<LaneCopies> copies{kLanes};
};

/// Registers and memory of a block. They are used again, by a later block of the kernel.
class BlockMemory {
 public:
  /// `shared_bytes`: all that the block has.
  BlockMemory(const Code& code, unsigned threads, size_t shared_bytes);
  [[nodiscard]] bool fits(unsigned threads, size_t shared_bytes) const {
    return threads == threads_ && shared_bytes == shared_bytes_;
  }
  std::vector<Warp> warps;
  std::vector<std::byte> parameters;
  Races races;
  [[nodiscard]] std::span<std::byte> shared() { return {shared_, shared_bytes_}; }

 private:
  unsigned threads_;
  size_t shared_bytes_;
  std::vector<std::byte> memory_;
  std::byte* shared_ = nullptr;
};

/// What instructions see of their block.
class BlockState {
 public:
  const Code* code = nullptr;
  emulation::Size3 grid, threads, index;
  std::span<std::byte> shared;
  std::shared_ptr<BlockMemory> memory;
  std::vector<BulkCopy> bulk_copies;
  Races* races = nullptr;

  /// The host's address of device memory of `bytes`, or nullptr: nothing lies there.
  std::byte* find(uint64_t address, size_t bytes);

 private:
  [[nodiscard]] std::span<std::byte> range_of(std::byte* at) const;
  std::span<std::byte> recent_[4];
  unsigned oldest_ = 0;
};

/// A warp that runs, with what instructions use most.
struct Context {
  BlockState& block;
  Warp& warp;
  Words* words;
  Wides* wides;
  Mask* predicates;
};

/// Throws emulation::Misuse that names kernel, block, warp and instruction.
[[noreturn]] void fault(const BlockState& block, unsigned warp, const Instruction& instruction,
                        const std::string& what);
[[noreturn]] inline void fault(const Context& c, const Instruction& i, const std::string& what) {
  fault(c.block, c.warp.number, i, what);
}

}  // namespace plimsoll::ptx
