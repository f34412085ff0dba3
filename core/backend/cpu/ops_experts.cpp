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

void CpuBackend::do_experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
                            const Weight& up, const Weight& down, std::byte* workspace) {
  const int64_t k = mlp.experts_per_token;
  const ExpertsLayout layout(in.rows, mlp, in.columns);
  auto* starts = reinterpret_cast<int32_t*>(workspace + layout.starts);
  auto* order = reinterpret_cast<int32_t*>(workspace + layout.order);
  auto* place = reinterpret_cast<int32_t*>(workspace + layout.place);
  std::byte* packed = workspace + layout.packed;
  auto* ups = reinterpret_cast<float*>(workspace + layout.up);
  auto* gated = reinterpret_cast<float*>(workspace + layout.gated);
  auto* downs = reinterpret_cast<float*>(workspace + layout.down);

  // Slots sorted by expert.
  const auto* experts = static_cast<const int32_t*>(routing.experts.data);
  const auto expert_of = [&](int64_t slot) {
    return experts[slot / k * routing.experts.stride + slot % k];
  };
  std::fill(starts, starts + mlp.experts + 1, 0);
  for (int64_t slot = 0; slot < layout.slots; ++slot) ++starts[expert_of(slot)];
  std::exclusive_scan(starts, starts + mlp.experts + 1, starts, 0);
  for (int64_t slot = 0; slot < layout.slots; ++slot) {
    place[slot] = starts[expert_of(slot)]++;
    order[place[slot]] = static_cast<int32_t>(slot);
  }
  std::shift_right(starts, starts + mlp.experts + 1, 1);
  starts[0] = 0;

  const auto run = [&](const Weight& weight, const auto& row_of, float* to) {
    const int64_t n = weight.spec->rows();
    const int64_t columns = weight.spec->columns();
    std::vector<ProductJob> jobs;
    const size_t row_bytes =
        static_cast<size_t>(padded_columns(columns)) * kernels_.packed_element(weight.dtype);
    for (int64_t e = 0; e < mlp.experts; ++e) {
      const int64_t first = starts[e];
      const int64_t rows = starts[e + 1] - first;
      if (rows == 0) continue;
      std::byte* mine = packed + static_cast<size_t>(first) * row_bytes;
      pack(rows, columns, weight.dtype, mine, [&](int64_t i) { return row_of(first + i); });
      jobs.push_back({mine, rows,
                      static_cast<const std::byte*>(weight.data) +
                          static_cast<size_t>(e) * matrix_bytes(*weight.spec, weight.dtype),
                      to + first * n, n});
    }
    multiply({.n = n, .k = columns, .dtype = weight.dtype, .jobs = jobs});
  };
  run(
      up, [&](int64_t i) { return static_cast<const float*>(in.data) + order[i] / k * in.stride; },
      ups);
  const int64_t width = mlp.intermediate;
  for_rows(layout.slots, 2 * width, [&](int64_t i) {
    const float* gate = ups + i * 2 * width;
    kernels_.gate(gated + i * width, gate, gate + width, width, mlp.activation);
  });
  run(
      down, [&](int64_t i) { return gated + i * width; }, downs);
  for_rows(out.rows, k * out.columns, [&](int64_t t) {
    float* to = static_cast<float*>(out.data) + t * out.stride;
    const auto* weights =
        static_cast<const float*>(routing.weights.data) + t * routing.weights.stride;
    std::fill_n(to, out.columns, 0.f);
    for (int64_t i = 0; i < k; ++i)
      kernels_.add_scaled(to, downs + place[t * k + i] * out.columns, weights[i], out.columns);
  });
}

}  // namespace plimsoll::backend
