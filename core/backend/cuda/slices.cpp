#include "backend/cuda/slices.h"

#include <algorithm>
#include <bit>

#include "backend/cuda/packed_layout.h"
#include "backend/row_maxima.h"
#include "base/rounding.h"
#include "model/slices.h"

namespace plimsoll::backend::cuda {
namespace {

constexpr size_t kRegion = 256;

size_t take_region(size_t& end, int64_t count, size_t element) {
  const size_t at = end;
  end += round_up(count * element, kRegion);
  return at;
}

/// Elements that fill whole pieces of 16 bytes, of any type.
int64_t padded(int64_t columns) {
  return round_up(columns, int64_t{8});
}

/// Offset in bytes of the row maxima, which are stored after the rewritten rows.
size_t rewritten_end(int64_t rows, const model::WeightSpec& spec, DType dtype) {
  return round_up(rewritten_bytes(rows, spec, dtype), kRegion);
}

int64_t sums_of(int64_t rows, const model::WeightSpec& spec) {
  return spec.slices * std::min(rows, kSlicedRows) * slice_stride(spec.rows());
}

}  // namespace

size_t pin_trial_bytes(int64_t depth, DType dtype) {
  constexpr size_t kMost = 1024, kOuts = kTrialSlices * 64 + 1;
  const size_t row = depth * dtype_size(dtype);
  return 2 * (kMost * (row + kOuts * sizeof(float)) + 4 * kRegion);
}

bool is_sliced(const model::WeightSpec& spec) {
  // Each rank has all inputs where ranks have whole experts.
  const bool whole = spec.split == model::Split::experts;
  if (!whole && spec.split != model::Split::row) return false;
  if (spec.slices * (whole ? 1 : spec.ranks) == 1) return false;
  const auto fits = [&](const model::Part& part) {
    return part.packing && part.packing->code != model::Code::none &&
           (!part.packing->ordered || part.packing->group % spec.slices == 0);
  };
  return !spec.is_packed() || std::ranges::all_of(spec.parts, fits);
}

model::WeightSpec slice_of(const model::WeightSpec& spec) {
  model::WeightSpec slice = spec;
  slice.shape.back() /= spec.slices;
  slice.ranks = spec.slices * (spec.split == model::Split::row ? spec.ranks : 1);
  slice.split = model::Split::row;
  slice.slices = 1;
  for (model::Part& part : slice.parts) {
    if (!part.packing) continue;
    part.packing->lead = 0;
    if (part.packing->ordered) {  // of any group
      part.packing->group /= spec.slices;
      part.packing->scattered = part.packing->group > 0;
      continue;
    }
    for (int64_t rank = 1; rank < slice.ranks; ++rank) {
      const int64_t before = part.packing->inputs_before(rank * slice.columns());
      part.packing->lead = std::max(part.packing->lead, before);
    }
  }
  return slice;
}

PinnedLayout::PinnedLayout(int64_t rows, const model::WeightSpec& spec, DType dtype) {
  const int64_t staged = std::min(rows, kStagedRows);
  in = take_region(bytes, staged * padded(spec.columns()), dtype_size(dtype));
  out = take_region(bytes, staged * padded(spec.rows()), sizeof(float));
  sums = bytes;
  const bool sliced = is_sliced(spec);
  if (sliced) (void)take_region(bytes, sums_of(rows, spec), sizeof(float));
  const int64_t depth = sliced ? kTrialSlices * spec.columns() / spec.slices : spec.columns();
  bytes = std::max(bytes, pin_trial_bytes(depth, dtype));
}

PackedSlicesLayout::PackedSlicesLayout(int64_t rows, const model::WeightSpec& spec, DType dtype) {
  const model::WeightSpec slice = slice_of(spec);
  const int64_t some = std::min(rows, kSlicedRows);
  most = rewritten_end(some, slice, dtype);
  sums = most + round_up(maxima_bytes(some, slice), kRegion);
  bytes = sums;
  (void)take_region(bytes, sums_of(rows, spec), sizeof(float));
}

const model::WeightSpec* find_unpinned(const model::ModelSpec& spec) {
  const auto differs = [](const model::WeightSpec& weight) {
    return weight.ranks > 1 && weight.split == model::Split::row && !is_sliced(weight);
  };
  const auto found = std::ranges::find_if(spec.weights, differs);
  if (found != spec.weights.end()) return &*found;
  for (const model::LayerSpec& layer : spec.layers) {
    for (const model::MlpSpec* mlp : {&layer.mlp, layer.shortcut ? &*layer.shortcut : nullptr}) {
      if (mlp == nullptr || mlp->down.weight == model::kNoWeight) continue;
      const model::WeightSpec& down = spec.weight(mlp->down.weight);
      if (down.split == model::Split::experts && !is_sliced(down)) return &down;
    }
  }
  return nullptr;
}

int64_t expert_groups(int64_t experts) {
  return model::slices_of(experts, 1);
}

int64_t waiting_sums(const model::WeightSpec& down) {
  if (down.split == model::Split::experts) return down.slices;
  return std::max<int64_t>(1, std::bit_width(static_cast<uint64_t>(down.slices)) - 1);
}

SlicedExpertsLayout::SlicedExpertsLayout(int64_t rows, int64_t experts_per_token,
                                         const model::WeightSpec& up, const model::WeightSpec& down,
                                         DType dtype) {
  const int64_t slots = rows * experts_per_token, stride = slice_stride(down.rows());
  if (down.is_packed()) {
    const model::WeightSpec slice = slice_of(down);
    bytes = std::max(
        rewritten_end(slots, up, dtype),
        rewritten_end(slots, slice, dtype) + round_up(maxima_bytes(slots, slice), kRegion));
  }
  downs = take_region(bytes, slots * stride, sizeof(float));
  waiting = take_region(bytes, waiting_sums(down) * rows * stride, sizeof(float));
}

}  // namespace plimsoll::backend::cuda
