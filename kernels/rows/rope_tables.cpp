#include "kernels/rows/rope_tables.h"

#include <stdexcept>

#include "kernels/runtime/device.h"

namespace plimsoll::kernels {

void RopeTables::start(const model::ModelSpec& spec, std::span<std::byte> memory,
                       cudaStream_t stream) {
  spec_ = &spec;
  tables_.clear();
  auto* to = reinterpret_cast<float*>(memory.data());
  const auto place = [&](const model::RopeTable& table) {
    const std::vector<float>& values = table.inverse_frequencies;
    copy_to_device(to, values.data(), values.size() * sizeof(float), stream);
    const RopeFrequencies placed{.inverse = to, .scale = table.scale};
    to += values.size();
    return placed;
  };
  for (const model::RopeSpec& rope : spec.ropes) {
    Tables tables;
    tables.usual = place(rope.table);
    if (rope.long_table) tables.for_long = place(*rope.long_table);
    tables_.push_back(tables);
  }
}

const RopeTables::Tables& RopeTables::of(const model::RopeSpec& rope) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (&spec_->ropes[i] == &rope) return tables_[i];
  }
  throw std::logic_error("rope_angles: a rope that is not of the launch's model");
}

}  // namespace plimsoll::kernels
