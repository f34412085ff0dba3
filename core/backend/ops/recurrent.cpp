#include "backend/ops/recurrent.h"

#include "backend/checks.h"

namespace plimsoll::backend::ops {
namespace {

void check_elements(const char* op, const char* what, const Weight& weight, int64_t elements) {
  if (weight && weight.spec->elements() == elements) return;
  disagree("{}: {} has not {} elements", op, what, elements);
}

void check_slots(const char* op, View out, const BatchMeta& batch) {
  if (std::ssize(batch.positions) != out.rows) {
    disagree("{}: {} rows of {} positions", op, out.rows, batch.positions.size());
  }
  if (batch.state_slots.size() != batch.context_length.size())
    disagree("{}: sequences lack slots", op);
}

}  // namespace

void Convolve::check() const {
  check_shape(kName, "in", in, out.rows, spec->width);
  check_shape(kName, "out", out, in.rows, spec->width);
  check_elements(kName, "weight", weight, spec->width * spec->taps);
  if (bias) check_elements(kName, "bias", bias, spec->width);
  if (spec->taps < 1 || spec->taps > model::kMostTaps) disagree("{}: too many taps", kName);
  check_slots(kName, out, *batch);
}

void SelectiveScan::check() const {
  check_shape(kName, "out", out, in.x.rows, spec->width());
  check_shape(kName, "x", in.x, out.rows, spec->width());
  const bool steps = in.step.columns > 0;
  if (steps) check_shape(kName, "step", in.step, out.rows, spec->heads);
  check_shape(kName, "b", in.b, out.rows, spec->groups * spec->state);
  check_shape(kName, "c", in.c, out.rows, spec->groups * spec->state);
  const bool each = weights.decay && weights.decay.spec->elements() > spec->heads;
  check_elements(kName, "decay", weights.decay, each ? spec->heads * spec->state : spec->heads);
  if (steps || weights.skip) check_elements(kName, "skip", weights.skip, spec->heads);
  if (weights.step_bias) check_elements(kName, "step bias", weights.step_bias, spec->heads);
  if (each && spec->head_dim != 1) {
    disagree("{}: heads of several channels have one decay each", kName);
  }
  if (spec->heads % spec->groups != 0) disagree("{}: groups do not divide the heads", kName);
  check_slots(kName, out, *batch);
}

void GatedDelta::check() const {
  check_shape(kName, "out", out, in.v.rows, spec->width());
  check_shape(kName, "v", in.v, out.rows, spec->width());
  check_shape(kName, "q", in.q, out.rows, spec->groups * spec->state);
  check_shape(kName, "k", in.k, out.rows, spec->groups * spec->state);
  check_shape(kName, "beta", in.beta, out.rows, spec->heads);
  const bool each = in.step.columns > spec->heads;  // a decay of each of k's numbers
  check_shape(kName, "step", in.step, out.rows, spec->heads * (each ? spec->state : 1));
  check_elements(kName, "decay", weights.decay_log, spec->heads);
  if (weights.step_bias) check_elements(kName, "step bias", weights.step_bias, in.step.columns);
  if (spec->heads % spec->groups != 0) disagree("{}: groups do not divide the heads", kName);
  check_slots(kName, out, *batch);
}

void LinearRecurrence::check() const {
  check_shape(kName, "out", out, in.x.rows, spec->width());
  check_shape(kName, "x", in.x, out.rows, spec->width());
  check_shape(kName, "gates", in.gates, out.rows, 2 * spec->width());
  check_elements(kName, "decay", decay, spec->width());
  check_slots(kName, out, *batch);
}

}  // namespace plimsoll::backend::ops
