#include "backend/ops/products.h"

#include <vector>

#include "backend/checks.h"

namespace plimsoll::backend::ops {
namespace {

void check_expert_biases(const Weight& biases, const Weight& matrices, int64_t experts) {
  if (!biases || biases.spec->shape == std::vector{experts, matrices.spec->rows()}) return;
  disagree("experts: {} does not match {}", show(biases), show(matrices));
}

/// Number of experts of all ranks.
int64_t experts_of(const Weight& weight) {
  return weight.spec->matrices() * (weight.some_experts() ? weight.spec->ranks : 1);
}

}  // namespace

void Linear::check() const {
  if (!weight || weight.spec->matrices() != 1) disagree("{}: not given one matrix", kName);
  if (in.columns != weight.spec->columns()) {
    disagree("{}: in {} does not match {}", kName, show(in), show(weight));
  }
  if (out.columns != weight.spec->rows()) {
    disagree("{}: out {} does not match {}", kName, show(out), show(weight));
  }
  if (out.rows != in.rows) {
    disagree("{}: out {} does not match in {}", kName, show(out), show(in));
  }
  check_vector(kName, bias, "out", out);
}

size_t Linear::workspace(const Footprint& footprint) const {
  return footprint.linear_workspace(in.rows, *weight.spec, weight.dtype);
}

void FusedLinear::check() const {
  if (!weight || weight.spec->matrices() != 1) disagree("{}: not given one matrix", kName);
  const int64_t parts = end == ProductEnd::gated ? 2 : 1;
  if (out.rows != in.rows || in.columns != weight.spec->columns() ||
      out.columns * parts != weight.spec->rows()) {
    disagree("{}: out {} and in {} do not match {}", kName, show(out), show(in), show(weight));
  }
  if (bias && bias.spec->elements() != weight.spec->rows()) {
    disagree("{}: {} does not match {}", kName, show(bias), show(weight));
  }
  check_vector(kName, norm_weight, "in", in);
}

void MultiplyGates::check() const {
  if (gates.rows != x.rows || gates.dtype != x.dtype || x.columns % gates.columns != 0) {
    disagree("{}: gates {} do not match {}", kName, show(gates), show(x));
  }
}

void LimitGates::check() const {
  if (x.columns % 2 != 0) disagree("{}: {} has no halves", kName, show(x));
}

void GatedActivation::check() const {
  check_shape(kName, "in", in, out.rows, 2 * out.columns);
}

void Xielu::check() const {
  if (!parameters || parameters.spec->elements() != 4) disagree("{}: needs four parameters", kName);
}

void Route::check() const {
  const int64_t chosen = routing.experts.columns;
  check_shape(kName, "experts", routing.experts, logits.rows, routing.weights.columns);
  check_shape(kName, "weights", routing.weights, logits.rows, chosen);
  check_vector(kName, choice_bias, "logits", logits);
  if (logits.columns > model::kMostExperts || logits.columns % router->groups != 0 ||
      router->groups_chosen > router->groups ||
      chosen > logits.columns / router->groups * router->groups_chosen) {
    disagree("{}: {} of logits {} in {} groups, of which {} are chosen", kName, chosen,
             show(logits), router->groups, router->groups_chosen);
  }
  if (router->score == model::RouterScore::sparsemixer && (chosen > 2 || router->groups > 1)) {
    disagree("{}: sparsemixer chooses two of all, not {}", kName, chosen);
  }
}

void Experts::check() const {
  const Weight& up = weights.up;
  const Weight& down = weights.down;
  check_same(kName, "out", out, "in", in);
  check_shape(kName, "routing", routing.experts, in.rows, mlp->experts_per_token);
  if (up.spec->columns() != in.columns || experts_of(up) != mlp->experts) {
    disagree("{}: in {} does not match {}", kName, show(in), show(up));
  }
  if (down.spec->rows() != out.columns || experts_of(down) != mlp->experts) {
    disagree("{}: out {} does not match {}", kName, show(out), show(down));
  }
  if (up.spec->rows() != (mlp->gated ? 2 : 1) * down.spec->columns()) {
    disagree("{}: {} does not match {}", kName, show(up), show(down));
  }
  check_expert_biases(weights.up_bias, up, up.spec->matrices());
  check_expert_biases(weights.down_bias, down, mlp->experts);
}

size_t Experts::workspace(const Footprint& footprint) const {
  const Weight& up = weights.up;
  return footprint.experts_workspace(in.rows, *mlp, in.columns, up.dtype) +
         footprint.expert_inputs_workspace(in.rows, *mlp, *up.spec, *weights.down.spec, up.dtype);
}

}  // namespace plimsoll::backend::ops
