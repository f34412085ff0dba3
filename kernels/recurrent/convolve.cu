#include <algorithm>

#include "kernels/recurrent/inputs.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/activation.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMostRows = 16;        // of a tile
constexpr int64_t kEnoughBlocks = 2048;  // before tiles have more rows than one

/// Some columns of a sequence, on their way over its rows: the inputs of the last kTaps - 1 rows
/// are in registers. Where there are fewer taps, the oldest ones weigh nothing.
template <typename T, int N, int kTaps>
class Columns {
 public:
  static constexpr int kPast = kTaps - 1;

  __device__ Columns(const Convolve& op, int64_t column)
      : op_(op), column_(column), skipped_(kTaps - static_cast<int>(op.spec.taps)) {
    for (int j = 0; j < N; ++j) {
      load_weights(op.weight, column + j, j);
      bias_[j] = op.bias.present() ? op.bias.at(column + j) : 0.f;
    }
  }

  /// Loads the inputs before row `row` of the step, of a sequence that begins there or before.
  __device__ void start(const SequenceRows& rows, int64_t row) {
#pragma unroll
    for (int i = 0; i < kPast; ++i) {
      const bool kept = row == rows.first;  // rows of earlier steps
      const bool absent = i < skipped_ || (kept && rows.starts);
      if (absent) {
        for (int j = 0; j < N; ++j) past_[i][j] = 0.f;
      } else if (kept) {
        const Pack<float, N> from = load_pack<float, N>(state(rows, i));
        for (int j = 0; j < N; ++j) past_[i][j] = from.at(j);
      } else {
        const Pack<T, N> from = load(row - kPast + i);
        for (int j = 0; j < N; ++j) past_[i][j] = from.at(j);
      }
    }
  }

  __device__ Pack<T, N> load(int64_t row) const {
    return load_pack<T, N>(row_at<T>(op_.in, row) + column_);
  }

  __device__ void step(int64_t row, const Pack<T, N>& in) {
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kPast; ++i) sum += weights_[i][j] * past_[i][j];
      sum += weights_[kPast][j] * in.at(j);
#pragma unroll
      for (int i = 0; i + 1 < kPast; ++i) past_[i][j] = past_[i + 1][j];
      if (kPast > 0) past_[kPast - 1][j] = in.at(j);
      out.set(j, activate(op_.spec.activation, sum + bias_[j]));
    }
    store_pack(row_at<T>(op_.out, row) + column_, out);
  }

  /// Leaves the inputs of the last rows, where this went over all rows, or over the first of many.
  __device__ void finish(const SequenceRows& rows, int64_t end) const {
    const int64_t last = rows.first + rows.count;
#pragma unroll
    for (int i = 0; i < kPast; ++i) {
      if (i < skipped_) continue;
      Pack<float, N> to;
      const Pack<T, N> from = end == last ? Pack<T, N>{} : load(last - kPast + i);
      for (int j = 0; j < N; ++j) to.set(j, end == last ? past_[i][j] : from.at(j));
      store_pack(state(rows, i), to);
    }
  }

 private:
  __device__ void load_weights(const Vector& weight, int64_t column, int j) {
    if (skipped_ == 0) {
      const bool packed = reinterpret_cast<uintptr_t>(weight.data) % 16 == 0;
      const Input in{weight.data, kTaps, weight.dtype, packed};
#pragma unroll
      for (int tap = 0; tap < kTaps; tap += 4) {
        const float4 four = to_floats(in, load_four(in, column, tap, 4));
        weights_[tap][j] = four.x;
        weights_[tap + 1][j] = four.y;
        weights_[tap + 2][j] = four.z;
        weights_[tap + 3][j] = four.w;
      }
      return;
    }
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap)
      weights_[tap][j] = tap < skipped_ ? 0.f : weight.at(column * op_.spec.taps + tap - skipped_);
  }
  __device__ float* state(const SequenceRows& rows, int i) const {
    return rows.state + (i - skipped_) * op_.spec.width + column_;
  }

  const Convolve& op_;
  int64_t column_;
  int skipped_;
  float weights_[kTaps][N];
  float past_[kPast > 0 ? kPast : 1][N];
  float bias_[N];
};

/// Grid [columns / (kThreads N), rows / tile]. A tile has `tile_rows` rows of the step; but the
/// first rows of a sequence, which read the state, belong to the tile of the first of them, which
/// writes it.
template <typename T, int N, int kTaps>
__global__ void __launch_bounds__(kThreads)
    convolve_kernel(Convolve op, DeviceBatch batch, int tile_rows) {
  wait_for_previous();
  start_next();
  const int64_t column = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (column >= op.spec.width) return;
  Columns<T, N, kTaps> columns(op, column);
  const int64_t past = op.spec.taps - 1;
  int64_t row = int64_t{blockIdx.y} * tile_rows;
  const int64_t tile_end = min(row + tile_rows, batch.rows);
  while (row < tile_end) {
    const int32_t sequence = batch.row_sequence[row];
    if (sequence < 0) {  // padding
      Pack<T, N> zero;
      for (int j = 0; j < N; ++j) zero.set(j, 0.f);
      store_pack(row_at<T>(op.out, row) + column, zero);
      ++row;
      continue;
    }
    const SequenceRows rows = rows_of(batch, op.states, sequence);
    const int64_t last = rows.first + rows.count;
    const bool begins = row == rows.first;
    if (!begins) row = max(row, min(rows.first + past, last));
    const int64_t end = min(last, begins ? max(tile_end, rows.first + past) : tile_end);
    if (row >= end) continue;
    columns.start(rows, row);
    Pack<T, N> next = columns.load(row);
    for (; row < end; ++row) {
      const Pack<T, N> now = next;
      if (row + 1 < end) next = columns.load(row + 1);
      columns.step(row, now);
    }
    if (begins) columns.finish(rows, end);
  }
}

template <typename T, int N, int kTaps>
void launch_taps(const Convolve& op, const DeviceBatch& batch, cudaStream_t stream) {
  const int64_t parts = divide_up<int64_t>(op.spec.width, kThreads * N);
  const int64_t tile_rows = std::clamp<int64_t>(op.in.rows * parts / kEnoughBlocks, 1, kMostRows);
  launch({.grid = dim3(static_cast<unsigned>(parts),
                       static_cast<unsigned>(divide_up<int64_t>(op.in.rows, tile_rows))),
          .block = dim3(kThreads),
          .stream = stream},
         "convolve", convolve_kernel<T, N, kTaps>, op, batch, static_cast<int>(tile_rows));
}

}  // namespace

void convolve(const Convolve& op, const DeviceBatch& batch, cudaStream_t stream) {
  if (op.in.dtype != op.out.dtype) throw std::logic_error("convolve: in and out differ in type");
  if (op.spec.taps > model::kMostTaps) throw std::logic_error("convolve: too many taps");
  constexpr int kUsualTaps = 4;
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          if constexpr (kN > 1)
            if (op.spec.taps <= kUsualTaps)
              return launch_taps<T, kN, kUsualTaps>(op, batch, stream);
          launch_taps<T, 1, static_cast<int>(model::kMostTaps)>(op, batch, stream);
        },
        op.out, op.in);
  });
}

}  // namespace plimsoll::kernels
