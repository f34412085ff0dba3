// Flash attention (Dao 2022) without tensor cores. Rows of a tile are (query row, query head)
// pairs; a warp has four of them, its lanes are tokens for the scores and columns of the head for
// the sums.
#include "kernels/attention/attention_plain.h"
#include "kernels/attention/plain_tile.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

using namespace plain;  // tiles

/// Sums of a warp for its rows: values for columns lane, lane + 32, ... of the head.
template <int kColumns>
struct Sums {
  float best[kRows];
  float total[kRows];
  float values[kRows][kColumns];
};

/// Scores of the warp's rows with the lane's token.
__device__ inline void multiply(const float* q, const float* k, int count, int pitch,
                                float (&scores)[kRows]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  for (int c = 0; c + 4 < pitch; c += 4) {
    const auto key = load_pack<float, 4>(k + lane * pitch + c);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (j >= count) continue;
      const auto query = load_pack<float, 4>(q + (warp + j * kWarps) * pitch + c);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[j] += query.values[i] * key.values[i];
    }
  }
}

/// Scores to weights exp(score - best), which go to shared memory [row][token].
template <int kColumns, typename T, typename KV>
__device__ void weigh(const Parameters<T, KV>& p, const Tile& tile, int start, int count,
                      float (&scores)[kRows], Sums<kColumns>& sums, float* weights) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int token = start + lane;
  const bool in_range = token >= tile.item.kv_begin && token < tile.item.kv_end;
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    if (j >= count) continue;
    const int row = warp + j * kWarps;
    const int64_t t = tile.item.first_row + row / tile.heads;
    const int position = p.positions[t];
    const bool is_seen = in_range && sees(p, t, position, token);
    float score = scores[j];
    if (p.soft_cap > 0.f) score = p.soft_cap * tanhf(score / p.soft_cap);
    if (p.slopes != nullptr) score += alibi(p, tile.first_head + row % tile.heads, position, token);
    score = is_seen ? score : -INFINITY;
    const float best = fmaxf(sums.best[j], warp_reduce(score, Max{}));
    // No token yet: nothing to weigh, nothing to scale.
    const float weight = is_seen ? expf(score - best) : 0.f;
    const float keep = sums.best[j] == best ? 1.f : expf(sums.best[j] - best);
    sums.best[j] = best;
    sums.total[j] = sums.total[j] * keep + warp_reduce(weight, Add{});
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums.values[j][i] *= keep;
    weights[row * kTokens + lane] = weight;
  }
  __syncwarp();
}

/// values += weights * v.
template <int kColumns>
__device__ void add_values(const float* weights, const float* v, int count, int head_dim,
                           Sums<kColumns>& sums) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int pitch = pitch_of(head_dim);
  for (int t = 0; t < kTokens; t += 4) {
    Pack<float, 4> w[kRows] = {};
#pragma unroll
    for (int j = 0; j < kRows; ++j)
      if (j < count) w[j] = load_pack<float, 4>(weights + (warp + j * kWarps) * kTokens + t);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const int column = lane + 32 * i;
        const float value = column < head_dim ? v[(t + k) * pitch + column] : 0.f;
#pragma unroll
        for (int j = 0; j < kRows; ++j)
          if (j < count) sums.values[j][i] += w[j].values[k] * value;
      }
    }
  }
}

template <int kColumns, typename T, typename KV>
__device__ void write(const Parameters<T, KV>& p, const Tile& tile, int count,
                      const Sums<kColumns>& sums) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int d = p.cache.head_dim;
  const int64_t heads = int64_t{p.group} * p.cache.kv_heads;
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    if (j >= count) continue;
    const int row = warp + j * kWarps;
    const int64_t head = tile.first_head + row % tile.heads;
    const int64_t query = row / tile.heads;
    const bool whole = tile.item.partial < 0;
    const int64_t slot = (tile.item.partial + query) * heads + head;
    float total = sums.total[j];
    if (whole && p.sinks.present()) total += expf(p.sinks.at(head) - sums.best[j]);
    const float factor = sums.total[j] > 0.f ? p.value_scale / total : 0.f;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = lane + 32 * i;
      if (column >= d) continue;
      const float value = sums.values[j][i] * factor;
      if (whole)
        p.out[(tile.item.first_row + query) * p.out_stride + head * d + column] =
            from_float<T>(value);
      else
        p.partial[slot * d + column] = value;
    }
    if (!whole && lane == 0)
      p.lse[slot] = sums.total[j] > 0.f ? sums.best[j] + logf(sums.total[j]) : -INFINITY;
  }
}

template <int kColumns, typename T, typename KV>
__global__ void __launch_bounds__(kThreads) attention_kernel(Parameters<T, KV> p) {
  wait_for_previous();
  start_next();
  const Tile tile(p);
  if (tile.item.rows == 0) return;
  const int d = p.cache.head_dim;
  const int pitch = pitch_of(d);
  float* q = shared_array<float>();
  float* kv = q + kPlainTile * pitch;
  float* weights = kv + kTokens * pitch;
  load_queries(p, tile, q);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int count = tile.packed > warp ? divide_up(tile.packed - warp, kWarps) : 0;
  Sums<kColumns> sums;
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
    sums.best[j] = -INFINITY;
    sums.total[j] = 0.f;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums.values[j][i] = 0.f;
  }
  for (int start = tile.item.kv_begin / kTokens * kTokens; start < tile.item.kv_end;
       start += kTokens) {
    __syncthreads();
    load_tokens(p, tile, start, 0, kv);
    __syncthreads();
    float scores[kRows] = {};
    multiply(q, kv, count, pitch, scores);
    weigh(p, tile, start, count, scores, sums, weights);
    __syncthreads();
    load_tokens(p, tile, start, p.cache.value_offset(), kv);
    __syncthreads();
    add_values(weights, kv, count, d, sums);
  }
  write(p, tile, count, sums);
}

constexpr int kMergeWarps = 4;

/// A warp per merged row and head.
template <typename T>
__global__ void __launch_bounds__(kMergeWarps * 32)
    merge_kernel(T* out, int64_t out_stride, const MergeItem* merges, const float* partial,
                 const float* lse, Vector sinks, int heads, int d) {
  wait_for_previous();
  start_next();
  const MergeItem merge = merges[blockIdx.x];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int head = static_cast<int>(blockIdx.y * kMergeWarps + threadIdx.x / 32);
  if (head >= heads || merge.count == 0) return;
  const auto slot = [&](int c) { return int64_t{merge.first + c * merge.step} * heads + head; };
  float best = -INFINITY;
  for (int c = lane; c < merge.count; c += 32) best = fmaxf(best, lse[slot(c)]);
  best = warp_reduce(best, Max{});
  for (int column = lane; column < d; column += 32) {
    float sum = 0;
    float total = 0;
    for (int c = 0; c < merge.count; ++c) {
      const float weight = best == -INFINITY ? 0.f : expf(lse[slot(c)] - best);
      total += weight;
      sum += weight * partial[slot(c) * d + column];
    }
    if (total > 0.f && sinks.present()) total += expf(sinks.at(head) - best);
    out[merge.row * out_stride + int64_t{head} * d + column] =
        from_float<T>(total > 0.f ? sum / total : 0.f);
  }
}

/// Whether every key of the cache begins at a multiple of 16 bytes and is as long.
bool has_wide_keys(const backend::KvLayer& cache, int64_t head_dim) {
  const auto address = reinterpret_cast<uintptr_t>(cache.pool) + cache.layer_offset;
  return address % 16 == 0 && cache.block_stride % 16 == 0 &&
         static_cast<size_t>(head_dim) * dtype_size(cache.dtype) % 16 == 0 && head_dim % 4 == 0;
}

template <typename T, typename KV>
void launch_attention(const PlainAttention& op, const DeviceBatch& batch, cudaStream_t stream) {
  const model::AttentionSpec& spec = *op.spec;
  const backend::KvLayer& cache = *op.cache;
  const backend::CacheScales scales = cache.scales(spec);
  const PlainTile tile = plain_tile({spec.heads, spec.kv_heads, spec.window});
  float* lse = op.partial + op.partial_rows * spec.heads * spec.head_dim;
  const Parameters<T, KV> parameters{
      .q = data_of<T>(op.qkv),
      .q_stride = op.qkv.stride,
      .out = data_of<T>(op.out),
      .out_stride = op.out.stride,
      .cache = kv_cache_of<KV>(cache, spec, batch.block_tables[cache.group], batch.table_stride),
      .positions = batch.positions,
      .seen_end = batch.seen_end,
      .items = op.items,
      .tile = tile,
      .group = static_cast<int>(spec.heads / spec.kv_heads),
      .scale = spec.scale * scales.key,
      .value_scale = scales.value,
      .soft_cap = spec.soft_cap,
      .window = spec.window,
      .window_kind = spec.window_kind,
      .slopes = op.slopes,
      .alibi = spec.alibi,
      .sinks = op.sinks,
      .chosen = op.chosen.columns > 0 ? data_of<const int32_t>(op.chosen) : nullptr,
      .chosen_stride = op.chosen.stride,
      .most_chosen = static_cast<int>(op.chosen.columns),
      .partial = op.partial,
      .lse = lse,
      .is_wide = has_wide_keys(cache, spec.head_dim)};
  const int pitch = pitch_of(static_cast<int>(spec.head_dim));
  const Launch grid{
      .grid = dim3(static_cast<unsigned>(op.item_count),
                   static_cast<unsigned>(spec.kv_heads * tile.parts)),
      .block = dim3(kThreads),
      .shared_bytes = static_cast<size_t>((kPlainTile + kTokens) * pitch + kPlainTile * kTokens) *
                      sizeof(float),
      .stream = stream};
  if (spec.head_dim <= 64)
    launch(grid, "plain_attention", attention_kernel<2, T, KV>, parameters);
  else if (spec.head_dim <= 128)
    launch(grid, "plain_attention", attention_kernel<4, T, KV>, parameters);
  else
    launch(grid, "plain_attention", attention_kernel<8, T, KV>, parameters);
  launch({.grid = dim3(static_cast<unsigned>(op.merge_count),
                       static_cast<unsigned>(divide_up<int64_t>(spec.heads, kMergeWarps))),
          .block = dim3(kMergeWarps * 32),
          .stream = stream},
         "plain_attention merge", merge_kernel<T>, parameters.out, op.out.stride, op.merges,
         op.partial, lse, op.sinks, static_cast<int>(spec.heads), static_cast<int>(spec.head_dim));
}

}  // namespace

size_t plain_partial_bytes(int64_t partial_rows, const model::AttentionSpec& spec) {
  return static_cast<size_t>(partial_rows * spec.heads * (spec.head_dim + 1)) * sizeof(float);
}

void plain_attention(const PlainAttention& op, const DeviceBatch& batch, cudaStream_t stream) {
  if (op.spec->head_dim > 256)
    throw std::logic_error("plain_attention: heads of " + std::to_string(op.spec->head_dim));
  if (op.out.dtype != op.qkv.dtype)
    throw std::logic_error("plain_attention: qkv and out differ in type");
  with_cache_type(op.qkv.dtype, op.cache->dtype, [&](auto type, auto stored) {
    launch_attention<typename decltype(type)::type, typename decltype(stored)::type>(op, batch,
                                                                                     stream);
  });
}

}  // namespace plimsoll::kernels
