// Products of the CUDA backend, alone, fused and of experts: on which kernels they run.
#include "backend/cuda/slices.h"
#include "kernels/backend/cuda_backend.h"
#include "kernels/products/experts.h"
#include "kernels/products/small_linear.h"
#include "kernels/rows/rows.h"
#include "kernels/runtime/operands.h"

namespace plimsoll::kernels {

using backend::View;
using backend::Weight;
using model::Activation;

void CudaBackend::compute(const ops::Linear& op, std::byte* workspace) {
  if (footprint_of_device.slices(*op.weight.spec)) return linear_sums(op, workspace);
  if (op.weight.spec->is_packed()) return linear_packed(op, workspace);
  if (is_deterministic()) return linear_pinned(op, workspace);
  linear_plain(op);
}

void CudaBackend::linear_plain(const ops::Linear& op) {
  const auto& [out, in, weight, bias, activation] = op;
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

bool CudaBackend::fuse(const ops::FusedLinear& op) {
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
    return false;
  }
  // Gates and ups are a product of twice the columns.
  View product = op.out;
  product.columns = product.stride = op.weight.spec->rows();
  const bool alike = among_ranks_ && op.weight.spec->ranks == 1;
  fused.feed = few_rows_.of({product, op.in, op.weight, op.bias, Activation::none, alike}).feed;
  if (fused_types_.insert(op.in.dtype).second) load_fused_linear(op.in.dtype);
  fused_small_linear(fused, stream());
  return true;
}

void CudaBackend::note_small_linear(const View& in, const Weight& weight) {
  if (small_types_.emplace(in.dtype, weight.dtype).second)
    load_small_linear(in.dtype, weight.dtype);
  if (in.rows <= kSmallRows) return;
  const View matrix = rows_of(weight);
  slow_products_.insert(product_name(in.dtype, weight.dtype, matrix.rows, matrix.columns));
}

void CudaBackend::compute(const ops::Route& op) {
  kernels::route(op.routing.experts, op.routing.weights, op.logits, *op.router,
                 vector_of(op.choice_bias), stream());
}

void CudaBackend::compute(const ops::Experts& op, std::byte* workspace) {
  const model::MlpSpec& mlp = *op.mlp;
  const auto stack = [&](const Weight& weight) {
    if (!weight.spec->is_packed()) return ExpertStack{weight.data};
    note_packed(*weight.spec, op.in.dtype);
    return ExpertStack{weight.data, weight.spec, weight.some_experts() ? nullptr : weight.ranks};
  };
  backend::InputRanks* const ranks = op.weights.down.ranks;
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  const bool adds_bias = leads || op.weights.down.some_experts();
  const size_t own = footprint().experts_workspace(op.in.rows, mlp, op.in.columns, op.in.dtype);
  Experts launch{.out = op.out,
                 .in = op.in,
                 .choices = {op.routing.experts, op.routing.weights},
                 .mlp = &mlp,
                 .first = op.weights.up.first_expert(),
                 .own = op.weights.up.spec->matrices(),
                 .up = stack(op.weights.up),
                 .down = stack(op.weights.down),
                 .up_bias = vector_of(op.weights.up_bias),
                 .down_bias = adds_bias ? vector_of(op.weights.down_bias) : Vector{},
                 .adds_inputs = leads,
                 .workspace = workspace,
                 .rewritten = workspace + own,
                 .one_arrangement = is_deterministic()};
  if (footprint_of_device.slices(*op.weights.down.spec)) {
    const backend::cuda::SlicedExpertsLayout layout(
        op.in.rows, mlp.experts_per_token, *op.weights.up.spec, *op.weights.down.spec, op.in.dtype);
    launch.down_slices = op.weights.down.spec->slices;
    launch.slices_apart = op.weights.down.some_experts();
    launch.downs = reinterpret_cast<float*>(workspace + own + layout.downs);
    launch.waiting = reinterpret_cast<float*>(workspace + own + layout.waiting);
    kernels::experts(launch, stream());
    if (launch.slices_apart) return join_experts(op.out, sum_of_experts(launch), ranks);
    return join_slices(op.out, sum_of_experts(launch), ranks);
  }
  kernels::experts(launch, stream());
  if (ranks != nullptr) ranks->all_reduce_sum(op.out);
}

}  // namespace plimsoll::kernels
