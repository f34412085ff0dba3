// Checks and workspaces of fused products, MLPs and experts.
#include <vector>

#include "backend/checks.h"

namespace plimsoll::backend {
namespace {

void check_expert_biases(const Weight& biases, const Weight& matrices, int64_t experts) {
  if (!biases || biases.spec->shape == std::vector{experts, matrices.spec->rows()}) return;
  disagree("experts: {} does not match {}", show(biases), show(matrices));
}

/// Number of experts of all ranks.
int64_t experts_of(const Weight& weight) {
  return weight.spec->matrices() * (weight.some_experts() ? weight.spec->ranks : 1);
}

View take_rows(memory::Arena& scratch, std::string_view name, View like, int64_t columns) {
  const size_t bytes = static_cast<size_t>(like.rows * columns) * dtype_size(like.dtype);
  return {scratch.take(name, bytes), like.dtype, like.rows, columns, columns};
}

void check_fused(const FusedLinear& op) {
  const Weight& weight = op.weight;
  if (!weight || weight.spec->matrices() != 1) disagree("fused_linear: not given one matrix");
  const int64_t parts = op.end == ProductEnd::gated ? 2 : 1;
  if (op.out.rows != op.in.rows || op.in.columns != weight.spec->columns() ||
      op.out.columns * parts != weight.spec->rows()) {
    disagree("fused_linear: out {} and in {} do not match {}", show(op.out), show(op.in),
             show(weight));
  }
  if (op.bias && op.bias.spec->elements() != weight.spec->rows()) {
    disagree("fused_linear: {} does not match {}", show(op.bias), show(weight));
  }
  check_vector("fused_linear", op.norm_weight, "in", op.in);
}

}  // namespace

void Backend::fused_linear(const FusedLinear& op) {
  check_fused(op);
  const memory::Scope scope(*scratch_);
  FusedParts parts{.normed = {}, .product = op.out};
  if (op.norm.present) parts.normed = take_rows(*scratch_, "normed", op.in, op.in.columns);
  if (op.end != ProductEnd::stored) {
    parts.product = take_rows(*scratch_, "product", op.out, op.weight.spec->rows());
  }
  parts.workspace = static_cast<std::byte*>(
      scratch_->take("linear workspace",
                     footprint_.linear_workspace(op.in.rows, *op.weight.spec, op.weight.dtype)));
  if (runs(op.out)) do_fused_linear(op, parts);
}

void Backend::do_fused_linear(const FusedLinear& op, const FusedParts& parts) {
  if (op.norm.present) do_norm(parts.normed, op.in, op.norm, op.norm_weight, {});
  do_linear(parts.product, op.norm.present ? parts.normed : op.in, op.weight, op.bias,
            model::Activation::none, parts.workspace);
  if (op.end == ProductEnd::added) do_add(op.out, parts.product);
  if (op.end == ProductEnd::gated) do_gated_activation(op.out, parts.product, op.activation);
}

void Backend::multiply_gates(View x, View gates, model::GateKind kind) {
  if (gates.rows != x.rows || gates.dtype != x.dtype || x.columns % gates.columns != 0) {
    disagree("multiply_gates: gates {} do not match {}", show(gates), show(x));
  }
  if (runs(x)) do_multiply_gates(x, gates, kind);
}

void Backend::xielu(View x, const Weight& parameters) {
  if (!parameters || parameters.spec->elements() != 4) disagree("xielu: needs four parameters");
  if (runs(x)) do_xielu(x, parameters);
}

void Backend::limit_gates(View x, const model::GateLimits& limits) {
  if (x.columns % 2 != 0) disagree("limit_gates: {} has no halves", show(x));
  if (runs(x)) do_limit_gates(x, limits);
}

void Backend::gated_activation(View out, View in, model::Activation activation) {
  check_shape("gated_activation", "in", in, out.rows, 2 * out.columns);
  if (runs(out)) do_gated_activation(out, in, activation);
}

void Backend::route(const Routing& routing, View logits, const model::RouterSpec& router,
                    const Weight& choice_bias) {
  const int64_t chosen = routing.experts.columns;
  check_shape("route", "experts", routing.experts, logits.rows, routing.weights.columns);
  check_shape("route", "weights", routing.weights, logits.rows, chosen);
  check_vector("route", choice_bias, "logits", logits);
  if (logits.columns > model::kMostExperts || logits.columns % router.groups != 0 ||
      router.groups_chosen > router.groups ||
      chosen > logits.columns / router.groups * router.groups_chosen) {
    disagree("route: {} of logits {} in {} groups, of which {} are chosen", chosen, show(logits),
             router.groups, router.groups_chosen);
  }
  if (router.score == model::RouterScore::sparsemixer && (chosen > 2 || router.groups > 1)) {
    disagree("route: sparsemixer chooses two of all, not {}", chosen);
  }
  if (runs(logits)) do_route(routing, logits, router, choice_bias);
}

void Backend::experts(View out, View in, const Routing& routing, const model::MlpSpec& mlp,
                      const ExpertWeights& weights) {
  const Weight& up = weights.up;
  const Weight& down = weights.down;
  check_same("experts", "out", out, "in", in);
  check_shape("experts", "routing", routing.experts, in.rows, mlp.experts_per_token);
  if (up.spec->columns() != in.columns || experts_of(up) != mlp.experts) {
    disagree("experts: in {} does not match {}", show(in), show(up));
  }
  if (down.spec->rows() != out.columns || experts_of(down) != mlp.experts) {
    disagree("experts: out {} does not match {}", show(out), show(down));
  }
  if (up.spec->rows() != (mlp.gated ? 2 : 1) * down.spec->columns()) {
    disagree("experts: {} does not match {}", show(up), show(down));
  }
  check_expert_biases(weights.up_bias, up, up.spec->matrices());
  check_expert_biases(weights.down_bias, down, mlp.experts);
  const memory::Scope scope(*scratch_);
  const size_t bytes =
      footprint_.experts_workspace(in.rows, mlp, in.columns, up.dtype) +
      footprint_.expert_inputs_workspace(in.rows, mlp, *up.spec, *down.spec, up.dtype);
  auto* workspace = static_cast<std::byte*>(scratch_->take("experts workspace", bytes));
  if (runs(out)) do_experts(out, in, routing, mlp, weights, workspace);
}

}  // namespace plimsoll::backend
