#include "kernels/rows/rope_heads.h"
#include "kernels/rows/rows.h"
#include "kernels/runtime/kv_cache.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {
namespace {

constexpr int kAngleThreads = 128;
constexpr int kWarps = 8;

/// The position of row `t` for speed number `i`.
__device__ inline int32_t position_of(const RopeSections& sections, const DeviceBatch& batch,
                                      int64_t t, int64_t i) {
  int64_t kind = 0;
  while (kind + 1 < sections.count && i >= sections.ends[kind]) ++kind;
  return batch.rope_positions[kind * batch.rows + t];
}

__global__ void __launch_bounds__(kAngleThreads)
    angles_kernel(View out, RopeOnDevice rope, DeviceBatch batch) {
  wait_for_previous();
  start_next();
  const int64_t t = blockIdx.x;
  const int32_t sequence = batch.row_sequence[t];
  const int64_t half = out.columns / 2;
  float* to = static_cast<float*>(out.data) + t * out.stride;
  const bool is_long =
      sequence >= 0 && rope.for_long.inverse != nullptr && batch.long_rope[sequence] != 0;
  const RopeFrequencies used = is_long ? rope.for_long : rope.usual;
  const bool kinds = rope.sections.count > 0 && batch.rope_positions != nullptr;
  for (int64_t i = threadIdx.x; i < half; i += blockDim.x) {
    float s = 0;
    float c = 0;
    if (sequence >= 0) {
      const auto position =
          static_cast<float>(kinds ? position_of(rope.sections, batch, t, i) : batch.positions[t]);
      // The angle is brought below one turn in double: sincosf on large angles would need local
      // memory.
      const double half_turns =
          static_cast<double>(__fmul_rn(position, used.inverse[i])) * 0.31830988618379067154;
      sincospif(static_cast<float>(half_turns - 2 * rint(half_turns / 2)), &s, &c);
    }
    to[i] = c * used.scale;
    to[half + i] = s * used.scale;
  }
}

/// mean and 1 / deviation of a head of `d` floats.
__device__ inline float2 head_statistics(const float* head, int d, const model::Norm& norm) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  float mean = 0;
  if (norm.kind == model::NormKind::layer) {
    for (int i = lane; i < d; i += 32) mean += head[i];
    mean = warp_reduce(mean, Add{}) / static_cast<float>(d);
  }
  float squares = 0;
  for (int i = lane; i < d; i += 32) squares += (head[i] - mean) * (head[i] - mean);
  squares = warp_reduce(squares, Add{});
  return {mean, 1.f / sqrtf(squares / static_cast<float>(d) + norm.epsilon)};
}

/// Norms head number `h` of its kind, in place.
__device__ inline void norm_head(float* head, int d, const HeadNorm& of, int h) {
  if (!of.norm.present) return;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const float2 statistics = head_statistics(head, d, of.norm);
  __syncwarp();
  for (int i = lane; i < d; i += 32) {
    float y = (head[i] - statistics.x) * statistics.y;
    if (of.weight.values.present())
      y *= of.weight.values.at(h * of.weight.head_stride + i) + of.norm.weight_offset;
    if (of.bias.values.present()) y += of.bias.values.at(h * of.bias.head_stride + i);
    head[i] = y;
  }
  __syncwarp();
}

/// Turns the first `rotary` elements, in place. angles: cosines, then sines.
__device__ inline void rotate_head(float* head, const float* angles, int rotary,
                                   model::RopePairs pairs) {
  const int half = rotary / 2;
  const bool halves = pairs == model::RopePairs::halves;
  for (auto i = static_cast<int>(threadIdx.x % 32); i < half; i += 32) {
    float& x = head[halves ? i : 2 * i];
    float& y = head[halves ? i + half : 2 * i + 1];
    const float turned = x * angles[i] - y * angles[half + i];
    y = y * angles[i] + x * angles[half + i];
    x = turned;
  }
  __syncwarp();
}

/// A warp per row and head: q heads, then k heads, then v heads. N elements are moved at a time.
template <typename T, typename KV, int N>
__global__ void __launch_bounds__(kWarps * 32)
    rope_and_store_kernel(View qkv, View angles, HeadShape shape, KvCache<KV> cache,
                          DeviceBatch batch) {
  wait_for_previous();
  start_next();
  const int d = cache.head_dim;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int all = shape.all;
  const int64_t number = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int64_t t = number / all;
  if (t >= qkv.rows) return;
  const auto h = static_cast<int>(number % all);
  const int32_t sequence = batch.row_sequence[t];
  if (sequence < 0) return;

  T* from = static_cast<T*>(qkv.data) + t * qkv.stride + int64_t{h} * d;
  float* head = shared_array<float>() + static_cast<int>(threadIdx.x / 32) * kMaxHeadDim;
  for (int i = lane * N; i < d; i += 32 * N) {
    const Pack<T, N> x = load_pack<T, N>(from + i);
    for (int j = 0; j < N; ++j) {
      const float y = x.at(j);  // NaN stays
      head[i + j] = shape.clamp > 0.f && (y > shape.clamp || y < -shape.clamp)
                        ? copysignf(shape.clamp, y)
                        : y;
    }
  }
  __syncwarp();
  const bool is_q = h < shape.heads;
  const bool is_value = h >= shape.heads + cache.kv_heads;
  const int of_kind = is_q ? h : (h - shape.heads) % cache.kv_heads;
  const HeadNorm& norm = is_q ? shape.q : is_value ? shape.v : shape.k;
  const bool after = shape.order == model::NormOrder::after_rope;
  if (!after || is_value) norm_head(head, d, norm, of_kind);
  if (!is_value && angles.data != nullptr) {
    const float* turns = static_cast<const float*>(angles.data) + t * angles.stride;
    rotate_head(head, turns, static_cast<int>(angles.columns), shape.pairs);
  }
  if (after && !is_value) norm_head(head, d, norm, of_kind);
  const int32_t position = batch.positions[t];
  float factor = 1;
  if (is_q && shape.growth.beta != 0.f) {
    const auto periods = (position + shape.growth.shift) / shape.growth.period;
    factor += shape.growth.beta * log1pf(static_cast<float>(periods));
  }
  const float stored_factor = is_value ? shape.stored_value : shape.stored_key;
  KV* slot = nullptr;
  if (!is_q) {
    slot = cache.key(sequence, of_kind, position) + (is_value ? cache.value_offset() : 0);
  }
  for (int i = lane * N; i < d; i += 32 * N) {
    Pack<T, N> result;
    Pack<KV, N> stored;
    for (int j = 0; j < N; ++j) {
      const float y = head[i + j] * factor;
      result.set(j, y);
      stored.set(j, head[i + j] * stored_factor);
    }
    if (!is_value) store_pack(from + i, result);
    if (!is_q) store_pack(slot + i, stored);
  }
}

template <typename T, typename KV, int N>
void launch_store(const RopeAndStore& op, const DeviceBatch& batch, cudaStream_t stream) {
  const model::AttentionSpec& spec = *op.spec;
  const HeadShape shape = head_shape(op);
  const int64_t warps = op.qkv.rows * shape.all;
  const KvCache<KV> cache =
      kv_cache_of<KV>(*op.cache, spec, batch.block_tables[op.cache->group], batch.table_stride);
  launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(warps, kWarps))),
          .block = dim3(kWarps * 32),
          .shared_bytes = kWarps * kMaxHeadDim * sizeof(float),
          .stream = stream},
         "rope_and_store", rope_and_store_kernel<T, KV, N>, op.qkv, op.angles, shape, cache, batch);
}

/// One norm over all of q, one over all of k.
void norm_all_heads(const RopeAndStore& op, cudaStream_t stream) {
  const int64_t q = op.spec->heads * op.spec->head_dim;
  const auto run = [&](const View& heads, const model::Norm& spec, const HeadVector& weight,
                       const HeadVector& bias) {
    if (!spec.present) return;
    norm({.out = heads, .in = heads, .spec = spec, .weight = weight.values, .bias = bias.values},
         stream);
  };
  run(op.qkv.slice_columns(0, q), op.spec->q_norm, op.q_norm, op.q_bias);
  run(op.qkv.slice_columns(q, op.spec->kv_heads * op.spec->head_dim), op.spec->k_norm, op.k_norm,
      op.k_bias);
}

/// True when pairs of elements can be moved: 4 bytes of 16-bit types, so lanes of a warp read whole
/// lines. For heads of other sizes than store_wide_heads() has.
bool moves_pairs(const RopeAndStore& op) {
  const auto even = [](int64_t n) { return n % 2 == 0; };
  const size_t pair = 2 * dtype_size(op.qkv.dtype);
  const size_t stored_pair = 2 * dtype_size(op.cache->dtype);
  const auto address = reinterpret_cast<uintptr_t>(op.cache->pool) + op.cache->layer_offset;
  return reinterpret_cast<uintptr_t>(op.qkv.data) % pair == 0 && even(op.qkv.stride) &&
         even(op.spec->head_dim) && address % stored_pair == 0 &&
         op.cache->block_stride % stored_pair == 0;
}

}  // namespace

void rope_angles(const View& out, const RopeOnDevice& rope, const DeviceBatch& batch,
                 cudaStream_t stream) {
  launch({.grid = dim3(static_cast<unsigned>(out.rows)),
          .block = dim3(kAngleThreads),
          .stream = stream},
         "rope_angles", angles_kernel, out, rope, batch);
}

void rope_and_store(const RopeAndStore& op, const DeviceBatch& batch, cudaStream_t stream) {
  if (op.spec->head_dim > kMaxHeadDim)
    throw std::logic_error("rope_and_store: heads of " + std::to_string(op.spec->head_dim));
  if (op.spec->norm_span == model::NormSpan::all_heads) norm_all_heads(op, stream);
  with_cache_type(op.qkv.dtype, op.cache->dtype, [&](auto type, auto stored) {
    using T = typename decltype(type)::type;
    using KV = typename decltype(stored)::type;
    if (store_wide_heads<T, KV>(op, batch, stream)) return;
    if (moves_pairs(op))
      launch_store<T, KV, 2>(op, batch, stream);
    else
      launch_store<T, KV, 1>(op, batch, stream);
  });
}

}  // namespace plimsoll::kernels
