// Products of the CUDA backend with --deterministic: an element has the same bits in any batch,
// beside any columns and whatever ranks there are.
#include "backend/cuda/packed_layout.h"
#include "backend/cuda/slices.h"
#include "kernels/backend/cuda_backend.h"
#include "kernels/backend/device_ranks.h"
#include "kernels/products/slices.h"
#include "kernels/products/small_linear.h"
#include "kernels/rows/rows.h"
#include "kernels/runtime/operands.h"

namespace plimsoll::kernels {

using backend::View;
using backend::Weight;
using backend::cuda::kPinnedAlignment;
using backend::cuda::kSlicedRows;
using backend::cuda::kStagedRows;
using backend::cuda::PackedSlicesLayout;
using backend::cuda::PinnedLayout;
using backend::cuda::slice_stride;

namespace {

/// Rows that begin at whole pieces.
View padded_rows(std::byte* at, const View& like) {
  const auto piece = static_cast<int64_t>(kPinnedAlignment / dtype_size(like.dtype));
  return {at, like.dtype, like.rows, like.columns, round_up(like.columns, piece)};
}

void copy_rows(const View& to, const View& from, cudaStream_t stream) {
  compute(ops::CopyHeads{to, from, {.width = from.columns}}, stream);
}

/// Calls f(first, count) for pieces of `rows`.
template <typename F>
void for_pieces(int64_t rows, int64_t piece, const F& f) {
  for (int64_t first = 0; first < rows; first += piece) f(first, std::min(piece, rows - first));
}

/// True when rows are aligned otherwise than other widths' rows, though the product's depth lets
/// cuBLASLt read both.
bool lies_apart(const View& view, const Weight& weight, int64_t depth) {
  const size_t bytes = static_cast<size_t>(depth) * dtype_size(weight.dtype);
  return view.dtype == weight.dtype && bytes % kPinnedAlignment == 0 && !lies_well(view);
}

}  // namespace

void CudaBackend::linear_sums(const ops::Linear& op, std::byte* workspace) {
  if (op.weight.spec->is_packed())
    linear_packed_sliced(op, workspace);
  else
    linear_sliced(op, workspace);
  if (op.activation != model::Activation::none) {
    bias_activation(op.out, {}, op.activation, stream());
  }
}

void CudaBackend::linear_pinned(const ops::Linear& op, std::byte* workspace) {
  const View &out = op.out, &in = op.in;
  const Weight& weight = op.weight;
  const int64_t depth = in.columns;
  const bool in_apart = lies_apart(in, weight, depth);
  const bool out_apart = !lies_well(out) && in.dtype == weight.dtype;
  if (workspace == nullptr || (!in_apart && !out_apart)) {
    return linear_plain(op);
  }
  const PinnedLayout layout(in.rows, *weight.spec, weight.dtype);
  for_pieces(in.rows, kStagedRows, [&](int64_t first, int64_t count) {
    View from = in.slice_rows(first, count);
    const View to = out.slice_rows(first, count);
    if (in_apart) {
      const View staged = padded_rows(workspace + layout.in, from);
      copy_rows(staged, from, stream());
      from = staged;
    }
    if (!out_apart) return linear_plain({to, from, weight, op.bias, op.activation});
    const View staged = padded_rows(workspace + layout.out, to);
    linear_plain({staged, from, weight, op.bias, op.activation});
    copy_rows(to, staged, stream());
  });
}

void CudaBackend::linear_sliced(const ops::Linear& op, std::byte* workspace) {
  const View &out = op.out, &in = op.in;
  const Weight& weight = op.weight;
  const model::WeightSpec& spec = *weight.spec;
  const PinnedLayout layout(in.rows, spec, weight.dtype);
  const bool apart = lies_apart(in, weight, in.columns / spec.slices);
  for_pieces(in.rows, apart ? kStagedRows : kSlicedRows, [&](int64_t first, int64_t count) {
    View from = in.slice_rows(first, count);
    if (apart) {
      const View staged = padded_rows(workspace + layout.in, from);
      copy_rows(staged, from, stream());
      from = staged;
    }
    auto* const sums = reinterpret_cast<float*>(workspace + layout.sums);
    const SliceSums slices{.sums = sums,
                           .slices = spec.slices,
                           .rows = count,
                           .columns = out.columns,
                           .stride = slice_stride(out.columns),
                           .bias = vector_of(op.bias)};
    multiply_slices(slices, sums, from, weight);
    join_slices(out.slice_rows(first, count), slices, weight.ranks);
  });
}

void CudaBackend::linear_packed_sliced(const ops::Linear& op, std::byte* workspace) {
  const View &out = op.out, &in = op.in;
  const Weight& weight = op.weight;
  const model::WeightSpec& spec = *weight.spec;
  note_packed(spec, in.dtype);
  const model::WeightSpec slice = backend::cuda::slice_of(spec);
  const PackedSlicesLayout layout(in.rows, spec, in.dtype);
  const backend::Segments segments = backend::cuda::packed_segments(slice, weight.dtype, 0);
  const backend::RowMaxima maxima(slice);
  auto* const sums = reinterpret_cast<float*>(workspace + layout.sums);
  const auto* const data = static_cast<const std::byte*>(weight.data);
  for_pieces(in.rows, kSlicedRows, [&](int64_t first, int64_t count) {
    const View from = in.slice_rows(first, count);
    const SliceSums slices{.sums = sums,
                           .slices = spec.slices,
                           .rows = count,
                           .columns = out.columns,
                           .stride = slice_stride(out.columns),
                           .bias = vector_of(op.bias)};
    const SharedMost most = most_of_all(from, weight, maxima, workspace + layout.most, stream());
    for (int64_t s = 0; s < spec.slices; ++s) {
      const int64_t input = s * slice.columns();
      PackedInputs inputs(from.slice_columns(input, slice.columns()), workspace, stream());
      inputs.of_ranks(most_from(most, maxima, weight.first_input() + input));
      const View to{sums + s * count * slices.stride, DType::f32, count, out.columns,
                    slices.stride};
      for (const backend::Segment& segment : segments.parts) {
        const PackedPart part =
            packed_part(slice, data + static_cast<size_t>(s) * segments.end, segments, segment);
        packed_linear({.out = to.slice_columns(segment.first_row, part.layout.rows),
                       .in = inputs.rows_for(part),
                       .part = part,
                       .tiles = PackedTiles::many},
                      stream());
      }
    }
    join_slices(out.slice_rows(first, count), slices, weight.ranks);
  });
}

void CudaBackend::multiply_slices(const SliceSums& slices, float* to, View in,
                                  const Weight& weight) {
  const View matrix = rows_of(weight);
  if (products_.run_slices({.in = in,
                            .weight = matrix,
                            .out = to,
                            .out_stride = slices.stride,
                            .slices = slices.slices})) {
    return;
  }
  note_small_linear(in, weight);
  const int64_t depth = in.columns / slices.slices;
  for (int64_t s = 0; s < slices.slices; ++s) {
    float* const sums = to + s * slices.rows * slices.stride;
    small_linear({.out = {sums, DType::f32, slices.rows, slices.columns, slices.stride},
                  .in = in.slice_columns(s * depth, depth),
                  .weight = matrix.slice_columns(s * depth, depth)},
                 stream());
  }
}

void CudaBackend::join_slices(View out, const SliceSums& slices, backend::InputRanks* ranks) {
  if (ranks == nullptr) return sum_slices(out, slices, stream());
  dynamic_cast<DeviceRanks&>(*ranks).sum_slices(out, slices);
}

// Each rank has some experts of every slice.
void CudaBackend::join_experts(View out, const SliceSums& sums, backend::InputRanks* ranks) {
  const int64_t floats = sums.slices * sums.rows * sums.stride;
  if (ranks != nullptr)
    ranks->all_reduce_sum({const_cast<float*>(sums.sums), DType::f32, 1, floats, floats});
  sum_slices(out, sums, stream());
}

}  // namespace plimsoll::kernels
