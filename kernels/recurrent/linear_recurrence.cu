#include "kernels/recurrent/inputs.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/activation.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kChannels = 32;     // of a block: a warp's lanes
constexpr int kWarps = 4;         // of which each prepares every fourth token
constexpr int kTokensOfWarp = 4;  // in turn
constexpr int kStage = kWarps * kTokensOfWarp;
constexpr float kSharpness = -8.f;  // Griffin's c

/// The op as the kernel reads it.
struct Recurrence {
  Input x, gates;
  View out;
  Vector decay;
  backend::StateLayer states;
  int64_t width, head_dim;
};

/// Inputs of its tokens that a thread loads ahead of their use.
struct Ahead {
  float x[kTokensOfWarp] = {}, input_gate[kTokensOfWarp] = {}, decay_gate[kTokensOfWarp] = {};

  __device__ void load(const Recurrence& op, const SequenceRows& rows, int base, int64_t channel) {
    const int64_t head = channel / op.head_dim;
    const int64_t gate = channel + head * op.head_dim;  // a head's of x, then of its decay
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const int k = base + i * kWarps + static_cast<int>(threadIdx.x / 32);
      if (k >= rows.count || channel >= op.width) return;
      x[i] = load_one(op.x, rows.first + k, channel);
      input_gate[i] = load_one(op.gates, rows.first + k, gate);
      decay_gate[i] = load_one(op.gates, rows.first + k, gate + op.head_dim);
    }
  }
};

/// h = decay h + input of each token and channel, and then what h became.
struct Stage {
  float decay[kStage][kChannels];
  float input[kStage][kChannels];
  float h[kStage][kChannels];
};

/// A block per sequence and kChannels channels: four warps prepare tokens, one takes them in order.
__global__ void __launch_bounds__(kWarps * 32) recurrence_kernel(Recurrence op, DeviceBatch batch) {
  wait_for_previous();
  start_next();
  auto& stage = *shared_array<Stage>();
  const auto tiles = static_cast<int>(divide_up<int64_t>(op.width, kChannels));
  const auto lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int64_t channel = int64_t{static_cast<int>(blockIdx.x) % tiles} * kChannels + lane;
  const bool there = channel < op.width;
  const SequenceRows rows = rows_of(batch, op.states, static_cast<int>(blockIdx.x) / tiles);
  Ahead ahead;
  ahead.load(op, rows, 0, channel);
  const float rate = there ? kSharpness * softplus(op.decay.at(channel)) : 0.f;
  float h = there && warp == 0 && !rows.starts ? rows.state[channel] : 0.f;
  for (int base = 0; base < rows.count; base += kStage) {
    const int tokens = min(kStage, rows.count - base);
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const float decay = rate * sigmoid(ahead.decay_gate[i]);
      const float input = sigmoid(ahead.input_gate[i]) * ahead.x[i];
      const bool begins = rows.starts && base + i + warp == 0;
      stage.decay[i * kWarps + warp][lane] = expf(decay);
      stage.input[i * kWarps + warp][lane] = begins ? input : sqrtf(-expm1f(decay + decay)) * input;
    }
    __syncthreads();
    ahead.load(op, rows, base + kStage, channel);
    if (warp == 0)
      for (int k = 0; k < tokens; ++k)
        stage.h[k][lane] = h = stage.decay[k][lane] * h + stage.input[k][lane];
    __syncthreads();
    for (int k = warp; k < tokens; k += kWarps)
      if (there) store_as(op.out, rows.first + base + k, channel, stage.h[k][lane]);
  }
  if (there && warp == 0 && rows.keeps) rows.state[channel] = h;
}

}  // namespace

void linear_recurrence(const LinearRecurrence& op, const DeviceBatch& batch, cudaStream_t stream) {
  const Recurrence recurrence{.x = input_of(op.in.x),
                              .gates = input_of(op.in.gates),
                              .out = op.out,
                              .decay = op.decay,
                              .states = op.states,
                              .width = op.out.columns,
                              .head_dim = op.head_dim};
  const int64_t blocks = batch.sequences * divide_up<int64_t>(op.out.columns, kChannels);
  launch({.grid = dim3(static_cast<unsigned>(blocks)),
          .block = dim3(kWarps * 32),
          .shared_bytes = sizeof(Stage),
          .stream = stream},
         "linear_recurrence", recurrence_kernel, recurrence, batch);
}

}  // namespace plimsoll::kernels
