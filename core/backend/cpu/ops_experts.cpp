// Mixture of experts: routing, and the products of each expert with the rows sent to it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "backend/cpu/experts_layout.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/ops_product.h"
#include "backend/cpu/route.h"

namespace plimsoll::backend {

void CpuBackend::compute(const ops::Route& op) {
  const model::RouterSpec& router = *op.router;
  const auto k = static_cast<size_t>(op.routing.experts.columns);
  for_rows(op.logits.rows, 4 * op.logits.columns, [&](int64_t t) {
    float* row = static_cast<float*>(op.logits.data) + t * op.logits.stride;
    const std::span<float> scores(row, static_cast<size_t>(op.logits.columns));
    const RowChoice choice{
        {static_cast<int32_t*>(op.routing.experts.data) + t * op.routing.experts.stride, k},
        {static_cast<float*>(op.routing.weights.data) + t * op.routing.weights.stride, k}};
    switch (router.score) {
      case model::RouterScore::sparsemixer:
        return mix_sparsely(choice, scores, router);
      case model::RouterScore::sigmoid:
        for (float& score : scores) score = 1 / (1 + std::exp(-score));
        break;
      case model::RouterScore::softmax:
        kernels_.softmax(row, op.logits.columns);
        break;
    }
    choose_experts(choice, scores, static_cast<const float*>(op.choice_bias.data), router);
  });
}

void CpuBackend::sort_slots(const ExpertSlots& slots, View experts) {
  const int64_t k = experts.columns;
  const auto* chosen = static_cast<const int32_t*>(experts.data);
  // All that return their input count as one expert more.
  const auto expert_of = [&](int64_t slot) {
    return std::min<int64_t>(chosen[slot / k * experts.stride + slot % k], slots.experts);
  };
  const int64_t count = experts.rows * k;
  const int64_t bins = slots.experts + 1;
  std::fill(slots.starts, slots.starts + bins + 1, 0);
  for (int64_t slot = 0; slot < count; ++slot) ++slots.starts[expert_of(slot)];
  std::exclusive_scan(slots.starts, slots.starts + bins + 1, slots.starts, 0);
  for (int64_t slot = 0; slot < count; ++slot) {
    slots.place[slot] = slots.starts[expert_of(slot)]++;
    slots.order[slots.place[slot]] = static_cast<int32_t>(slot);
  }
  // Each start has moved to its expert's end, which is the next one's start.
  std::shift_right(slots.starts, slots.starts + bins + 1, 1);
  slots.starts[0] = 0;
}

template <typename RowOf>
void CpuBackend::multiply_experts(const ExpertSlots& slots, const Weight& weight,
                                  const RowOf& row_of, std::byte* packed, float* out,
                                  const SharedMost& most) {
  const int64_t n = weight.spec->rows();
  const int64_t k = weight.spec->columns();
  const model::WeightSpec& spec = *weight.spec;
  const bool is_packed = spec.is_packed();
  const DType dtype = is_packed ? DType::f32 : weight.dtype;
  const size_t row_bytes = padded_columns(k) * kernels_.packed_element(dtype);
  const Segments segments = is_packed ? packed_segments(spec, weight.dtype, 0) : Segments();
  const size_t matrix = is_packed ? segments.end : matrix_bytes(spec, weight.dtype);
  const size_t parts = spec.parts_in_matrix();
  // By which each expert's rows are packed.
  std::vector<InputRule> rules(slots.experts);
  // A plain matrix is one, whatever it was put together from.
  for (size_t s = 0; s < (is_packed ? parts : 1); ++s) {
    const Segment segment = is_packed ? segments.parts[s] : Segment{};
    std::vector<ProductJob> jobs;
    for (int64_t e = weight.first_expert(); e < weight.end_expert(); ++e) {
      const int64_t first = slots.starts[e];
      const int64_t rows = slots.starts[e + 1] - first;
      if (rows == 0) continue;
      const auto own = static_cast<size_t>(e - weight.first_expert());
      const std::byte* const from =
          static_cast<const std::byte*>(weight.data) + own * matrix + segment.offset;
      const model::Part* const part = is_packed ? &spec.parts[own * parts + s] : nullptr;
      const InputRule rule = is_packed ? rule_of(*part, weight, from) : InputRule{};
      std::byte* const mine = packed + first * row_bytes;
      if (s == 0 || rule != rules[e]) {
        rules[e] = rule;
        const auto input = [&](int64_t i) { return row_of(first + i); };
        pack(rows, k, dtype, mine, input, {rule, spec.slices, most.from_row(first)});
      }
      jobs.push_back({.rows_packed = mine,
                      .rows = rows,
                      .matrix = from,
                      .part = part,
                      .planes = rule.planes,
                      .out = out + first * n + segment.first_row,
                      .out_stride = n});
    }
    multiply({.n = is_packed ? segment.part->rows() : n,
              .k = k,
              .slices = spec.slices,
              .first_input = weight.first_input(),
              .dtype = dtype,
              .jobs = jobs});
  }
}

void CpuBackend::join_experts(const ExpertSlots& slots, View downs, const Weight& down,
                              int32_t* owners) {
  if (down.ranks == nullptr) return;
  if (!down.some_experts()) return down.ranks->all_reduce_sum(downs);
  for (int64_t e = 0; e < slots.experts; ++e) {
    std::fill(owners + slots.starts[e], owners + slots.starts[e + 1],
              static_cast<int32_t>(e / down.spec->matrices()));
  }
  down.ranks->all_gather_rows(downs, {owners, static_cast<size_t>(downs.rows)});
}

void CpuBackend::compute(const ops::Experts& op, std::byte* workspace) {
  const model::MlpSpec& mlp = *op.mlp;
  const int64_t k = mlp.experts_per_token;
  const int64_t width = mlp.intermediate;
  const ExpertsLayout layout(op.in.rows, mlp, op.in.columns);
  const ExpertSlots slots{mlp.experts, reinterpret_cast<int32_t*>(workspace + layout.starts),
                          reinterpret_cast<int32_t*>(workspace + layout.order),
                          reinterpret_cast<int32_t*>(workspace + layout.place)};
  std::byte* packed = workspace + layout.packed;
  auto* ups = reinterpret_cast<float*>(workspace + layout.up);
  auto* gated = reinterpret_cast<float*>(workspace + layout.gated);
  auto* downs = reinterpret_cast<float*>(workspace + layout.down);
  const bool on_input = mlp.weighs == model::ExpertWeighs::input;
  const auto weight_of = [&](int64_t slot) {
    return static_cast<const float*>(
        op.routing.weights.data)[slot / k * op.routing.weights.stride + slot % k];
  };
  const auto expert_of = [&](int64_t slot) -> int64_t {
    return static_cast<const int32_t*>(
        op.routing.experts.data)[slot / k * op.routing.experts.stride + slot % k];
  };
  // Bias of the expert of sorted slot `i`, where `biases` begins with expert `first`; null without
  // biases.
  const auto bias_of = [&](const Weight& biases, int64_t first, int64_t i) -> const float* {
    if (!biases) return nullptr;
    return static_cast<const float*>(biases.data) +
           (expert_of(slots.order[i]) - first) * biases.spec->rows();
  };
  const Gating gating{mlp.activation, mlp.limits, mlp.up_offset};
  sort_slots(slots, op.routing.experts);
  const auto input = [&](int64_t i) {
    return static_cast<const float*>(op.in.data) + slots.order[i] / k * op.in.stride;
  };
  multiply_experts(slots, op.weights.up, input, packed, ups, {});
  // Slots of identities are the last and need no product.
  const int64_t up_width = mlp.up_rows();
  const int64_t multiplied = slots.starts[mlp.experts];
  const int64_t own = slots.starts[op.weights.up.first_expert()];
  for_rows(slots.starts[op.weights.up.end_expert()] - own, up_width, [&](int64_t row) {
    const int64_t i = own + row;
    float* gate = ups + i * up_width;
    // A product's input times a number is its output times that.
    if (on_input) kernels_.scale(gate, weight_of(slots.order[i]), up_width);
    if (const float* bias = bias_of(op.weights.up_bias, op.weights.up.first_expert(), i))
      kernels_.add(gate, bias, up_width);
    if (mlp.gated) {
      kernels_.gate(gated + i * width, gate, gate + width, width, gating);
    } else {
      kernels_.finish(gate, width, {.activation = mlp.activation});
    }
  });
  const float* const activated = mlp.gated ? gated : ups;
  const auto row_of = [&](int64_t i) { return activated + i * width; };
  float* const unused = mlp.gated ? ups : gated;
  const SharedMost most = find_most(multiplied, width, row_of, op.weights.down, unused);
  multiply_experts(slots, op.weights.down, row_of, packed, downs, most);
  join_experts(slots, {downs, DType::f32, multiplied, op.out.columns, op.out.columns},
               op.weights.down, reinterpret_cast<int32_t*>(unused));
  for_rows(op.out.rows, k * op.out.columns, [&](int64_t t) {
    float* to = static_cast<float*>(op.out.data) + t * op.out.stride;
    std::fill_n(to, op.out.columns, 0.f);
    for (int64_t slot = t * k; slot < (t + 1) * k; ++slot) {
      if (expert_of(slot) >= mlp.experts) {
        const float* same = static_cast<const float*>(op.in.data) + t * op.in.stride;
        kernels_.add_scaled(to, same, weight_of(slot), op.out.columns);
        continue;
      }
      const int64_t i = slots.place[slot];
      float* down = downs + i * op.out.columns;
      if (const float* bias = bias_of(op.weights.down_bias, 0, i))
        kernels_.add(down, bias, op.out.columns);
      kernels_.add_scaled(to, down, on_input ? 1.f : weight_of(slot), op.out.columns);
    }
  });
}

}  // namespace plimsoll::backend
