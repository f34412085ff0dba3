#include "backend/cuda/slices.h"

#include <algorithm>
#include <bit>

#include "base/rounding.h"

namespace plimsoll::backend::cuda {
namespace {

constexpr size_t kAligned = 256;

size_t take(size_t& end, int64_t count, size_t element) {
  const size_t at = end;
  end += round_up(static_cast<size_t>(count) * element, kAligned);
  return at;
}

/// Elements that fill whole pieces of 16 bytes, of any type.
int64_t padded(int64_t columns) {
  return round_up(columns, int64_t{8});
}

}  // namespace

PinnedLayout::PinnedLayout(int64_t rows, const model::WeightSpec& spec, DType dtype) {
  const int64_t staged = std::min(rows, kStagedRows);
  in = take(bytes, staged * padded(spec.columns()), dtype_size(dtype));
  out = take(bytes, staged * padded(spec.rows()), sizeof(float));
  sums = bytes;
  if (!is_sliced(spec)) return;
  const int64_t sliced = std::min(rows, kSlicedRows);
  (void)take(bytes, spec.slices * sliced * slice_stride(spec.rows()), sizeof(float));
}

int64_t waiting_sums(int64_t slices) {
  return std::max<int64_t>(1, std::bit_width(static_cast<uint64_t>(slices)) - 1);
}

SlicedExpertsLayout::SlicedExpertsLayout(int64_t rows, int64_t experts_per_token,
                                         const model::WeightSpec& down) {
  if (!is_sliced(down)) return;
  const int64_t stride = slice_stride(down.rows());
  downs = take(bytes, rows * experts_per_token * stride, sizeof(float));
  waiting = take(bytes, waiting_sums(down.slices) * rows * stride, sizeof(float));
}

}  // namespace plimsoll::backend::cuda
