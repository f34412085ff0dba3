// Recurrent mixers on a device. A sequence's rows are taken in their order, token by token, so that
// no row's bits depend on how steps cut the sequence; what is parallel are heads and columns.
// States are float32, one slot for each sequence, which its first row at position 0 begins with
// zeros. Padding (sequences of context length 0) neither reads nor writes a slot.
//
// A step of decode is bound by memory: each state is read and written once, 16 bytes at a time. In
// prefill it stays in registers while a sequence's rows go by, and the inputs of the next rows are
// loaded while the ones before are worked on. Designed for that; not measured on a card yet.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// out [T, width] = activation(causal convolution of in + bias); `out` is not `in`. `weight` is
/// [width, taps], the oldest token's first; the state [taps - 1, width], the oldest row first.
struct Convolve {
  View out, in;
  model::ConvSpec spec{};
  Vector weight{};
  Vector bias{};  // [width] or none
  backend::StateLayer states{};
};
void convolve(const Convolve& op, const DeviceBatch& batch, cudaStream_t stream);

/// backend::ops::SelectiveScan; the state is [heads * head_dim, state], of at most kMostScanState.
struct SelectiveScan {
  View out;
  backend::ScanInputs in;
  const model::RecurrentSpec* spec = nullptr;
  Vector decay{};  // [heads], or [heads, state] where `decays_each`
  bool decays_each = false;
  Vector skip{}, step_bias{};  // [heads] or none
  backend::StateLayer states{};
};
void selective_scan(const SelectiveScan& op, const DeviceBatch& batch, cudaStream_t stream);

/// backend::ops::GatedDelta; the state is [heads, state, head_dim], of at most kMostDeltaKeys.
struct GatedDelta {
  View out;
  backend::DeltaInputs in;
  const model::RecurrentSpec* spec = nullptr;
  Vector decay_log{};  // [heads]
  Vector step_bias{};  // as long as a row of steps, or none
  backend::StateLayer states{};
};
void gated_delta(const GatedDelta& op, const DeviceBatch& batch, cudaStream_t stream);

/// backend::ops::LinearRecurrence; `decay` and the state are [width].
struct LinearRecurrence {
  View out;
  backend::LruInputs in;
  int64_t head_dim = 0;
  Vector decay{};
  backend::StateLayer states{};
};
void linear_recurrence(const LinearRecurrence& op, const DeviceBatch& batch, cudaStream_t stream);

}  // namespace plimsoll::kernels
