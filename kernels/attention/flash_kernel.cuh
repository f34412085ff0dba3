// FlashInfer's paged prefill kernel, as this program instantiates it. Included by the units alone
// (flash_unit.cu.in).
//
// Facts that it relies on, with places in flashinfer 0.6.9's include/flashinfer:
//
//  attention/prefill.cuh, BatchPrefillWithPagedKVCacheDevice:
//   2092  the chunk size is read from device memory whether or not the KV range is split
//   2095  a block whose mask is false returns; the mask may be null
//   2100  blockIdx.x selects (request, query tile, KV chunk); blockIdx.z the KV head
//   2104  lengths and window come from the variant: qo_len, kv_len, window_left
//   451, 1287  packed row p of a KV head is query row p / group, head kv_head * group + p % group
//   2110  a tile's KV range starts at the first position that its first row sees
//   2112  not split: the range is all of it. Split: chunk c is [start + c * size, + size), up to
//         kv_len
//   2135  rows of the output are [heads, head_dim], contiguous
//   2137  q starts at q_indptr * q_stride_n (uint32: T * stride < 2^32, see flash_covers)
//   2139  the output starts at row o_indptr, when split at o_indptr + chunk (uint32 too)
//   2190  KV row r of a chunk is page (indptr * page_size + start + r) / page_size of `indices`:
//         uint32, so B * table_stride * page_size < 2^32; the offset in the pool is size_t
//         (page.cuh:161)
//   2217  causal bound: ceil((tile + 1) * tile size / group) rows after kv_len - qo_len
//   2364  chunks of a request when split: min(kv_len, window_left + tile size) / size, rounded up;
//         a row's partial results are that many consecutive rows, from o_indptr + row * chunks on
//   2392  log-sum-exps to base 2 beside them, [rows, heads]
//   A request of kv_len 0 has one chunk of nothing: zeros, and a log-sum-exp of minus "infinity".
//  attention/prefill.cuh, logits_mask (751): row q sees kv_idx <= kv_len - qo_len + q
//   2223, 2264  KV tiles until a row's own position, and those that are not masked: is_causal() and
//         sees_all() below say where rows see more
//  attention/variants.cuh (74): ... and kv_idx >= that - window_left
//  page.cuh (43): stride_page, stride_n, stride_h are uint32 elements; head h, position i of a page
//         lie at h * stride_h + i * stride_n; `indices` is read below indptr[batch_size] only (187)
//  Loads beyond a chunk are predicated off (prefill.cuh:351), whatever their page; so entries of
//  the block table that are not in use may hold anything.
//
// The headers are adapted by cmake/flashinfer.cmake for head sizes below the tile's: columns_of()
// below says how many columns there are, loads of the others give zeros and stores leave them out.
// (As published, sizes that are no multiple of 64 compile and give wrong results: loads go in whole
// steps of 64 columns, prefill.cuh:353, 450.)
#pragma once

#include "kernels/attention/flash_math.cuh"

#include <cstdint>

namespace flashinfer {

/// Columns of a head; `general` variants take them from the arguments.
template <typename KTraits, typename Params>
__device__ __forceinline__ uint32_t columns_of(const Params& params) {
  if constexpr (KTraits::AttentionVariant::kGeneral) {
    return params.head_dim;
  } else {
    return KTraits::HEAD_DIM_QK;
  }
}

/// True when no row sees later rows.
template <typename KTraits, typename Params>
__device__ __forceinline__ bool is_causal(const Params& params) {
  if constexpr (KTraits::AttentionVariant::kGeneral) {
    return params.sight == decltype(params.sight)::own_past;
  } else {
    return true;
  }
}

/// True when all rows see their whole sequence.
template <typename KTraits, typename Params>
__device__ __forceinline__ bool sees_all(const Params& params) {
  if constexpr (KTraits::AttentionVariant::kGeneral) {
    return params.sight == decltype(params.sight)::all;
  } else {
    return false;
  }
}

}  // namespace flashinfer

#include <flashinfer_prefill.cuh>  // made by cmake/flashinfer.cmake

#include "kernels/attention/flash_kernel.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {

/// The fields that the kernel reads, under FlashInfer's names (default_prefill_params.cuh:295).
template <typename Q, typename KV, typename O>
struct FlashParams {
  using DTypeQ = Q;
  using DTypeKV = KV;
  using DTypeO = O;
  using IdType = int32_t;

  Q* q;
  flashinfer::paged_kv_t<KV, int32_t> paged_kv;
  int32_t* q_indptr;
  const int32_t* kv_len;
  O* o;
  float* lse;
  flashinfer::uint_fastdiv group_size;
  int32_t q_stride_n;
  int32_t q_stride_h;
  int32_t window_left;
  float logits_soft_cap;
  float sm_scale;
  float v_scale;
  int32_t* request_indices;
  int32_t* qo_tile_indices;
  int32_t* kv_tile_indices;
  int32_t* o_indptr;
  bool* block_valid_mask;
  int32_t* kv_chunk_size_ptr;
  bool partition_kv;
  uint32_t head_dim;
  FlashSight sight;
  const int32_t* seen_end;  // [T] of FlashSight::by_row

  __device__ __forceinline__ uint32_t get_qo_len(uint32_t request) const {
    return q_indptr[request + 1] - q_indptr[request];
  }
  __device__ __forceinline__ uint32_t get_kv_len(uint32_t request) const { return kv_len[request]; }
};

/// Causal attention; `general`: with a window and a soft cap, each of which may be none, and any
/// FlashSight. OutputTransform is the base's: o / d * v_scale, zeros where no key was seen.
template <bool general>
struct FlashVariant : flashinfer::AttentionVariantBase {
  static constexpr bool use_softmax = true;
  static constexpr bool kGeneral = general;

  uint32_t qo_len, kv_len, window_left;
  float sm_scale_log2;
  float before_tanh = 0.f;

  template <typename Params>
  __device__ FlashVariant(const Params& params, uint32_t request, uint8_t*)
      : qo_len(params.get_qo_len(request)),
        kv_len(params.get_kv_len(request)),
        window_left(kv_len),
        sm_scale_log2(params.sm_scale * flashinfer::math::log2e) {
    if constexpr (general) {
      if (params.window_left >= 0) window_left = params.window_left;
      if (params.logits_soft_cap > 0.f) {
        before_tanh = params.sm_scale / params.logits_soft_cap;
        sm_scale_log2 = params.logits_soft_cap * flashinfer::math::log2e;
      }
    }
  }

  template <typename Params, typename T>
  __device__ __forceinline__ T LogitsTransform(const Params&, T logits, uint32_t, uint32_t,
                                               uint32_t, uint32_t, uint32_t) {
    if constexpr (general) {
      if (before_tanh != 0.f) return flashinfer::math::tanh(logits * before_tanh);
    }
    return logits;
  }

  template <typename Params>
  __device__ __forceinline__ bool LogitsMask(const Params& params, uint32_t request,
                                             uint32_t qo_idx, uint32_t kv_idx, uint32_t, uint32_t) {
    if constexpr (general) {
      if (params.sight == FlashSight::by_row) {
        const int32_t* ends = params.seen_end + params.q_indptr[request];
        if (qo_idx >= qo_len || static_cast<int32_t>(kv_idx) >= ends[qo_idx]) return false;
      }
      return kv_idx + qo_len + window_left >= kv_len + qo_idx;
    }
    return true;
  }
};

/// 16-row pieces of the KV tile per warp: FlashInfer's rule (prefill.cuh:2579) for two blocks per
/// multiprocessor where they fit, in `memory` bytes. At most 4 for tiles of 64 rows: 8 spill.
template <uint32_t tile, uint32_t head_dim, typename KV>
constexpr uint32_t kv_pieces(uint32_t memory) {
  const uint32_t query = tile * head_dim * 2;
  const uint32_t piece = 2 * head_dim * 16 * flashinfer::get_num_warps_kv(tile) * sizeof(KV);
  const uint32_t room = (memory >= 2 * (query + piece) ? memory / 2 : memory) - query;
  const uint32_t most = tile == 16 ? 8 : 4;
  const uint32_t pieces = room / piece < most ? room / piece : most;
  return pieces >= 8 ? 8 : pieces >= 4 ? 4 : pieces >= 2 ? 2 : 1;
}

constexpr uint32_t memory_bytes(FlashMemory memory) {
  return memory == FlashMemory::large ? 164 * 1024 : 100 * 1024;
}

template <typename Traits, typename Params>
__global__ void __launch_bounds__(Traits::NUM_THREADS)
    flash_kernel(const __grid_constant__ Params params) {
  wait_for_previous();
  flashinfer::BatchPrefillWithPagedKVCacheDevice<Traits>(
      params, *shared_array<typename Traits::SharedStorage>(),
      dim3(threadIdx.x, threadIdx.y, threadIdx.z), blockIdx.x, blockIdx.z, gridDim.z);
}

template <typename Q, typename KV, uint32_t head_dim, bool general, FlashKind kind,
          FlashMemory memory>
struct FlashInstance {
  static constexpr uint32_t kTile = flash_tile(kind);
  using Output = std::conditional_t<is_split(kind), float, Q>;
  using Params = FlashParams<Q, KV, Output>;
  using Traits = flashinfer::KernelTraits<
      flashinfer::MaskMode::kCausal, kTile, flashinfer::get_num_mma_q(kTile),
      kv_pieces<kTile, head_dim, KV>(memory_bytes(memory)), head_dim / 16, head_dim / 16,
      flashinfer::get_num_warps_q(kTile), flashinfer::get_num_warps_kv(kTile),
      flashinfer::PosEncodingMode::kNone, Q, KV, Output, float, int32_t, FlashVariant<general>>;
  static_assert(!Traits::IsInvalid());
  static_assert(sizeof(typename Traits::SharedStorage) <= memory_bytes(memory) - 1024,
                "a thread block may use all but 1 KiB of a multiprocessor's shared memory");

  static constexpr size_t kSharedBytes = sizeof(typename Traits::SharedStorage);

  static cudaError_t prepare() {
    preload(flash_kernel<Traits, Params>);
    return cudaFuncSetAttribute(flash_kernel<Traits, Params>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(kSharedBytes));
  }

  /// Launches the kernel, which may start before the kernel ahead of it has ended: it waits before
  /// it reads anything, where FlashInfer (prefill.cuh:2146) would wait after reading the plan.
  static void run(const FlashArguments& a, int64_t items, cudaStream_t stream) {
    const Launch where{
        .grid = dim3(static_cast<uint32_t>(items), 1, static_cast<uint32_t>(a.kv_heads)),
        .block = dim3(32, Traits::NUM_WARPS_Q, Traits::NUM_WARPS_KV),
        .shared_bytes = kSharedBytes,
        .stream = stream};
    launch(where, "attention", flash_kernel<Traits, Params>, make_params(a));
  }

 private:
  template <typename T>
  static T* writable(
      const T* array) {  // FlashInfer's pointers are not const; it writes to o and lse
    return const_cast<T*>(array);
  }

  static Params make_params(const FlashArguments& a) {
    Params p{};
    p.q = writable(static_cast<const Q*>(a.q));
    p.paged_kv.page_size = flashinfer::uint_fastdiv(static_cast<uint32_t>(a.block_size));
    p.paged_kv.num_heads = static_cast<uint32_t>(a.kv_heads);
    p.paged_kv.head_dim = static_cast<uint32_t>(a.head_dim);
    p.paged_kv.batch_size = static_cast<uint32_t>(a.sequences);
    p.paged_kv.stride_page = static_cast<uint32_t>(a.block_stride);
    p.paged_kv.stride_n = static_cast<uint32_t>(a.head_dim);
    p.paged_kv.stride_h = static_cast<uint32_t>(a.block_size * a.head_dim);
    p.paged_kv.k_data = writable(static_cast<const KV*>(a.k));
    p.paged_kv.v_data = writable(static_cast<const KV*>(a.v));
    p.paged_kv.indices = writable(a.block_table);
    p.paged_kv.indptr = writable(a.page_start);
    p.q_indptr = writable(a.query_start);
    p.kv_len = a.context_length;
    p.o = static_cast<Output*>(a.out);
    p.lse = a.lse;
    p.group_size = flashinfer::uint_fastdiv(static_cast<uint32_t>(a.heads / a.kv_heads));
    p.q_stride_n = static_cast<int32_t>(a.q_stride);
    p.q_stride_h = static_cast<int32_t>(a.head_dim);
    p.window_left = static_cast<int32_t>(a.window_left);
    p.logits_soft_cap = a.soft_cap;
    p.sm_scale = a.scale;
    p.v_scale = a.v_scale;
    p.request_indices = writable(a.item_sequence);
    p.qo_tile_indices = writable(a.item_tile);
    p.kv_tile_indices = writable(a.item_chunk);
    p.o_indptr = writable(a.output_start);
    p.block_valid_mask = writable(a.item_valid);
    p.kv_chunk_size_ptr = writable(a.chunk_tokens);
    p.partition_kv = is_split(kind);
    p.head_dim = static_cast<uint32_t>(a.head_dim);
    p.sight = a.sight;
    p.seen_end = a.seen_end;
    return p;
  }
};

/// The kernels of one unit.
template <typename Q, typename KV, uint32_t head_dim, bool general>
struct FlashInstances {
  template <FlashKind kind, FlashMemory memory>
  using Instance = FlashInstance<Q, KV, head_dim, general, kind, memory>;

  /// Calls visitor(Instance{}) for the kind; tiles of 128 rows are for head sizes up to 128.
  template <FlashMemory memory>
  static void visit(FlashKind kind, const auto& visitor) {
    switch (kind) {
      case FlashKind::split16:
        return visitor(Instance<FlashKind::split16, memory>{});
      case FlashKind::split64:
        return visitor(Instance<FlashKind::split64, memory>{});
      case FlashKind::direct64:
        return visitor(Instance<FlashKind::direct64, memory>{});
      case FlashKind::direct128:
        if constexpr (head_dim <= 128) visitor(Instance<FlashKind::direct128, memory>{});
    }
  }

  static void visit(FlashKind kind, FlashMemory memory, const auto& visitor) {
    if (memory == FlashMemory::large) return visit<FlashMemory::large>(kind, visitor);
    visit<FlashMemory::small>(kind, visitor);
  }

  static cudaError_t prepare(FlashMemory memory) {
    cudaError_t status = cudaSuccess;
    for (const FlashKind kind :
         {FlashKind::split16, FlashKind::split64, FlashKind::direct64, FlashKind::direct128}) {
      if (status != cudaSuccess) break;
      visit(kind, memory, [&](auto instance) { status = instance.prepare(); });
    }
    return status;
  }

  static void launch(FlashKind kind, FlashMemory memory, const FlashArguments& arguments,
                     int64_t items, cudaStream_t stream) {
    visit(kind, memory, [&](auto instance) { instance.run(arguments, items, stream); });
  }
};

}  // namespace plimsoll::kernels
