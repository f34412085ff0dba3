#include "kernels/products/experts.h"

#include <optional>

#include "backend/cuda/packed_layout.h"
#include "backend/cuda/slices.h"
#include "kernels/products/packed/inputs.h"
#include "kernels/products/packed/packed.h"
#include "kernels/rows/rows.h"

namespace plimsoll::kernels {
namespace {

bool gates_plainly(const Experts& op) {
  return op.up_bias.data == nullptr && !op.mlp->limits.any() && op.mlp->up_offset == 0 &&
         op.mlp->weighs == model::ExpertWeighs::output;
}

/// multiply_experts(), of whatever the matrices are kept as.
void multiply(const Experts& op, const ExpertStack& stack, const View& out, const View& in,
              int64_t slots_per_row, const ExpertSlots& slots, cudaStream_t stream) {
  if (stack.packed == nullptr) {
    const ExpertProduct product{out, in, stack.data, slots_per_row};
    return multiply_experts(product, slots, stream);
  }
  const backend::Segments segments = packed_segments(*stack.packed, in.dtype, 0);
  PackedInputs inputs(in, op.rewritten, stream);
  inputs.of_slots(slots, slots_per_row);
  const size_t rewritten = rewritten_bytes(slots.slots, *stack.packed, in.dtype);
  const backend::Weight weight{.spec = stack.packed, .ranks = stack.ranks};
  inputs.of_ranks(share_most(in, weight, op.rewritten + rewritten, stream));
  for (const backend::Segment& segment : segments.parts) {
    const PackedPart part = packed_part(*stack.packed, stack.data, segments, segment);
    const PackedTiles tiles = op.one_arrangement ? PackedTiles::many : PackedTiles::by_rows;
    const View rows = inputs.rows_for(part);
    packed_experts({.out = out.slice_columns(segment.first_row, part.layout.rows),
                    .in = rows,
                    .part = part,
                    .slots_per_row = rows.data == in.data ? slots_per_row : 0,
                    .tiles = tiles},
                   slots, stream);
  }
}

/// The second product of some inputs, those of each slice by themselves.
class DownSlices {
 public:
  DownSlices(const Experts& op, const View& gated, const ExpertSlots& slots, cudaStream_t stream)
      : op_(op), gated_(gated), slots_(slots), stream_(stream) {
    if (op.down.packed == nullptr) return;
    slice_.emplace(slice_of(*op.down.packed));
    maxima_.emplace(*slice_);
    const size_t rewritten = round_up(rewritten_bytes(slots.slots, *slice_, gated.dtype), 256);
    most_ = most_of_all(gated, weight(), *maxima_, op.rewritten + rewritten, stream);
  }
  void multiply(const View& downs, int64_t slice) const {
    const int64_t depth = gated_.columns / op_.down_slices, first = slice * depth;
    const View in = gated_.slice_columns(first, depth);
    if (slice_) return multiply_packed(downs, in, slice, first);
    const auto offset = static_cast<size_t>(first) * dtype_size(gated_.dtype);
    multiply_experts({.out = downs,
                      .in = in,
                      .weight = static_cast<const std::byte*>(op_.down.data) + offset,
                      .weight_stride = gated_.columns},
                     slots_, stream_);
  }

 private:
  [[nodiscard]] backend::Weight weight() const {
    return {.spec = op_.down.packed, .ranks = op_.down.ranks};
  }
  void multiply_packed(const View& downs, const View& in, int64_t slice, int64_t first) const {
    const backend::Segments segments = packed_segments(*slice_, in.dtype, 0);
    PackedInputs inputs(in, op_.rewritten, stream_);
    inputs.of_slots(slots_, 0);
    inputs.of_ranks(most_from(most_, *maxima_, weight().first_input() + first));
    const auto* const data = static_cast<const std::byte*>(op_.down.data);
    for (const backend::Segment& segment : segments.parts) {
      PackedPart part =
          packed_part(*slice_, data + static_cast<size_t>(slice) * segments.end, segments, segment);
      part.matrix_bytes *= op_.down_slices;
      packed_experts({.out = downs.slice_columns(segment.first_row, part.layout.rows),
                      .in = inputs.rows_for(part),
                      .part = part,
                      .tiles = PackedTiles::many},
                     slots_, stream_);
    }
  }

  const Experts& op_;
  const View& gated_;
  const ExpertSlots& slots_;
  cudaStream_t stream_;
  std::optional<model::WeightSpec> slice_;
  std::optional<backend::RowMaxima> maxima_;
  SharedMost most_{};
};

/// The second product and what becomes of it, slice after slice.
void combine_slices(const Experts& op, const View& gated, const ExpertSlots& slots,
                    cudaStream_t stream) {
  const SliceSums sums = sum_of_experts(op);
  const View downs{op.downs, DType::f32, slots.slots, op.out.columns, sums.stride};
  const View waiting{op.waiting, DType::f32, op.out.rows, op.out.columns, sums.stride};
  const DownSlices slices(op, gated, slots, stream);
  for (int64_t s = 0; s < op.down_slices; ++s) {
    slices.multiply(downs, s);
    combine_slice({.op = {.out = waiting,
                          .in = downs,
                          .input = op.in,
                          .bias = s == 0 ? op.down_bias : Vector{},
                          .weighs = op.mlp->weighs,
                          .adds_input = s == 0 && op.adds_inputs},
                   .waiting_step = sums.rows * sums.stride,
                   .slice = s,
                   .apart = op.slices_apart},
                  op.choices, slots, stream);
  }
}

}  // namespace

SliceSums sum_of_experts(const Experts& op) {
  return {.sums = op.waiting,
          .slices = op.slices_apart ? op.down_slices : 1,
          .rows = op.out.rows,
          .columns = op.out.columns,
          .stride = slice_stride(op.out.columns)};
}

void experts(const Experts& op, cudaStream_t stream) {
  const model::MlpSpec& mlp = *op.mlp;
  const int64_t k = mlp.experts_per_token;
  const DType dtype = op.in.dtype;
  const ExpertsLayout layout = experts_layout(op.in.rows, mlp, op.in.columns, dtype);
  const auto numbers = [&](size_t offset) {
    return reinterpret_cast<int32_t*>(op.workspace + offset);
  };
  const ExpertSlots slots{.experts = op.own,
                          .first = op.first,
                          .all = mlp.experts,
                          .slots = op.in.rows * k,
                          .starts = numbers(layout.starts),
                          .order = numbers(layout.order),
                          .place = numbers(layout.place),
                          .tiles = reinterpret_cast<int2*>(op.workspace + layout.tiles),
                          .one_size = op.one_arrangement};
  const auto rows = [&](size_t offset, int64_t columns) {
    return View{op.workspace + offset, dtype, slots.slots, columns, columns};
  };
  // Rows without gates lie where gated rows would: the rows of `down` take the place of `up`.
  const View up = rows(mlp.gated ? layout.up : layout.gated, mlp.up_rows());
  const View gated = mlp.gated ? rows(layout.gated, mlp.intermediate) : up;
  const View down = rows(layout.down, op.out.columns);
  sort_slots(slots, op.choices.experts, stream);
  multiply(op, op.up, up, op.in, k, slots, stream);
  if (!mlp.gated) {
    bias_activation(up, {}, mlp.activation, stream);
  } else if (gates_plainly(op)) {
    compute(ops::GatedActivation{gated, up, mlp.activation}, stream);
  } else {
    gate_experts({.out = gated, .in = up, .bias = op.up_bias, .mlp = &mlp}, op.choices, slots,
                 stream);
  }
  if (op.down_slices > 0) return combine_slices(op, gated, slots, stream);
  multiply(op, op.down, down, gated, 0, slots, stream);
  combine_experts({.out = op.out,
                   .in = down,
                   .input = op.in,
                   .bias = op.down_bias,
                   .weighs = mlp.weighs,
                   .adds_input = op.adds_inputs},
                  op.choices, slots, stream);
}

}  // namespace plimsoll::kernels
