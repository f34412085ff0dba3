// Products of the CUDA backend, alone, fused and of experts: on which kernels they run.
#include "backend/cuda/slices.h"
#include "kernels/products/experts.h"
#include "kernels/products/small_linear.h"
#include "kernels/rows/rows.h"
#include "kernels/runtime/cuda_backend.h"
#include "kernels/runtime/operands.h"

namespace plimsoll::kernels {

using backend::View;
using backend::Weight;
using model::Activation;

void CudaBackend::do_linear(View out, View in, const Weight& weight, const Weight& bias,
                            Activation activation, std::byte* workspace) {
  if (footprint_of_device.slices(*weight.spec)) {
    return linear_sums(out, in, weight, bias, activation, workspace);
  }
  if (weight.spec->is_packed()) {
    return linear_packed(out, in, weight, bias, activation, workspace);
  }
  if (is_deterministic()) return linear_pinned(out, in, weight, bias, activation, workspace);
  linear_plain(out, in, weight, bias, activation);
}

void CudaBackend::linear_plain(View out, View in, const Weight& weight, const Weight& bias,
                               Activation activation) {
  // A row has the same bits in any batch only where one kernel serves all row counts.
  const bool is_small = in.rows <= kSmallRows && !is_deterministic();
  const bool alike = among_ranks_ && weight.spec->ranks == 1;
  FewRowsChoice::Way way{.cublaslt = true};
  if (is_small) way = few_rows_.of({out, in, weight, bias, activation, alike});
  const std::optional<Fused> fused =
      way.cublaslt ? products_.run(out, in, weight, bias, activation) : std::nullopt;
  if (!fused) {
    note_small_linear(in, weight);
    return kernels::small_linear({.out = out,
                                  .in = in,
                                  .weight = rows_of(weight),
                                  .bias = vector_of(bias),
                                  .activation = activation,
                                  .feed = way.feed},
                                 stream());
  }
  const bool is_biased = !bias || fused->bias;
  const bool is_activated = activation == Activation::none || fused->activation;
  if (is_biased && is_activated) return;
  kernels::bias_activation(out, is_biased ? Vector{} : vector_of(bias),
                           is_activated ? Activation::none : activation, stream());
}

void CudaBackend::do_fused_linear(const backend::FusedLinear& op,
                                  const backend::FusedParts& parts) {
  FusedSmallLinear fused{.out = op.out,
                         .in = op.in,
                         .weight = rows_of(op.weight),
                         .bias = vector_of(op.bias),
                         .normed = op.norm.present,
                         .epsilon = op.norm.epsilon,
                         .weight_offset = op.norm.weight_offset,
                         .gains = op.norm_weight.data,
                         .end = op.end,
                         .activation = op.activation};
  const bool knows_gains = !op.norm_weight || op.norm_weight.dtype == op.in.dtype;
  const bool is_rms = !op.norm.present || op.norm.kind == model::NormKind::rms;
  if (op.weight.spec->is_packed() || !knows_gains || !is_rms || !covers_fused(fused)) {
    return Backend::do_fused_linear(op, parts);
  }
  // Gates and ups are a product of twice the columns.
  View product = op.out;
  product.columns = product.stride = op.weight.spec->rows();
  const bool alike = among_ranks_ && op.weight.spec->ranks == 1;
  fused.feed = few_rows_.of({product, op.in, op.weight, op.bias, Activation::none, alike}).feed;
  if (fused_types_.insert(op.in.dtype).second) load_fused_linear(op.in.dtype);
  fused_small_linear(fused, stream());
}

void CudaBackend::note_small_linear(const View& in, const Weight& weight) {
  if (small_types_.emplace(in.dtype, weight.dtype).second)
    load_small_linear(in.dtype, weight.dtype);
  if (in.rows <= kSmallRows) return;
  const View matrix = rows_of(weight);
  slow_products_.insert(product_name(in.dtype, weight.dtype, matrix.rows, matrix.columns));
}

void CudaBackend::do_route(const backend::Routing& routing, View logits,
                           const model::RouterSpec& router, const Weight& choice_bias) {
  kernels::route(routing.experts, routing.weights, logits, router, vector_of(choice_bias),
                 stream());
}

void CudaBackend::do_experts(View out, View in, const backend::Routing& routing,
                             const model::MlpSpec& mlp, const backend::ExpertWeights& weights,
                             std::byte* workspace) {
  const auto stack = [&](const Weight& weight) {
    if (!weight.spec->is_packed()) return ExpertStack{weight.data};
    note_packed(*weight.spec, in.dtype);
    return ExpertStack{weight.data, weight.spec, weight.some_experts() ? nullptr : weight.ranks};
  };
  backend::InputRanks* const ranks = weights.down.ranks;
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  const bool adds_bias = leads || weights.down.some_experts();
  const size_t own = footprint().experts_workspace(in.rows, mlp, in.columns, in.dtype);
  Experts op{.out = out,
             .in = in,
             .choices = {routing.experts, routing.weights},
             .mlp = &mlp,
             .first = weights.up.first_expert(),
             .own = weights.up.spec->matrices(),
             .up = stack(weights.up),
             .down = stack(weights.down),
             .up_bias = vector_of(weights.up_bias),
             .down_bias = adds_bias ? vector_of(weights.down_bias) : Vector{},
             .adds_inputs = leads,
             .workspace = workspace,
             .rewritten = workspace + own,
             .one_arrangement = is_deterministic()};
  if (footprint_of_device.slices(*weights.down.spec)) {
    const backend::cuda::SlicedExpertsLayout layout(in.rows, mlp.experts_per_token,
                                                    *weights.up.spec, *weights.down.spec, in.dtype);
    op.down_slices = weights.down.spec->slices;
    op.slices_apart = weights.down.some_experts();
    op.downs = reinterpret_cast<float*>(workspace + own + layout.downs);
    op.waiting = reinterpret_cast<float*>(workspace + own + layout.waiting);
    kernels::experts(op, stream());
    if (op.slices_apart) return join_experts(out, sum_of_experts(op), ranks);
    return join_slices(out, sum_of_experts(op), ranks);
  }
  kernels::experts(op, stream());
  if (ranks != nullptr) ranks->sum(out);
}

}  // namespace plimsoll::kernels
