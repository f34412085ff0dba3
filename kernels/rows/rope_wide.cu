// rope_and_store for the usual heads: a lane has 16 bytes of one, a warp one to four of them,
// nothing passes through shared memory.
#include "kernels/rows/rope_heads.h"
#include "kernels/runtime/kv_cache.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kWideWarps = 8;

/// Elements of a head that a lane has: N from `first` on.
template <int N>
struct Piece {
  float values[N];
  int first;
};

/// The lanes of the calling lane's head: those of other heads in the warp may go other ways.
template <int Lanes>
__device__ unsigned lanes_of_head() {
  return kAllLanes >> (32 - Lanes) << (threadIdx.x % 32 / Lanes * Lanes);
}

/// Over the lanes of a head, in all of them.
template <int Lanes>
__device__ float head_sum(float value) {
#pragma unroll
  for (int lanes = Lanes / 2; lanes > 0; lanes /= 2)
    value += __shfl_xor_sync(lanes_of_head<Lanes>(), value, lanes);
  return value;
}

/// N numbers of a vector, which is aligned as its elements' packs are.
template <int N>
__device__ void load_vector(const Vector& from, int64_t at, float (&to)[N]) {
  const auto load = [&]<typename T>(const T* values) {
    const Pack<T, N> pack = load_pack<T, N>(values + at);
#pragma unroll
    for (int j = 0; j < N; ++j) to[j] = pack.at(j);
  };
  if (from.dtype == DType::bf16) return load(static_cast<const __nv_bfloat16*>(from.data));
  if (from.dtype == DType::f16) return load(static_cast<const __half*>(from.data));
#pragma unroll
  for (int j = 0; j < N; ++j) to[j] = from.at(at + j);
}

/// Norms head number `h` of its kind.
template <int Lanes, int N>
__device__ void norm_piece(Piece<N>& x, const HeadNorm& of, int h) {
  if (!of.norm.present) return;
  constexpr auto kWidth = static_cast<float>(Lanes * N);
  float mean = 0;
  if (of.norm.kind == model::NormKind::layer) {
#pragma unroll
    for (int j = 0; j < N; ++j) mean += x.values[j];
    mean = head_sum<Lanes>(mean) / kWidth;
  }
  float squares = 0;
#pragma unroll
  for (int j = 0; j < N; ++j) squares += (x.values[j] - mean) * (x.values[j] - mean);
  const float factor = 1.f / sqrtf(head_sum<Lanes>(squares) / kWidth + of.norm.epsilon);
#pragma unroll
  for (int j = 0; j < N; ++j) x.values[j] = (x.values[j] - mean) * factor;
  float numbers[N];
  if (of.weight.values.present()) {
    load_vector(of.weight.values, h * of.weight.head_stride + x.first, numbers);
#pragma unroll
    for (int j = 0; j < N; ++j) x.values[j] *= numbers[j] + of.norm.weight_offset;
  }
  if (of.bias.values.present()) {
    load_vector(of.bias.values, h * of.bias.head_stride + x.first, numbers);
#pragma unroll
    for (int j = 0; j < N; ++j) x.values[j] += numbers[j];
  }
}

/// Turns what lies below `rotary`. angles: cosines, then sines.
template <int Lanes, int N>
__device__ void rotate_piece(Piece<N>& x, const float* angles, int rotary, model::RopePairs pairs) {
  const int half = rotary / 2;
  const bool turns = x.first < rotary;
  if (pairs == model::RopePairs::halves) {
    const bool low = x.first < half;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int partner = turns ? lane + (low ? half : -half) / N : lane;
    const int at = turns ? x.first - (low ? 0 : half) : 0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float other = __shfl_sync(lanes_of_head<Lanes>(), x.values[j], partner);
      const float turn = low ? -other : other;
      if (turns) x.values[j] = x.values[j] * angles[at + j] + turn * angles[half + at + j];
    }
    return;
  }
  if (!turns) return;
#pragma unroll
  for (int j = 0; j < N; j += 2) {
    const int at = (x.first + j) / 2;
    const float a = x.values[j], b = x.values[j + 1];
    x.values[j] = a * angles[at] - b * angles[half + at];
    x.values[j + 1] = b * angles[at] + a * angles[half + at];
  }
}

/// Heads of Lanes * 16 bytes: q heads, then k heads, then v heads of each row.
template <typename T, typename KV, int Lanes>
__global__ void __launch_bounds__(kWideWarps * 32)
    wide_heads_kernel(View qkv, View angles, HeadShape shape, KvCache<KV> cache,
                      DeviceBatch batch) {
  constexpr int N = kWide<T>;
  wait_for_previous();
  start_next();
  const int64_t number = (int64_t{blockIdx.x} * kWideWarps * 32 + threadIdx.x) / Lanes;
  const int64_t t = number / shape.all;
  if (t >= qkv.rows) return;
  const auto h = static_cast<int>(number % shape.all);
  const int32_t sequence = batch.row_sequence[t];
  if (sequence < 0) return;
  const bool is_q = h < shape.heads;
  const bool is_value = h >= shape.heads + cache.kv_heads;
  const int of_kind = is_q ? h : (h - shape.heads) % cache.kv_heads;

  Piece<N> x;
  x.first = static_cast<int>(threadIdx.x % Lanes) * N;
  T* const at = row_at<T>(qkv, t) + int64_t{h} * cache.head_dim + x.first;
  const Pack<T, N> loaded = load_pack<T, N>(at);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float y = loaded.at(j);  // NaN stays
    const bool cut = shape.clamp > 0.f && (y > shape.clamp || y < -shape.clamp);
    x.values[j] = cut ? copysignf(shape.clamp, y) : y;
  }
  const HeadNorm& norm = is_q ? shape.q : is_value ? shape.v : shape.k;
  const bool after = shape.order == model::NormOrder::after_rope && !is_value;
  if (!after) norm_piece<Lanes>(x, norm, of_kind);
  if (!is_value && angles.data != nullptr) {
    const float* turns = static_cast<const float*>(angles.data) + t * angles.stride;
    rotate_piece<Lanes>(x, turns, static_cast<int>(angles.columns), shape.pairs);
  }
  if (after) norm_piece<Lanes>(x, norm, of_kind);

  const int32_t position = batch.positions[t];
  if (!is_value) {
    float factor = 1;
    if (is_q && shape.growth.beta != 0.f) {
      const auto periods = (position + shape.growth.shift) / shape.growth.period;
      factor += shape.growth.beta * log1pf(static_cast<float>(periods));
    }
    Pack<T, N> result;
#pragma unroll
    for (int j = 0; j < N; ++j) result.set(j, x.values[j] * factor);
    store_pack(at, result);
  }
  if (is_q) return;
  const float stored_factor = is_value ? shape.stored_value : shape.stored_key;
  Pack<KV, N> stored;
#pragma unroll
  for (int j = 0; j < N; ++j) stored.set(j, x.values[j] * stored_factor);
  KV* const slot = cache.key(sequence, of_kind, position);
  store_pack(slot + (is_value ? cache.value_offset() : 0) + x.first, stored);
}

template <typename T, typename KV, int Lanes>
bool launch_wide(const RopeAndStore& op, const DeviceBatch& batch, cudaStream_t stream) {
  const HeadShape shape = head_shape(op);
  const int64_t threads = op.qkv.rows * shape.all * Lanes;
  const KvCache<KV> cache =
      kv_cache_of<KV>(*op.cache, *op.spec, batch.block_tables[op.cache->group], batch.table_stride);
  launch({.grid = dim3(static_cast<unsigned>(divide_up<int64_t>(threads, kWideWarps * 32))),
          .block = dim3(kWideWarps * 32),
          .stream = stream},
         "rope_and_store", wide_heads_kernel<T, KV, Lanes>, op.qkv, op.angles, shape, cache, batch);
  return true;
}

/// True when all that moves is aligned, and no piece turns in part.
template <typename T, typename KV>
bool moves_whole_pieces(const RopeAndStore& op) {
  constexpr int64_t kN = kWide<T>;
  constexpr size_t kStored = kN * sizeof(KV);
  const auto aligned = [](const void* data, size_t to) {
    return reinterpret_cast<uintptr_t>(data) % to == 0;
  };
  const auto of_heads = [&](const HeadVector& vector) {
    return aligned(vector.values.data, 16) && vector.head_stride % kN == 0;
  };
  const bool halves = op.spec->rope_pairs == model::RopePairs::halves;
  return aligned(op.qkv.data, 16) && op.qkv.stride % kN == 0 &&
         aligned(op.cache->pool + op.cache->layer_offset, kStored) &&
         op.cache->block_stride % kStored == 0 && op.angles.columns % (halves ? 2 * kN : kN) == 0 &&
         of_heads(op.q_norm) && of_heads(op.q_bias) && of_heads(op.k_norm) && of_heads(op.k_bias);
}

}  // namespace

template <typename T, typename KV>
bool store_wide_heads(const RopeAndStore& op, const DeviceBatch& batch, cudaStream_t stream) {
  if (!moves_whole_pieces<T, KV>(op)) return false;
  switch (op.spec->head_dim * static_cast<int64_t>(sizeof(T))) {
    case 128:
      return launch_wide<T, KV, 8>(op, batch, stream);
    case 256:
      return launch_wide<T, KV, 16>(op, batch, stream);
    case 512:
      return launch_wide<T, KV, 32>(op, batch, stream);
    default:
      return false;
  }
}

template bool store_wide_heads<__nv_bfloat16, __nv_bfloat16>(const RopeAndStore&,
                                                             const DeviceBatch&, cudaStream_t);
template bool store_wide_heads<__nv_bfloat16, __nv_fp8_e4m3>(const RopeAndStore&,
                                                             const DeviceBatch&, cudaStream_t);
template bool store_wide_heads<__half, __half>(const RopeAndStore&, const DeviceBatch&,
                                               cudaStream_t);
template bool store_wide_heads<__half, __nv_fp8_e4m3>(const RopeAndStore&, const DeviceBatch&,
                                                      cudaStream_t);
template bool store_wide_heads<float, float>(const RopeAndStore&, const DeviceBatch&, cudaStream_t);
template bool store_wide_heads<float, __nv_fp8_e4m3>(const RopeAndStore&, const DeviceBatch&,
                                                     cudaStream_t);

}  // namespace plimsoll::kernels
