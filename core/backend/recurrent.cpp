// Checks of the recurrent ops.
#include "backend/checks.h"

namespace plimsoll::backend {
namespace {

void check_elements(const char* op, const char* what, const Weight& weight, int64_t elements) {
  if (weight && weight.spec->elements() == elements) return;
  disagree("{}: {} has not {} elements", op, what, elements);
}

void check_slots(const char* op, View out, const BatchMeta& batch) {
  if (batch.positions.size() != static_cast<size_t>(out.rows)) {
    disagree("{}: {} rows of {} positions", op, out.rows, batch.positions.size());
  }
  if (batch.state_slots.size() != batch.context_length.size())
    disagree("{}: sequences lack slots", op);
}

}  // namespace

void Backend::convolve(View out, View in, const model::ConvSpec& spec, const Weight& weight,
                       const Weight& bias, const StateLayer& states, const BatchMeta& batch) {
  check_shape("convolve", "in", in, out.rows, spec.width);
  check_shape("convolve", "out", out, in.rows, spec.width);
  check_elements("convolve", "weight", weight, spec.width * spec.taps);
  if (bias) check_elements("convolve", "bias", bias, spec.width);
  if (spec.taps < 1 || spec.taps > model::kMostTaps) disagree("convolve: too many taps");
  check_slots("convolve", out, batch);
  if (runs(out)) do_convolve(out, in, spec, weight, bias, states, batch);
}

void Backend::selective_scan(View out, const ScanInputs& in, const model::RecurrentSpec& spec,
                             const ScanWeights& weights, const StateLayer& states,
                             const BatchMeta& batch) {
  constexpr const char* kOp = "selective_scan";
  check_shape(kOp, "out", out, in.x.rows, spec.width());
  check_shape(kOp, "x", in.x, out.rows, spec.width());
  const bool steps = in.step.columns > 0;
  if (steps) check_shape(kOp, "step", in.step, out.rows, spec.heads);
  check_shape(kOp, "b", in.b, out.rows, spec.groups * spec.state);
  check_shape(kOp, "c", in.c, out.rows, spec.groups * spec.state);
  const bool each = weights.decay && weights.decay.spec->elements() > spec.heads;
  check_elements(kOp, "decay", weights.decay, each ? spec.heads * spec.state : spec.heads);
  if (steps || weights.skip) check_elements(kOp, "skip", weights.skip, spec.heads);
  if (weights.step_bias) check_elements(kOp, "step bias", weights.step_bias, spec.heads);
  if (each && spec.head_dim != 1)
    disagree("{}: heads of several channels have one decay each", kOp);
  if (spec.heads % spec.groups != 0) disagree("{}: groups do not divide the heads", kOp);
  check_slots(kOp, out, batch);
  if (runs(out)) do_selective_scan(out, in, spec, weights, states, batch);
}

void Backend::gated_delta(View out, const DeltaInputs& in, const model::RecurrentSpec& spec,
                          const DeltaWeights& weights, const StateLayer& states,
                          const BatchMeta& batch) {
  constexpr const char* kOp = "gated_delta";
  check_shape(kOp, "out", out, in.v.rows, spec.width());
  check_shape(kOp, "v", in.v, out.rows, spec.width());
  check_shape(kOp, "q", in.q, out.rows, spec.groups * spec.state);
  check_shape(kOp, "k", in.k, out.rows, spec.groups * spec.state);
  check_shape(kOp, "beta", in.beta, out.rows, spec.heads);
  const bool each = in.step.columns > spec.heads;  // a decay of each of k's numbers
  check_shape(kOp, "step", in.step, out.rows, spec.heads * (each ? spec.state : 1));
  check_elements(kOp, "decay", weights.decay_log, spec.heads);
  if (weights.step_bias) check_elements(kOp, "step bias", weights.step_bias, in.step.columns);
  if (spec.heads % spec.groups != 0) disagree("{}: groups do not divide the heads", kOp);
  check_slots(kOp, out, batch);
  if (runs(out)) do_gated_delta(out, in, spec, weights, states, batch);
}

void Backend::linear_recurrence(View out, const LruInputs& in, const model::RecurrentSpec& spec,
                                const Weight& decay, const StateLayer& states,
                                const BatchMeta& batch) {
  constexpr const char* kOp = "linear_recurrence";
  check_shape(kOp, "out", out, in.x.rows, spec.width());
  check_shape(kOp, "x", in.x, out.rows, spec.width());
  check_shape(kOp, "gates", in.gates, out.rows, 2 * spec.width());
  check_elements(kOp, "decay", decay, spec.width());
  check_slots(kOp, out, batch);
  if (runs(out)) do_linear_recurrence(out, in, spec, decay, states, batch);
}

void Backend::do_convolve(View, View, const model::ConvSpec&, const Weight&, const Weight&,
                          const StateLayer&, const BatchMeta&) {
  disagree("convolve: the {} backend has no such kernel", footprint_.name());
}

void Backend::do_selective_scan(View, const ScanInputs&, const model::RecurrentSpec&,
                                const ScanWeights&, const StateLayer&, const BatchMeta&) {
  disagree("selective_scan: the {} backend has no such kernel", footprint_.name());
}

void Backend::do_gated_delta(View, const DeltaInputs&, const model::RecurrentSpec&,
                             const DeltaWeights&, const StateLayer&, const BatchMeta&) {
  disagree("gated_delta: the {} backend has no such kernel", footprint_.name());
}

void Backend::do_linear_recurrence(View, const LruInputs&, const model::RecurrentSpec&,
                                   const Weight&, const StateLayer&, const BatchMeta&) {
  disagree("linear_recurrence: the {} backend has no such kernel", footprint_.name());
}

}  // namespace plimsoll::backend
