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

/// How a block shares out the states of its channels: kLanes threads have a channel's numbers, four
/// by four in turn, and each has kQuads fours of each of kChannels channels.
template <int kLanesOf, int kQuadsOf, int kChannelsOf, bool kEachOf>
struct Shares {
  static constexpr int kLanes = kLanesOf, kQuads = kQuadsOf, kChannels = kChannelsOf;
  static constexpr bool kEach = kEachOf;                       // a decay for each number
  static constexpr int kTile = kThreads / kLanes * kChannels;  // channels of a block
  static constexpr int kSlots = kLanes * kQuads * 4;           // numbers of a channel
  static constexpr int kRaw = divide_up(kSlots / 4, 32);       // fours of a lane when B is loaded
  static constexpr int kSteps = divide_up(kTile, 32);
  static constexpr int kBlocks = kEach && kQuads > 1 ? 2 : 3;  // of a processor at least
};

/// The op as the kernel reads it. Channels are heads * head_dim; those of a group share B and C.
struct Scan {
  Input x, step, b, c, decays;  // decays [channels, state], where each number has its own
  View out;
  Vector decay, skip, step_bias;
  backend::StateLayer states;
  int head_dim, state, group_channels, tiles;
  bool steps, packed;
};

/// Channels of a sequence that a block computes.
struct Tile {
  int64_t sequence;
  int group;
  int first;  // channel
  int count;
};
template <typename S>
__device__ Tile tile_of(const Scan& op, int groups) {
  const int of_group = static_cast<int>(blockIdx.x) % op.tiles * S::kTile;
  const int rest = static_cast<int>(blockIdx.x) / op.tiles;
  const int group = rest % groups;
  return {rest / groups, group, group * op.group_channels + of_group,
          min(S::kTile, op.group_channels - of_group)};
}

/// Inputs of kStage tokens in shared memory.
template <typename S>
struct Stage {
  float b[kStage][S::kSlots];
  float c[kStage][S::kSlots];
  float x[kStage][S::kTile];
  float size[kStage][S::kTile];   // softplus(step + bias)
  float decay[kStage][S::kTile];  // of a head
};

/// Inputs of a stage that a thread loads ahead of their use.
template <typename S>
struct Ahead {
  uint4 b[kTokensOfWarp][S::kRaw] = {}, c[kTokensOfWarp][S::kRaw] = {}, x[kTokensOfWarp] = {};
  float step[kTokensOfWarp][S::kSteps] = {};

  __device__ void load(const Scan& op, const Tile& tile, const SequenceRows& rows, int base) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int first = base + static_cast<int>(threadIdx.x / 32) * kTokensOfWarp;
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      if (first + i >= rows.count) return;
      const int64_t row = rows.first + first + i;
#pragma unroll
      for (int r = 0; r < S::kRaw; ++r) {
        const int n = (lane + 32 * r) * 4;
        b[i][r] = load_four(op.b, row, tile.group * op.state + n, op.state - n);
        c[i][r] = load_four(op.c, row, tile.group * op.state + n, op.state - n);
      }
      x[i] = load_four(op.x, row, tile.first + lane * 4, tile.count - lane * 4);
#pragma unroll
      for (int r = 0; r < S::kSteps; ++r) {
        const int channel = lane + 32 * r;
        if (op.steps && channel < tile.count)
          step[i][r] = load_one(op.step, row, (tile.first + channel) / op.head_dim);
      }
    }
  }

  __device__ void put(const Scan& op, const Tile& tile, const SequenceRows& rows, int base,
                      Stage<S>& stage) const {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int own = static_cast<int>(threadIdx.x / 32) * kTokensOfWarp;
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const int k = own + i;
      if (base + k >= rows.count) return;
#pragma unroll
      for (int r = 0; r < S::kRaw; ++r) {
        const int n = (lane + 32 * r) * 4;
        if (n >= S::kSlots) continue;
        *reinterpret_cast<float4*>(&stage.b[k][n]) = to_floats(op.b, b[i][r]);
        *reinterpret_cast<float4*>(&stage.c[k][n]) = to_floats(op.c, c[i][r]);
      }
      if (lane * 4 < S::kTile)
        *reinterpret_cast<float4*>(&stage.x[k][lane * 4]) = to_floats(op.x, x[i]);
#pragma unroll
      for (int r = 0; r < S::kSteps; ++r) put_step(op, tile, lane + 32 * r, step[i][r], k, stage);
    }
  }

 private:
  static __device__ void put_step(const Scan& op, const Tile& tile, int channel, float step, int k,
                                  Stage<S>& stage) {
    if (channel >= S::kTile) return;
    const bool there = channel < tile.count;
    const int head = there ? (tile.first + channel) / op.head_dim : 0;
    const float bias = op.step_bias.present() ? op.step_bias.at(head) : 0.f;
    const float size = !there ? 0.f : (op.steps ? softplus(step + bias) : 1.f);
    stage.size[k][channel] = size;
    if (!S::kEach) stage.decay[k][channel] = expf(size * op.decay.at(head));
  }
};

/// The states of a thread's channels.
template <typename S>
class States {
 public:
  __device__ States(const Scan& op, const Tile& tile)
      : op_(op),
        lane_(static_cast<int>(threadIdx.x) % S::kLanes),
        own_(static_cast<int>(threadIdx.x) / S::kLanes * S::kChannels),
        channel_(tile.first + own_),
        count_(tile.count - own_),
        group_(tile.group) {
    const int mine = lane_ * S::kChannels / S::kLanes;
    skip_ = op.skip.present() && mine < count_ ? op.skip.at((channel_ + mine) / op.head_dim) : 0.f;
    if (!S::kEach) return;
    each([&](int j, int q, int n) {
      const int there = j < count_ ? op_.state - n : 0;
      rates_[j][q] = to_floats(op_.decays, load_four(op_.decays, channel_ + j, n, there));
    });
  }

  __device__ void load(const SequenceRows& rows) {
    each([&](int j, int q, int n) {
      const bool kept = !rows.starts && j < count_;
      h_[j][q] = load_state(at(rows, j) + n, kept ? op_.state - n : 0, op_.packed);
    });
  }
  __device__ void store(const SequenceRows& rows) const {
    each([&](int j, int q, int n) {
      store_state(at(rows, j) + n, h_[j][q], j < count_ ? op_.state - n : 0, op_.packed);
    });
  }

  /// One token, the k-th of the stage.
  __device__ void step(const Stage<S>& stage, int k, int64_t row) {
    float sums[S::kChannels] = {};
    float inputs[S::kChannels];
#pragma unroll
    for (int j = 0; j < S::kChannels; ++j)
      inputs[j] = stage.size[k][own_ + j] * stage.x[k][own_ + j];
    each([&](int j, int q, int n) {
      const float4 b = *reinterpret_cast<const float4*>(&stage.b[k][n]);
      const float4 c = *reinterpret_cast<const float4*>(&stage.c[k][n]);
      float4& h = h_[j][q];
      const float4 decay = decays(stage, k, j, q);
      h = {decay.x * h.x + inputs[j] * b.x, decay.y * h.y + inputs[j] * b.y,
           decay.z * h.z + inputs[j] * b.z, decay.w * h.w + inputs[j] * b.w};
      sums[j] += h.x * c.x;
      sums[j] += h.y * c.y;
      sums[j] += h.z * c.z;
      sums[j] += h.w * c.w;
    });
    const float sum = sum_by_lane<S::kLanes>(sums);
    constexpr int kSame = S::kLanes / S::kChannels;  // lanes that have the sum
    const int mine = lane_ / kSame;
    if (lane_ % kSame == 0 && mine < count_)
      store_as(op_.out, row, channel_ + mine, sum + skip_ * stage.x[k][own_ + mine]);
  }

 private:
  /// f(j, q, n) for each four of numbers, from the n-th of channel j on.
  template <typename F>
  __device__ void each(F f) const {
#pragma unroll
    for (int q = 0; q < S::kQuads; ++q)
#pragma unroll
      for (int j = 0; j < S::kChannels; ++j) f(j, q, (q * S::kLanes + lane_) * 4);
  }
  __device__ float4 decays(const Stage<S>& stage, int k, int j, int q) const {
    if constexpr (S::kEach) {
      const float size = stage.size[k][own_ + j];
      const float4 rates = rates_[j][q];
      return {expf(size * rates.x), expf(size * rates.y), expf(size * rates.z),
              expf(size * rates.w)};
    } else {
      const float decay = stage.decay[k][own_ + j];
      return {decay, decay, decay, decay};
    }
  }
  __device__ float* at(const SequenceRows& rows, int j) const {
    return rows.state + int64_t{channel_ + j} * op_.state;
  }

  const Scan& op_;
  int lane_, own_, channel_, count_, group_;
  float skip_;
  float4 h_[S::kChannels][S::kQuads];
  float4 rates_[S::kEach ? S::kChannels : 1][S::kEach ? S::kQuads : 1];
};

/// A block per sequence, group and tile of the group's channels.
template <typename S>
__global__ void __launch_bounds__(kThreads, S::kBlocks)
    scan_kernel(Scan op, DeviceBatch batch, int groups) {
  wait_for_previous();
  start_next();
  auto& stage = *shared_array<Stage<S>>();
  const Tile tile = tile_of<S>(op, groups);
  const SequenceRows rows = rows_of(batch, op.states, tile.sequence);
  go_over_rows<kStage, Ahead<S>, States<S>>(op, tile, rows, stage);
}

template <typename S>
void launch_scan(Scan op, int64_t groups, const DeviceBatch& batch, cudaStream_t stream) {
  op.tiles = divide_up(op.group_channels, S::kTile);
  launch({.grid = dim3(static_cast<unsigned>(batch.sequences * groups * op.tiles)),
          .block = dim3(kThreads),
          .shared_bytes = sizeof(Stage<S>),
          .stream = stream},
         "selective_scan", scan_kernel<S>, op, batch, static_cast<int>(groups));
}

}  // namespace

void selective_scan(const SelectiveScan& op, const DeviceBatch& batch, cudaStream_t stream) {
  const model::RecurrentSpec& spec = *op.spec;
  if (spec.state > backend::kMostScanState)
    throw std::logic_error("selective_scan: a state of " + std::to_string(spec.state));
  const bool packed = spec.state % 4 == 0;
  const bool packed_decays = packed && reinterpret_cast<uintptr_t>(op.decay.data) % 16 == 0;
  Scan scan{.x = input_of(op.in.x),
            .step = input_of(op.in.step),
            .b = input_of(op.in.b),
            .c = input_of(op.in.c),
            .decays = {op.decay.data, spec.state, op.decay.dtype, packed_decays},
            .out = op.out,
            .decay = op.decay,
            .skip = op.skip,
            .step_bias = op.step_bias,
            .states = op.states,
            .head_dim = static_cast<int>(spec.head_dim),
            .state = static_cast<int>(spec.state),
            .group_channels = static_cast<int>(spec.width() / spec.groups),
            .tiles = 0,
            .steps = op.in.step.columns > 0,
            .packed = packed};
  // Fours begin at columns group * state + 4 n and group * channels + 4 n.
  scan.b.packed = scan.b.packed && packed;
  scan.c.packed = scan.c.packed && packed;
  scan.x.packed = scan.x.packed && scan.group_channels % 4 == 0;
  const auto with = [&]<typename S>(S) { launch_scan<S>(scan, spec.groups, batch, stream); };
  if (op.decays_each)
    return spec.state <= 16 ? with(Shares<4, 1, 2, true>()) : with(Shares<8, 8, 1, true>());
  if (spec.state <= 16) return with(Shares<4, 1, 4, false>());
  if (spec.state <= 64) return with(Shares<8, 2, 4, false>());
  if (spec.state <= 128) return with(Shares<8, 4, 4, false>());
  with(Shares<8, 8, 2, false>());
}

}  // namespace plimsoll::kernels
