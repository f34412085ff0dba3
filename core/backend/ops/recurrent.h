// Recurrent ops: each sequence continues from its state, or from zeros where its first row is
// position 0, and stores its state after its last row. No row's bits depend on how a sequence's
// rows are cut into steps.
#pragma once

#include "backend/batch_meta.h"
#include "backend/operands.h"
#include "backend/ops/op.h"

namespace plimsoll::backend::ops {

/// out [T, width] = activation(causal convolution of in + bias). The state is [taps - 1, width],
/// the oldest row first. `bias` may be empty.
struct Convolve {
  static constexpr const char* kName = "convolve";
  View out, in;
  Ref<model::ConvSpec> spec;
  Weight weight, bias;
  StateLayer states;
  Ref<BatchMeta> batch;
  void check() const;
};

/// Selective scan of a state space, by head, with d = softplus(step + bias): h = exp(d A) h + d x
/// B^T, out = h C + D x. The state is [heads, head_dim, state].
struct SelectiveScan {
  static constexpr const char* kName = "selective_scan";
  View out;
  ScanInputs in;
  Ref<model::RecurrentSpec> spec;
  ScanWeights weights;
  StateLayer states;
  Ref<BatchMeta> batch;
  void check() const;
};

/// Gated delta rule, by head, with q and k scaled to length 1, q by state^-1/2 too, beta = factor *
/// sigmoid(beta), g = -exp(A_log) softplus(step + bias): S = exp(g) S; S += k (beta (v - S^T k))^T;
/// out = S^T q. The state is [heads, state, head_dim].
struct GatedDelta {
  static constexpr const char* kName = "gated_delta";
  View out;
  DeltaInputs in;
  Ref<model::RecurrentSpec> spec;
  DeltaWeights weights;
  StateLayer states;
  Ref<BatchMeta> batch;
  void check() const;
};

/// Gated linear recurrence of each channel by itself, with gates i and r: a = exp(-8 r
/// softplus(decay)), h = a h + (1 - a^2)^1/2 i x, at position 0 h = i x; out = h. `decay` is
/// [width]; the state is [width].
struct LinearRecurrence {
  static constexpr const char* kName = "linear_recurrence";
  View out;
  LruInputs in;
  Ref<model::RecurrentSpec> spec;
  Weight decay;
  StateLayer states;
  Ref<BatchMeta> batch;
  void check() const;
};

}  // namespace plimsoll::backend::ops
