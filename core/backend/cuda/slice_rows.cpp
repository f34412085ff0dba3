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
      scale_bytes_(model::scale_bytes(part.packing->scale)),
      all_groups_(part.packing->groups(columns)),
      groups_(slice.packing->groups(inputs.count)) {
  const model::Packing& packing = *part.packing;
  const int64_t before = packing.inputs_before(rows.first_input());
  const bool in_turn = packing.group > 0 && !packing.ordered;
  first_group_ = in_turn ? (before + inputs.first) / packing.group : 0;
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
  std::vector<std::byte> all(count * all_groups_ * scale_bytes_);
  rows_.scales(first, count, all.data());
  copy_groups(all.data(), count, scale_bytes_, to);
}

void SliceRows::zeros(int64_t first, int64_t count, uint8_t* to) const {
  std::vector<uint8_t> all(count * all_groups_);
  rows_.zeros(first, count, all.data());
  copy_groups(reinterpret_cast<const std::byte*>(all.data()), count, 1,
              reinterpret_cast<std::byte*>(to));
}

void SliceRows::input_groups(int32_t* to) const {
  std::vector<int32_t> all(columns_);
  rows_.input_groups(all.data());
  std::copy_n(all.begin() + inputs_.first, inputs_.count, to);
}

void SliceRows::nested(model::NestedScales& to) const {
  to.stride = all_groups_;
  rows_.nested(to);
  to.first += first_group_;
}

void SliceRows::copy_groups(const std::byte* from, int64_t count, int64_t size,
                            std::byte* to) const {
  const int64_t there = std::min(groups_, all_groups_ - first_group_);
  for (int64_t row = 0; row < count; ++row) {
    std::byte* const at = to + row * groups_ * size;
    std::memset(at, 0, static_cast<size_t>(groups_ * size));
    std::memcpy(at, from + (row * all_groups_ + first_group_) * size,
                static_cast<size_t>(there * size));
  }
}

}  // namespace plimsoll::backend::cuda
