#include "backend/cuda/slice_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace plimsoll::backend::cuda {

SliceRows::SliceRows(const model::PackedRows& rows, const model::Part& part, int64_t columns,
                     const model::Part& slice, model::Inputs inputs)
    : rows_(rows),
      columns_(columns),
      inputs_(inputs),
      groups_{part.packing->groups(columns), slice.packing->groups(inputs.count), 0},
      scale_bytes_(model::scale_bytes(part.packing->scale)) {
  const model::Packing& packing = *part.packing;
  const int64_t before = packing.inputs_before(rows.first_input());
  const bool in_turn = packing.group > 0 && !packing.ordered;
  groups_.first = in_turn ? (before + inputs.first) / packing.group : 0;
  scales_ = groups_;
  if (!packing.has_blocks()) return;
  const GgmlBlocks& blocks = *find_ggml_blocks(packing.blocks);  // slices have whole ones
  scales_ = {columns / blocks.values, inputs.count / blocks.values, inputs.first / blocks.values};
  scale_bytes_ = blocks.scale_bytes();
}

void SliceRows::codes(int64_t first, int64_t count, uint8_t* to) const {
  std::vector<uint8_t> all(count * columns_);
  rows_.codes(first, count, all.data());
  for (int64_t row = 0; row < count; ++row) {
    std::copy_n(all.data() + row * columns_ + inputs_.first, inputs_.count,
                to + row * inputs_.count);
  }
}

void SliceRows::scales(int64_t first, int64_t count, std::byte* to) const {
  std::vector<std::byte> all(count * scales_.all * scale_bytes_);
  rows_.scales(first, count, all.data());
  copy_groups(scales_, all.data(), count, scale_bytes_, to);
}

void SliceRows::zeros(int64_t first, int64_t count, uint8_t* to) const {
  std::vector<uint8_t> all(count * groups_.all);
  rows_.zeros(first, count, all.data());
  copy_groups(groups_, reinterpret_cast<const std::byte*>(all.data()), count, 1,
              reinterpret_cast<std::byte*>(to));
}

void SliceRows::input_groups(int32_t* to) const {
  std::vector<int32_t> all(columns_);
  rows_.input_groups(all.data());
  std::copy_n(all.begin() + inputs_.first, inputs_.count, to);
}

void SliceRows::nested(model::NestedScales& to) const {
  to.stride = groups_.all;
  rows_.nested(to);
  to.first += groups_.first;
}

void SliceRows::copy_groups(const Groups& groups, const std::byte* from, int64_t count,
                            int64_t size, std::byte* to) {
  const int64_t there = std::min(groups.own, groups.all - groups.first);
  for (int64_t row = 0; row < count; ++row) {
    std::byte* const at = to + row * groups.own * size;
    std::memset(at, 0, static_cast<size_t>(groups.own * size));
    std::memcpy(at, from + (row * groups.all + groups.first) * size,
                static_cast<size_t>(there * size));
  }
}

}  // namespace plimsoll::backend::cuda
