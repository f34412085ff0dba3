// Mixture of experts: routing, and the products of each expert with the rows sent to it.
#include <algorithm>
#include <numeric>
#include <vector>

#include "backend/cpu/experts_layout.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/ops_product.h"

namespace plimsoll::backend {

void CpuBackend::do_route(const Routing& routing, View logits, Normalize normalize) {
  const int64_t k = routing.experts.columns;
  for_rows(logits.rows, 4 * logits.columns, [&](int64_t t) {
    float* scores = static_cast<float*>(logits.data) + t * logits.stride;
    auto* experts = static_cast<int32_t*>(routing.experts.data) + t * routing.experts.stride;
    auto* weights = static_cast<float*>(routing.weights.data) + t * routing.weights.stride;
    kernels_.softmax(scores, logits.columns);
    float total = 0;
    for (int64_t i = 0; i < k; ++i) {
      // The best that is not taken yet; the first of equals.
      int32_t best = -1;
      for (int32_t e = 0; e < logits.columns; ++e)
        if (std::find(experts, experts + i, e) == experts + i &&
            (best < 0 || scores[e] > scores[best]))
          best = e;
      experts[i] = best;
      weights[i] = scores[best];
      total += weights[i];
    }
    if (normalize == Normalize::yes)
      for (int64_t i = 0; i < k; ++i) weights[i] /= total;
  });
}

void CpuBackend::sort_slots(const ExpertSlots& slots, View experts) {
  const int64_t k = experts.columns;
  const auto* chosen = static_cast<const int32_t*>(experts.data);
  const auto expert_of = [&](int64_t slot) { return chosen[slot / k * experts.stride + slot % k]; };
  const int64_t count = experts.rows * k;
  std::fill(slots.starts, slots.starts + slots.experts + 1, 0);
  for (int64_t slot = 0; slot < count; ++slot) ++slots.starts[expert_of(slot)];
  std::exclusive_scan(slots.starts, slots.starts + slots.experts + 1, slots.starts, 0);
  for (int64_t slot = 0; slot < count; ++slot) {
    slots.place[slot] = slots.starts[expert_of(slot)]++;
    slots.order[slots.place[slot]] = static_cast<int32_t>(slot);
  }
  // Each start has moved to its expert's end, which is the next one's start.
  std::shift_right(slots.starts, slots.starts + slots.experts + 1, 1);
  slots.starts[0] = 0;
}

template <typename RowOf>
void CpuBackend::multiply_experts(const ExpertSlots& slots, const Weight& weight,
                                  const RowOf& row_of, std::byte* packed, float* out) {
  const int64_t n = weight.spec->rows();
  const int64_t k = weight.spec->columns();
  const model::WeightSpec& spec = *weight.spec;
  const bool is_packed = spec.is_packed();
  const DType dtype = is_packed ? DType::f32 : weight.dtype;
  const size_t row_bytes = static_cast<size_t>(padded_columns(k)) * kernels_.packed_element(dtype);
  const Segments segments = is_packed ? Segments(spec, weight.dtype, 0) : Segments();
  const size_t matrix = is_packed ? segments.end : matrix_bytes(spec, weight.dtype);
  const size_t parts = spec.parts.size() / static_cast<size_t>(spec.matrices());
  // A plain matrix is one, whatever it was put together from.
  for (size_t s = 0; s < (is_packed ? parts : 1); ++s) {
    const Segment segment = is_packed ? segments.parts[s] : Segment{};
    std::vector<ProductJob> jobs;
    for (int64_t e = 0; e < slots.experts; ++e) {
      const int64_t first = slots.starts[e];
      const int64_t rows = slots.starts[e + 1] - first;
      if (rows == 0) continue;
      const std::byte* const from = static_cast<const std::byte*>(weight.data) +
                                    static_cast<size_t>(e) * matrix + segment.offset;
      const model::Part* const part =
          is_packed ? &spec.parts[static_cast<size_t>(e) * parts + s] : nullptr;
      const InputRule rule = is_packed ? rule_of(*part, k, from) : InputRule{};
      std::byte* const mine = packed + static_cast<size_t>(first) * row_bytes;
      if (s == 0 || model::has_input_scale(rule.rounding)) {
        const auto input = [&](int64_t i) { return row_of(first + i); };
        pack(rows, k, dtype, mine, input, rule);
      }
      jobs.push_back({.rows_packed = mine,
                      .rows = rows,
                      .matrix = from,
                      .part = part,
                      .out = out + first * n + segment.first_row,
                      .out_stride = n});
    }
    multiply({.n = is_packed ? segment.part->rows() : n, .k = k, .dtype = dtype, .jobs = jobs});
  }
}

void CpuBackend::do_experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
                            const Weight& up, const Weight& down, std::byte* workspace) {
  const int64_t k = mlp.experts_per_token;
  const int64_t width = mlp.intermediate;
  const ExpertsLayout layout(in.rows, mlp, in.columns);
  const ExpertSlots slots{mlp.experts, reinterpret_cast<int32_t*>(workspace + layout.starts),
                          reinterpret_cast<int32_t*>(workspace + layout.order),
                          reinterpret_cast<int32_t*>(workspace + layout.place)};
  std::byte* packed = workspace + layout.packed;
  auto* ups = reinterpret_cast<float*>(workspace + layout.up);
  auto* gated = reinterpret_cast<float*>(workspace + layout.gated);
  auto* downs = reinterpret_cast<float*>(workspace + layout.down);
  sort_slots(slots, routing.experts);
  const auto input = [&](int64_t i) {
    return static_cast<const float*>(in.data) + slots.order[i] / k * in.stride;
  };
  multiply_experts(slots, up, input, packed, ups);
  for_rows(layout.slots, 2 * width, [&](int64_t i) {
    const float* gate = ups + i * 2 * width;
    kernels_.gate(gated + i * width, gate, gate + width, width, mlp.activation);
  });
  multiply_experts(
      slots, down, [&](int64_t i) { return gated + i * width; }, packed, downs);
  for_rows(out.rows, k * out.columns, [&](int64_t t) {
    float* to = static_cast<float*>(out.data) + t * out.stride;
    const auto* weights =
        static_cast<const float*>(routing.weights.data) + t * routing.weights.stride;
    std::fill_n(to, out.columns, 0.f);
    for (int64_t i = 0; i < k; ++i)
      kernels_.add_scaled(to, downs + slots.place[t * k + i] * out.columns, weights[i],
                          out.columns);
  });
}

}  // namespace plimsoll::backend
