#include "kernels/products/packed/inputs.h"

namespace plimsoll::kernels {

using model::InputRounding;

PackedPart packed_part(const model::WeightSpec& spec, const void* data,
                       const backend::Segments& segments, const backend::Segment& segment) {
  return {.packing = &*segment.part->packing,
          .layout = backend::cuda::PackedMatrix(*segment.part, spec.columns()),
          .data = static_cast<const std::byte*>(data) + segment.offset,
          .matrix_bytes = static_cast<int64_t>(segments.end)};
}

SharedMost most_from(const SharedMost& all, const backend::RowMaxima& maxima, int64_t first) {
  if (all.most == nullptr) return {};
  return {all.most + (maxima.range ? 0 : first / maxima.group), all.count, first % maxima.group};
}

SharedMost most_of_all(const View& in, const backend::Weight& weight,
                       const backend::RowMaxima& maxima, std::byte* at, cudaStream_t stream) {
  if (maxima.count == 0) return {};
  const View to{at, DType::f32, in.rows, maxima.count, maxima.count};
  const int64_t first = weight.first_input();
  find_most({.to = to,
             .in = in,
             .group = maxima.group,
             .lead = first % maxima.group,
             .first = maxima.range ? 0 : first / maxima.group,
             .range = maxima.range},
            stream);
  if (weight.ranks != nullptr) weight.ranks->all_reduce_max(to);
  return {reinterpret_cast<const float*>(at), maxima.count};
}

SharedMost share_most(const View& in, const backend::Weight& weight, std::byte* at,
                      cudaStream_t stream) {
  if (weight.ranks == nullptr) return {};
  const backend::RowMaxima maxima(*weight.spec);
  return most_from(most_of_all(in, weight, maxima, at, stream), maxima, weight.first_input());
}

void PackedInputs::of_slots(const ExpertSlots& slots, int64_t slots_per_row) {
  slots_ = &slots;
  slots_per_row_ = slots_per_row;
}

View PackedInputs::rows_for(const PackedPart& part) {
  const InputRounding rounding = part.packing->inputs;
  if (rounding == InputRounding::none && !part.layout.spread) return in_;
  const int64_t columns = part.layout.spread ? part.layout.slots() : in_.columns;
  const View rows{workspace_, in_.dtype, slots_ == nullptr ? in_.rows : slots_->slots, columns,
                  columns};
  const bool own = part.layout.spread || model::has_input_scale(rounding);
  if (!own && rounding == last_) return rows;
  RoundInputs op{.out = rows, .in = in_, .rounding = rounding};
  if (model::has_input_scale(rounding))
    op.scale = reinterpret_cast<const model::InputScale*>(part.data + part.layout.input);
  if (part.layout.spread)
    op.order = reinterpret_cast<const int32_t*>(part.data + part.layout.order);
  if (slots_ != nullptr) {
    op.sorted = slots_->order;
    op.starts = slots_->starts;
    op.slots_per_row = slots_per_row_;
    op.experts = slots_->experts;
    op.matrix_bytes = part.matrix_bytes;
  }
  op.most = shared_.most;
  op.most_count = shared_.count;
  if (!model::rounds_by_row(rounding)) op.lead = shared_.lead;
  round_inputs(op, stream_);
  last_ = own ? InputRounding::none : rounding;
  return rows;
}

}  // namespace plimsoll::kernels
