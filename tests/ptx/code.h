// A kernel as the interpreter runs it: PTX instructions whose operands are places of registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::ptx {

inline constexpr unsigned kLanes = 32;
/// Lanes of a warp, the lowest bit being lane 0.
using Mask = uint32_t;
inline constexpr Mask kAllLanes = 0xffffffffu;
/// Where shared memory begins in its own address space: no address in it is null.
inline constexpr uint64_t kSharedBase = 1024;

struct Context;
struct Instruction;
/// Carries an instruction out for some lanes of a warp.
using Function = void (*)(Context&, const Instruction&, Mask);

/// A register: of one bit a lane (a predicate), of up to 32 bits, or of 64.
enum class Kind : uint8_t { none, predicate, negated, word, wide };
struct Operand {
  Kind kind = Kind::none;
  int32_t slot = -1;
  [[nodiscard]] bool is_there() const { return kind != Kind::none; }
};

/// What an instruction does to the order of a warp's instructions. together: it waits for the lanes
/// of a mask.
enum class Flow : uint8_t { plain, branch, exit, trap, block_barrier, together, wait_previous };
enum class Space : uint8_t { generic, shared, parameter };

struct Instruction {
  static constexpr size_t kMostOperands = 20;
  Function function = nullptr;
  Flow flow = Flow::plain;
  Space space = Space::generic;
  Operand guard;
  std::array<Operand, kMostOperands> operands;
  uint8_t count = 0;
  int64_t offset = 0;         // of the address, in bytes
  int64_t second_offset = 0;  // of the second address, where there are two
  int32_t target = -1;        // of a branch
  uint32_t option = 0;        // says which of the forms of one instruction this is
  uint8_t size = 0;           // bytes of an element in memory
  uint8_t elements = 1;
  bool is_signed = false;
  int8_t mask_operand = -1;  // where an instruction waits for lanes; -1: for the whole warp
  const std::string* text = nullptr;
  size_t place = 0;          // where its text begins in the file
  mutable bool ran = false;  // for any lane
};

/// Parts of `Instruction::option` of a barrier of the block.
inline constexpr uint32_t kArrivesAlone = 1;
enum class Reduction : uint8_t { none, any, all, count };

class BlockState;
/// Value of a special register for a lane.
using Special = uint32_t (*)(const BlockState&, unsigned warp, unsigned lane);

class BlockMemory;

/// A kernel. Slots of registers count from 0 for each kind.
struct Code {
  struct Parameter {
    size_t offset;
    size_t bytes;
  };
  std::string name;
  std::vector<Instruction> instructions;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  int32_t predicates = 0, words = 0, wides = 0;
  // Registers that have one value from the beginning.
  std::vector<std::pair<int32_t, uint32_t>> constant_words;
  std::vector<std::pair<int32_t, uint64_t>> constant_wides;
  std::vector<std::pair<int32_t, Special>> specials;
  std::vector<std::pair<int32_t, uint64_t>> parameter_addresses;
  std::vector<std::pair<int32_t, uint64_t>> local_addresses;
  size_t local_bytes = 0;   // of a lane
  size_t shared_bytes = 0;  // that the kernel declares itself
  unsigned most_threads = 1024;
  std::deque<std::string> texts;
  std::vector<std::span<std::byte>> variables;              // of the module
  mutable std::vector<std::shared_ptr<BlockMemory>> spare;  // of blocks that have ended
};

/// Where dynamic shared memory begins: behind what the kernel declares.
inline size_t dynamic_shared(size_t declared) {
  constexpr size_t kAlignment = 128;
  return (declared + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace plimsoll::ptx
