#include "kernels/recurrent/inputs.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/activation.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kTokensOfWarp = 2;  // tokens that a warp brings to shared memory
constexpr int kStage = kWarps * kTokensOfWarp;
constexpr int kWarpColumns = 8;  // of a state: two fours, each of 16 lanes by turns of keys
constexpr int kKeyLanes = 16;
constexpr int kTile = kWarps * kWarpColumns;  // columns of a block: 128 bytes of each key's row
constexpr float kLengthEpsilon = 1e-6f;       // of q and k, beside the sum of squares

/// The op as the kernel reads it.
struct Delta {
  Input q, k, v, beta, step;
  View out;
  Vector decay_log, step_bias;
  backend::StateLayer states;
  int heads, heads_of_group, keys, values, tiles;
  int groups;  // that heads take in turn (model::RecurrentSpec::tiled); else 0
  bool each;   // a decay for each key
  bool packed;
  float beta_factor;
};

/// Part of the output that a block computes: columns [first, first + count) of a head.
struct Tile {
  int64_t sequence;
  int head;
  int group_key;  // column of the head's q and k
  int first;
  int count;
};
__device__ inline Tile tile_of(const Delta& op) {
  const int first = static_cast<int>(blockIdx.x) % op.tiles * kTile;
  const int rest = static_cast<int>(blockIdx.x) / op.tiles;
  const int head = rest % op.heads;
  const int group = op.groups > 0 ? head % op.groups : head / op.heads_of_group;
  return {rest / op.heads, head, group * op.keys, first, min(kTile, op.values - first)};
}

/// Inputs of kStage tokens in shared memory; kQuads fours of a lane's keys.
template <int kQuads>
struct Stage {
  static constexpr int kSlots = kKeyLanes * kQuads * 4;
  float q[kStage][kSlots];  // of length state^-1/2
  float k[kStage][kSlots];  // of length 1
  float decay[kStage][kSlots];
  float v[kStage][kTile];
  float beta[kStage];
};

/// Inputs of a stage that a thread loads ahead of their use.
template <int kQuads>
struct Ahead {
  static constexpr int kRaw = divide_up(Stage<kQuads>::kSlots / 4, 32);
  uint4 q[kTokensOfWarp][kRaw] = {}, k[kTokensOfWarp][kRaw] = {};
  uint4 step[kTokensOfWarp][kRaw] = {}, v[kTokensOfWarp] = {};
  float beta[kTokensOfWarp] = {};

  __device__ void load(const Delta& op, const Tile& tile, const SequenceRows& rows, int base) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int first = base + static_cast<int>(threadIdx.x / 32) * kTokensOfWarp;
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      if (first + i >= rows.count) return;
      const int64_t row = rows.first + first + i;
#pragma unroll
      for (int r = 0; r < kRaw; ++r) {
        const int n = (lane + 32 * r) * 4;
        q[i][r] = load_four(op.q, row, tile.group_key + n, op.keys - n);
        k[i][r] = load_four(op.k, row, tile.group_key + n, op.keys - n);
        if (op.each) step[i][r] = load_four(op.step, row, tile.head * op.keys + n, op.keys - n);
      }
      if (!op.each) step[i][0] = load_four(op.step, row, tile.head, 1);
      v[i] = load_four(op.v, row, tile.head * op.values + tile.first + lane * 4,
                       tile.count - lane * 4);
      beta[i] = load_one(op.beta, row, tile.head);
    }
  }

  __device__ void put(const Delta& op, const Tile& tile, const SequenceRows& rows, int base,
                      Stage<kQuads>& stage) const {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int own = static_cast<int>(threadIdx.x / 32) * kTokensOfWarp;
    const float query_factor = 1.f / sqrtf(static_cast<float>(op.keys));
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const int at = own + i;
      if (base + at >= rows.count) return;
      put_scaled(op.q, q[i], query_factor, stage.q[at]);
      put_scaled(op.k, k[i], 1.f, stage.k[at]);
      put_decays(op, tile, step[i], stage.decay[at]);
      if (lane * 4 < kTile)
        *reinterpret_cast<float4*>(&stage.v[at][lane * 4]) = to_floats(op.v, v[i]);
      if (lane == 0) stage.beta[at] = op.beta_factor * sigmoid(beta[i]);
    }
  }

 private:
  static __device__ void put_scaled(const Input& in, const uint4 (&bits)[kRaw], float factor,
                                    float (&to)[Stage<kQuads>::kSlots]) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    float4 values[kRaw];
    float squares = 0;
#pragma unroll
    for (int r = 0; r < kRaw; ++r) {
      values[r] = to_floats(in, bits[r]);
      const float4 x = values[r];
      squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
    factor /= sqrtf(warp_reduce(squares, Add{}) + kLengthEpsilon);
#pragma unroll
    for (int r = 0; r < kRaw; ++r) {
      const int n = (lane + 32 * r) * 4;
      const float4 x = values[r];
      if (n < Stage<kQuads>::kSlots)
        *reinterpret_cast<float4*>(&to[n]) = {x.x * factor, x.y * factor, x.z * factor,
                                              x.w * factor};
    }
  }

  static __device__ void put_decays(const Delta& op, const Tile& tile, const uint4 (&bits)[kRaw],
                                    float (&to)[Stage<kQuads>::kSlots]) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const float rate = -expf(op.decay_log.at(tile.head));
    const auto decay_of = [&](float step, int at) {
      const float bias = op.step_bias.present() ? op.step_bias.at(at) : 0.f;
      return expf(rate * softplus(step + bias));
    };
    const float one = op.each ? 0.f : decay_of(to_floats(op.step, bits[0]).x, tile.head);
#pragma unroll
    for (int r = 0; r < kRaw; ++r) {
      const float4 steps = to_floats(op.step, bits[r]);
      const float each[4] = {steps.x, steps.y, steps.z, steps.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int n = (lane + 32 * r) * 4 + j;
        const bool own = op.each && n < op.keys;
        if (n < Stage<kQuads>::kSlots)
          to[n] = own ? decay_of(each[j], tile.head * op.keys + n) : one;
      }
    }
  }
};

__device__ inline float part(const float4& four, int i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

/// A thread's part of a head's state: four columns of kQuads * 4 keys.
template <int kQuads>
class State {
 public:
  __device__ State(const Delta& op, const Tile& tile)
      : op_(op),
        tile_(tile),
        key_lane_(static_cast<int>(threadIdx.x % 32) / 2),
        column_(static_cast<int>(threadIdx.x / 32) * kWarpColumns +
                static_cast<int>(threadIdx.x % 2) * 4) {}

  __device__ void load(const SequenceRows& rows) {
    each([&](int i, int key) {
      const int there = rows.starts || key >= op_.keys ? 0 : tile_.count - column_;
      s_[i] = load_state(at(rows, key), there, op_.packed);
    });
  }
  __device__ void store(const SequenceRows& rows) const {
    each([&](int i, int key) {
      const int there = key >= op_.keys ? 0 : tile_.count - column_;
      store_state(at(rows, key), s_[i], there, op_.packed);
    });
  }

  /// One token, the k-th of the stage.
  __device__ void step(const Stage<kQuads>& stage, int k, int64_t row) {
    float read[4] = {};
    each_four([&](int q, int n) {
      const float4 keys = *reinterpret_cast<const float4*>(&stage.k[k][n]);
      const float4 decays = *reinterpret_cast<const float4*>(&stage.decay[k][n]);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float decay = part(decays, r), key = part(keys, r);
        float4& s = s_[q * 4 + r];
        s = {s.x * decay, s.y * decay, s.z * decay, s.w * decay};
        add_product(read, s, key);
      }
    });
    const float4 change = change_of(stage, k, sum_by_keys(read));
    float out[4] = {};
    each_four([&](int q, int n) {
      const float4 keys = *reinterpret_cast<const float4*>(&stage.k[k][n]);
      const float4 queries = *reinterpret_cast<const float4*>(&stage.q[k][n]);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float key = part(keys, r);
        float4& s = s_[q * 4 + r];
        s = {s.x + key * change.x, s.y + key * change.y, s.z + key * change.z,
             s.w + key * change.w};
        add_product(out, s, part(queries, r));
      }
    });
    const float sum = sum_by_keys(out);
    const int own = column_ + own_column();
    if (key_lane_ % kSame == 0 && own < tile_.count)
      store_as(op_.out, row, int64_t{tile_.head} * op_.values + tile_.first + own, sum);
  }

 private:
  static constexpr int kSame = kKeyLanes / 4;  // key lanes that have a column's sum

  template <typename F>
  __device__ void each_four(F f) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) f(q, (q * kKeyLanes + key_lane_) * 4);
  }
  /// f(i, key) for each of the thread's keys.
  template <typename F>
  __device__ void each(F f) const {
    each_four([&](int q, int n) {
#pragma unroll
      for (int r = 0; r < 4; ++r) f(q * 4 + r, n + r);
    });
  }
  static __device__ void add_product(float (&sums)[4], const float4& s, float factor) {
    sums[0] += s.x * factor;
    sums[1] += s.y * factor;
    sums[2] += s.z * factor;
    sums[3] += s.w * factor;
  }
  /// The one of the four columns whose sum over all keys this thread has.
  __device__ int own_column() const {
    return key_lane_ / kSame;
  }
  __device__ float sum_by_keys(float (&sums)[4]) const {
    return sum_by_lane<kKeyLanes, 2>(sums);
  }
  /// beta (v - read) of the four columns; `read` is that of the thread's own column.
  __device__ float4 change_of(const Stage<kQuads>& stage, int k, float read) const {
    const float v = stage.v[k][column_ + own_column()];
    const float own = stage.beta[k] * (v - read);
    const auto from = [&](int column) {
      const int lane = column * kSame * 2 + static_cast<int>(threadIdx.x % 2);
      return __shfl_sync(kAllLanes, own, lane);
    };
    return {from(0), from(1), from(2), from(3)};
  }
  __device__ float* at(const SequenceRows& rows, int key) const {
    return rows.state + (int64_t{tile_.head} * op_.keys + key) * op_.values + tile_.first + column_;
  }

  const Delta& op_;
  const Tile& tile_;
  int key_lane_, column_;
  float4 s_[kQuads * 4];
};

/// A block per sequence, head and tile of its columns.
template <int kQuads>
__global__ void __launch_bounds__(kThreads) delta_kernel(Delta op, DeviceBatch batch) {
  wait_for_previous();
  start_next();
  auto& stage = *shared_array<Stage<kQuads>>();
  const Tile tile = tile_of(op);
  const SequenceRows rows = rows_of(batch, op.states, tile.sequence);
  go_over_rows<kStage, Ahead<kQuads>, State<kQuads>>(op, tile, rows, stage);
}

template <int kQuads>
void launch_delta(const Delta& op, const DeviceBatch& batch, cudaStream_t stream) {
  launch({.grid = dim3(static_cast<unsigned>(batch.sequences * op.heads * op.tiles)),
          .block = dim3(kThreads),
          .shared_bytes = sizeof(Stage<kQuads>),
          .stream = stream},
         "gated_delta", delta_kernel<kQuads>, op, batch);
}

}  // namespace

void gated_delta(const GatedDelta& op, const DeviceBatch& batch, cudaStream_t stream) {
  const model::RecurrentSpec& spec = *op.spec;
  if (spec.state > backend::kMostDeltaKeys)
    throw std::logic_error("gated_delta: keys of " + std::to_string(spec.state));
  Delta delta{.q = input_of(op.in.q),
              .k = input_of(op.in.k),
              .v = input_of(op.in.v),
              .beta = input_of(op.in.beta),
              .step = input_of(op.in.step),
              .out = op.out,
              .decay_log = op.decay_log,
              .step_bias = op.step_bias,
              .states = op.states,
              .heads = static_cast<int>(spec.heads),
              .heads_of_group = static_cast<int>(spec.heads / spec.groups),
              .keys = static_cast<int>(spec.state),
              .values = static_cast<int>(spec.head_dim),
              .tiles = static_cast<int>(divide_up<int64_t>(spec.head_dim, kTile)),
              .groups = spec.tiled ? static_cast<int>(spec.groups) : 0,
              .each = op.in.step.columns > spec.heads,
              .packed = spec.head_dim % 4 == 0,
              .beta_factor = spec.beta_factor};
  // Fours begin at columns group * keys + 4 n and head * values + 4 n.
  for (Input* in : {&delta.q, &delta.k, &delta.step})
    in->packed = in->packed && spec.state % 4 == 0;
  delta.v.packed = delta.v.packed && delta.packed;
  if (spec.state <= 64) return launch_delta<1>(delta, batch, stream);
  if (spec.state <= 128) return launch_delta<2>(delta, batch, stream);
  launch_delta<4>(delta, batch, stream);
}

}  // namespace plimsoll::kernels
