#include "kernels/rows/rope_tables.h"

#include <algorithm>
#include <stdexcept>

#include "backend/cuda/footprint.h"
#include "kernels/runtime/device.h"

namespace plimsoll::kernels {

namespace {

RopeSections sections_of(const model::RopeSpec& rope) {
  RopeSections sections;
  if (rope.sections.size() > RopeSections::kMost)
    throw std::logic_error("rope: more kinds of positions than the kernel has");
  for (const int64_t section : rope.sections) {
    const int32_t before = sections.count > 0 ? sections.ends[sections.count - 1] : 0;
    sections.ends[sections.count++] = before + static_cast<int32_t>(section);
  }
  return sections;
}

}  // namespace

void RopeTables::start(const model::ModelSpec& spec, std::span<std::byte> memory,
                       cudaStream_t stream) {
  ropes_.clear();
  auto* to = reinterpret_cast<float*>(memory.data());
  const auto place = [&](const model::RopeTable& table) {
    const std::vector<float>& values = table.inverse_frequencies;
    copy_to_device(to, values.data(), values.size() * sizeof(float), stream);
    const RopeFrequencies placed{.inverse = to, .scale = table.scale};
    to += values.size();
    return placed;
  };
  for (const model::RopeSpec* rope : backend::ropes_of(spec)) {
    Placed placed{rope, {.usual = place(rope->table), .for_long = {}}};
    if (rope->long_table) placed.rope.for_long = place(*rope->long_table);
    placed.rope.sections = sections_of(*rope);
    ropes_.push_back(placed);
  }
}

const RopeOnDevice& RopeTables::of(const model::RopeSpec& rope) const {
  const auto found = std::ranges::find(ropes_, &rope, &Placed::spec);
  if (found == ropes_.end())
    throw std::logic_error("rope_angles: a rope that is not of the launch's model");
  return found->rope;
}

}  // namespace plimsoll::kernels
