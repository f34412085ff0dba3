#include "ptx/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptx/operands.h"

namespace plimsoll::ptx {

void fault(const BlockState& block, unsigned warp, const Instruction& instruction,
           const std::string& what) {
  throw emulation::Misuse(fmt::format("{}: block {},{},{} warp {}: {} in `{}`", block.code->name,
                                      block.index.x, block.index.y, block.index.z, warp, what,
                                      instruction.text == nullptr ? "" : *instruction.text));
}

namespace {

constexpr size_t kSharedAlignment = 1024;

void prepare(Warp& warp, const Code& code, const std::byte* parameters) {
  constexpr uint32_t kNotANumber = 0x7f7f7f7f;
  constexpr uint64_t kNotANumber64 = 0x7f7f7f7f7f7f7f7f;
  warp.words.resize(static_cast<size_t>(code.words));
  warp.wides.resize(static_cast<size_t>(code.wides));
  warp.predicates.resize(static_cast<size_t>(code.predicates));
  warp.local.resize(code.local_bytes * kLanes + sizeof(Wides));
  for (Words& word : warp.words) std::ranges::fill(word.lane, kNotANumber);
  for (Wides& wide : warp.wides) std::ranges::fill(wide.lane, kNotANumber64);
  for (const auto& [slot, value] : code.constant_words)
    std::ranges::fill(warp.words[static_cast<size_t>(slot)].lane, value);
  for (const auto& [slot, value] : code.constant_wides)
    std::ranges::fill(warp.wides[static_cast<size_t>(slot)].lane, value);
  for (const auto& [slot, offset] : code.parameter_addresses)
    std::ranges::fill(warp.wides[static_cast<size_t>(slot)].lane,
                      reinterpret_cast<uint64_t>(parameters) + offset);
  auto local = reinterpret_cast<uint64_t>(warp.local.data());
  local = (local + 15) / 16 * 16;
  for (const auto& [slot, offset] : code.local_addresses)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      warp.wides[static_cast<size_t>(slot)].lane[lane] = local + lane * code.local_bytes + offset;
}

}  // namespace

BlockMemory::BlockMemory(const Code& code, unsigned threads, size_t shared_bytes)
    : warps((threads + kLanes - 1) / kLanes),
      parameters(code.parameter_bytes + sizeof(uint64_t)),
      threads_(threads),
      shared_bytes_(shared_bytes),
      memory_(shared_bytes + 2 * kSharedAlignment) {
  for (unsigned number = 0; number < warps.size(); ++number) {
    Warp& warp = warps[number];
    const unsigned left = threads - number * kLanes;
    warp.number = number;
    warp.present = left >= kLanes ? kAllLanes : (1u << left) - 1;
    prepare(warp, code, parameters.data());
  }
  const auto first = reinterpret_cast<uintptr_t>(memory_.data());
  shared_ = memory_.data() + (kSharedAlignment - first % kSharedAlignment);
}

std::span<std::byte> BlockState::range_of(std::byte* at) const {
  const auto holds = [&](std::span<std::byte> range) {
    return at >= range.data() && at < range.data() + range.size();
  };
  if (holds(shared)) return shared;
  for (Warp& warp : memory->warps) {
    if (holds(warp.local)) return warp.local;
  }
  if (holds(memory->parameters)) return memory->parameters;
  for (const std::span<std::byte> variable : code->variables) {
    if (holds(variable)) return variable;
  }
  return emulation::allocation_of(at);
}

std::byte* BlockState::find(uint64_t address, size_t bytes) {
  const auto within = [&](std::span<std::byte> range) {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(range.data());
    return bytes <= range.size() && offset <= range.size() - bytes;
  };
  auto* const at = reinterpret_cast<std::byte*>(address);
  for (const std::span<std::byte> range : recent_) {
    if (within(range)) return at;
  }
  const std::span<std::byte> range = range_of(at);
  if (range.empty() || !within(range)) return nullptr;
  recent_[oldest_++ % std::size(recent_)] = range;
  return at;
}

}  // namespace plimsoll::ptx
