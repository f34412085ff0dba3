// A block scores some keys for one row: a lane for each key, a warp for every eighth head, whose
// sums are added in one order. Another block finds the row's best scores by a histogram of their
// bytes, the first byte first, and writes their positions in order.
#include "kernels/attention/choose_keys.h"

#include <algorithm>

#include "kernels/runtime/kv_cache.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kTokens = 32;      // whose keys lie in shared memory at a time: a lane for each
constexpr int kBlockKeys = 256;  // keys that a block scores
constexpr int kHeads = 64;       // whose q lie in shared memory at a time

/// Floats from row to row in shared memory (see attention_plain.cu).
__host__ __device__ constexpr int pitch_of(int head_dim) {
  return divide_up(head_dim, 4) * 4 + 4;
}

/// Keys that a row has to choose from; 0: it sees all that there are.
__device__ inline int keys_of(const DeviceBatch& batch, int64_t row, int64_t most) {
  if (batch.row_sequence[row] < 0 || batch.positions[row] < most) return 0;
  return batch.positions[row] + 1;
}

template <typename T, typename KV>
struct Scoring {
  const T* q;
  int64_t q_stride;
  const T* weights;
  int64_t weights_stride;
  KvCache<KV> keys;
  DeviceBatch batch;
  int64_t first_row;
  int64_t most;
  int heads;
  float scale;
  float* scores;  // [rows, longest]
  int64_t longest;
};

/// q of heads [first, first + count) of a row, scaled; columns past the head are zero.
template <typename T, typename KV>
__device__ void load_heads(const Scoring<T, KV>& p, int64_t row, int first, int count, float* q) {
  const int d = p.keys.head_dim;
  const int pitch = pitch_of(d);
  const T* from = p.q + row * p.q_stride + int64_t{first} * d;
  for (int i = static_cast<int>(threadIdx.x); i < count * pitch; i += kThreads) {
    const int column = i % pitch;
    q[i] = column < d ? to_float(from[i / pitch * d + column]) * p.scale : 0.f;
  }
}

/// The keys [start, start + 32) as floats; zeros from `end` on, where the cache may hold anything.
template <typename T, typename KV>
__device__ void load_keys(const Scoring<T, KV>& p, int32_t sequence, int start, int end,
                          float* keys) {
  const int d = p.keys.head_dim;
  const int pitch = pitch_of(d);
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * pitch; i += kThreads) {
    const int token = start + i / pitch;
    const int column = i % pitch;
    keys[i] = token < end && column < d ? to_float(p.keys.key(sequence, 0, token)[column]) : 0.f;
  }
}

/// The lane's key with every eighth head of `count`, whose weights begin at `weights`.
template <typename T>
__device__ float score_heads(const float* q, const float* keys, const T* weights, int count,
                             int pitch) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  float sum = 0;
  for (int h = static_cast<int>(threadIdx.x / 32); h < count; h += kWarps) {
    float product = 0;
    for (int c = 0; c + 4 < pitch; c += 4) {
      const auto query = load_pack<float, 4>(q + h * pitch + c);
      const auto key = load_pack<float, 4>(keys + lane * pitch + c);
#pragma unroll
      for (int i = 0; i < 4; ++i) product += query.values[i] * key.values[i];
    }
    // A comparison, not fmaxf, keeps a score that is no number.
    sum += to_float(weights[h]) * (product < 0.f ? 0.f : product);
  }
  return sum;
}

template <typename T, typename KV>
__global__ void __launch_bounds__(kThreads) score_keys_kernel(Scoring<T, KV> p) {
  wait_for_previous();
  start_next();
  const int64_t row = p.first_row + blockIdx.y;
  const int begin = static_cast<int>(blockIdx.x) * kBlockKeys;
  const int end = min(begin + kBlockKeys, keys_of(p.batch, row, p.most));
  if (begin >= end) return;
  const int pitch = pitch_of(p.keys.head_dim);
  float* q = shared_array<float>();
  float* keys = q + min(kHeads, p.heads) * pitch;
  float* sums = keys + kTokens * pitch;  // [warp][token]
  float* scores = p.scores + blockIdx.y * p.longest;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  for (int first = 0; first < p.heads; first += kHeads) {
    const int count = min(kHeads, p.heads - first);
    load_heads(p, row, first, count, q);
    for (int start = begin; start < end; start += kTokens) {
      load_keys(p, p.batch.row_sequence[row], start, end, keys);
      __syncthreads();
      sums[warp * kTokens + lane] =
          score_heads(q, keys, p.weights + row * p.weights_stride + first, count, pitch);
      __syncthreads();
      if (warp == 0 && start + lane < end) {
        float total = first == 0 ? 0.f : scores[start + lane];
        for (int w = 0; w < kWarps; ++w) total += sums[w * kTokens + lane];
        scores[start + lane] = total;
      }
    }
    __syncthreads();  // of q
  }
}

constexpr int kBits = 8;
constexpr int kBins = 1 << kBits;
static_assert(kBins == kThreads, "a thread for each bin");

/// A number that is larger where the score is; NaN's is the least.
__device__ inline unsigned rank_of(float score) {
  if (score != score) return 0;
  const unsigned bits = __float_as_uint(score + 0.f);  // -0 is 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

struct Selection {
  unsigned sums[33];
  unsigned counts[kBins];
  unsigned rank;    // of the last score that is chosen, its leading bytes
  unsigned wanted;  // scores that begin so
};

/// The next byte of the rank: that of the bin in which the count from the best on reaches `wanted`.
__device__ inline void find_byte(Selection& s, const float* scores, int count, int shift) {
  s.counts[threadIdx.x] = 0;
  __syncthreads();
  for (auto i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const unsigned rank = rank_of(scores[i]);
    const bool begins = shift + kBits == 32 || (rank ^ s.rank) >> (shift + kBits) == 0;
    if (begins) atomicAdd(&s.counts[rank >> shift & (kBins - 1)], 1u);
  }
  __syncthreads();
  const unsigned bin = kBins - 1 - threadIdx.x;
  const unsigned own = s.counts[bin];
  const unsigned wanted = s.wanted;
  unsigned total = 0;
  const unsigned before = block_exclusive_sum(own, s.sums, total);
  if (before < wanted && wanted <= before + own) {
    s.rank |= bin << shift;
    s.wanted = wanted - before;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads)
    choose_keys_kernel(View chosen, const float* all_scores, int64_t longest, int64_t first_row,
                       DeviceBatch batch) {
  wait_for_previous();
  start_next();
  const int64_t row = first_row + blockIdx.x;
  const int count = keys_of(batch, row, chosen.columns);
  if (count == 0) return;
  const float* scores = all_scores + blockIdx.x * longest;
  auto& s = *shared_array<Selection>();
  if (threadIdx.x == 0) {
    s.rank = 0;
    s.wanted = static_cast<unsigned>(chosen.columns);
  }
  __syncthreads();
  for (int shift = 32 - kBits; shift >= 0; shift -= kBits) find_byte(s, scores, count, shift);
  int32_t* to = static_cast<int32_t*>(chosen.data) + row * chosen.stride;
  unsigned better = 0;  // before the thread's chunk
  unsigned equal = 0;
  for (int start = 0; start < count; start += kThreads) {
    const int i = start + static_cast<int>(threadIdx.x);
    const unsigned rank = i < count ? rank_of(scores[i]) : 0;
    const bool is_better = i < count && rank > s.rank;
    const bool is_equal = i < count && rank == s.rank;
    unsigned total = 0;
    const unsigned before =
        block_exclusive_sum((is_better ? 1u << 16 : 0u) | (is_equal ? 1u : 0u), s.sums, total);
    const unsigned equal_before = equal + (before & 0xffff);
    if (is_better || (is_equal && equal_before < s.wanted))
      to[better + (before >> 16) + min(equal_before, s.wanted)] = i;
    better += total >> 16;
    equal += total & 0xffff;
  }
}

template <typename T, typename KV>
void launch_choice(const ChooseKeys& op, const DeviceBatch& batch, cudaStream_t stream) {
  const model::AttentionSpec& spec = *op.spec;
  const int pitch = pitch_of(static_cast<int>(spec.head_dim));
  const int64_t heads = std::min<int64_t>(kHeads, spec.heads);
  const auto shared = static_cast<size_t>((heads + kTokens) * pitch + kThreads) * sizeof(float);
  Scoring<T, KV> scoring{.q = data_of<T>(op.q),
                         .q_stride = op.q.stride,
                         .weights = data_of<T>(op.weights),
                         .weights_stride = op.weights.stride,
                         .keys = kv_cache_of<KV>(*op.keys, spec, batch.block_tables[op.keys->group],
                                                 batch.table_stride),
                         .batch = batch,
                         .first_row = 0,
                         .most = op.chosen.columns,
                         .heads = static_cast<int>(spec.heads),
                         .scale = spec.scale,
                         .scores = op.scores,
                         .longest = op.longest};
  for (int64_t first = 0; first < op.chosen.rows; first += backend::kCudaChoiceRows) {
    const int64_t rows = std::min(backend::kCudaChoiceRows, op.chosen.rows - first);
    scoring.first_row = first;
    launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(op.longest, kBlockKeys)),
                         static_cast<unsigned>(rows)),
            .block = dim3(kThreads),
            .shared_bytes = shared,
            .stream = stream},
           "score_keys", score_keys_kernel<T, KV>, scoring);
    launch({.grid = dim3(static_cast<unsigned>(rows)),
            .block = dim3(kThreads),
            .shared_bytes = sizeof(Selection),
            .stream = stream},
           "choose_keys", choose_keys_kernel, op.chosen, op.scores, op.longest, first, batch);
  }
}

}  // namespace

void choose_keys(const ChooseKeys& op, const DeviceBatch& batch, cudaStream_t stream) {
  if (op.spec->head_dim > backend::kMostIndexColumns)
    throw std::logic_error("choose_keys: heads of " + std::to_string(op.spec->head_dim));
  if (op.longest <= op.chosen.columns) return;  // no row has a choice
  with_cache_type(op.q.dtype, op.keys->dtype, [&](auto type, auto stored) {
    launch_choice<typename decltype(type)::type, typename decltype(stored)::type>(op, batch,
                                                                                  stream);
  });
}

}  // namespace plimsoll::kernels
