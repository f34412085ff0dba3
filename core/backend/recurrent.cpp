// Checks of the recurrent ops.
#include <fmt/format.h>

#include <stdexcept>

#include "backend/backend.h"

namespace plimsoll::backend {
namespace {

[[noreturn]] void refuse_shape(std::string_view op, std::string_view what) {
  throw std::logic_error(fmt::format("{}: {}", op, what));
}

void check(std::string_view op, std::string_view what, View view, int64_t rows, int64_t columns) {
  if (view.rows == rows && view.columns == columns && view.stride >= columns) return;
  refuse_shape(
      op, fmt::format("{} [{}, {}] is not [{}, {}]", what, view.rows, view.columns, rows, columns));
}

void check(std::string_view op, std::string_view what, const Weight& weight, int64_t elements) {
  if (weight && weight.spec->elements() == elements) return;
  refuse_shape(op, fmt::format("{} has not {} elements", what, elements));
}

void check_slots(std::string_view op, View out, const BatchMeta& batch) {
  if (batch.positions.size() != static_cast<size_t>(out.rows)) {
    refuse_shape(op, fmt::format("{} rows of {} positions", out.rows, batch.positions.size()));
  }
  if (batch.state_slots.size() != batch.context_length.size())
    refuse_shape(op, "sequences lack slots");
}

}  // namespace

void Backend::convolve(View out, View in, const model::ConvSpec& spec, const Weight& weight,
                       const Weight& bias, const StateLayer& states, const BatchMeta& batch) {
  check("convolve", "in", in, out.rows, spec.width);
  check("convolve", "out", out, in.rows, spec.width);
  check("convolve", "weight", weight, spec.width * spec.taps);
  if (bias) check("convolve", "bias", bias, spec.width);
  if (spec.taps < 1 || spec.taps > model::kMostTaps) refuse_shape("convolve", "too many taps");
  check_slots("convolve", out, batch);
  if (runs(out)) do_convolve(out, in, spec, weight, bias, states, batch);
}

void Backend::selective_scan(View out, const ScanInputs& in, const model::RecurrentSpec& spec,
                             const ScanWeights& weights, const StateLayer& states,
                             const BatchMeta& batch) {
  constexpr std::string_view kOp = "selective_scan";
  check(kOp, "out", out, in.x.rows, spec.width());
  check(kOp, "x", in.x, out.rows, spec.width());
  const bool steps = in.step.columns > 0;
  if (steps) check(kOp, "step", in.step, out.rows, spec.heads);
  check(kOp, "b", in.b, out.rows, spec.groups * spec.state);
  check(kOp, "c", in.c, out.rows, spec.groups * spec.state);
  const bool each = weights.decay && weights.decay.spec->elements() > spec.heads;
  check(kOp, "decay", weights.decay, each ? spec.heads * spec.state : spec.heads);
  if (steps || weights.skip) check(kOp, "skip", weights.skip, spec.heads);
  if (weights.step_bias) check(kOp, "step bias", weights.step_bias, spec.heads);
  if (each && spec.head_dim != 1)
    refuse_shape(kOp, "heads of several channels have one decay each");
  if (spec.heads % spec.groups != 0) refuse_shape(kOp, "groups do not divide the heads");
  check_slots(kOp, out, batch);
  if (runs(out)) do_selective_scan(out, in, spec, weights, states, batch);
}

void Backend::gated_delta(View out, const DeltaInputs& in, const model::RecurrentSpec& spec,
                          const DeltaWeights& weights, const StateLayer& states,
                          const BatchMeta& batch) {
  constexpr std::string_view kOp = "gated_delta";
  check(kOp, "out", out, in.v.rows, spec.width());
  check(kOp, "v", in.v, out.rows, spec.width());
  check(kOp, "q", in.q, out.rows, spec.groups * spec.state);
  check(kOp, "k", in.k, out.rows, spec.groups * spec.state);
  check(kOp, "beta", in.beta, out.rows, spec.heads);
  const bool each = in.step.columns > spec.heads;  // a decay of each of k's numbers
  check(kOp, "step", in.step, out.rows, spec.heads * (each ? spec.state : 1));
  check(kOp, "decay", weights.decay_log, spec.heads);
  if (weights.step_bias) check(kOp, "step bias", weights.step_bias, in.step.columns);
  if (spec.heads % spec.groups != 0) refuse_shape(kOp, "groups do not divide the heads");
  check_slots(kOp, out, batch);
  if (runs(out)) do_gated_delta(out, in, spec, weights, states, batch);
}

void Backend::linear_recurrence(View out, const LruInputs& in, const model::RecurrentSpec& spec,
                                const Weight& decay, const StateLayer& states,
                                const BatchMeta& batch) {
  constexpr std::string_view kOp = "linear_recurrence";
  check(kOp, "out", out, in.x.rows, spec.width());
  check(kOp, "x", in.x, out.rows, spec.width());
  check(kOp, "gates", in.gates, out.rows, 2 * spec.width());
  check(kOp, "decay", decay, spec.width());
  check_slots(kOp, out, batch);
  if (runs(out)) do_linear_recurrence(out, in, spec, decay, states, batch);
}

void Backend::do_convolve(View, View, const model::ConvSpec&, const Weight&, const Weight&,
                          const StateLayer&, const BatchMeta&) {
  refuse_shape("convolve", fmt::format("the {} backend has no such kernel", footprint_.name()));
}

void Backend::do_selective_scan(View, const ScanInputs&, const model::RecurrentSpec&,
                                const ScanWeights&, const StateLayer&, const BatchMeta&) {
  refuse_shape("selective_scan",
               fmt::format("the {} backend has no such kernel", footprint_.name()));
}

void Backend::do_gated_delta(View, const DeltaInputs&, const model::RecurrentSpec&,
                             const DeltaWeights&, const StateLayer&, const BatchMeta&) {
  refuse_shape("gated_delta", fmt::format("the {} backend has no such kernel", footprint_.name()));
}

void Backend::do_linear_recurrence(View, const LruInputs&, const model::RecurrentSpec&,
                                   const Weight&, const StateLayer&, const BatchMeta&) {
  refuse_shape("linear_recurrence",
               fmt::format("the {} backend has no such kernel", footprint_.name()));
}

}  // namespace plimsoll::backend
