// FlashInfer's paged prefill kernel for Hopper (FlashAttention 3's design: wgmma, one warp group
// that loads and two or three that compute), as this program instantiates it. Included by the units
// alone (hopper_unit.cu.in), which are compiled for sm_90a.
//
// Facts that this relies on, with places in flashinfer 0.6.9's include/flashinfer/attention/hopper:
//
//  prefill_sm90.cuh, PrefillWithKVCacheKernel:
//   46   mainloop, epilogue and scheduler are parameters: the scheduler below is ours, the others
//        are FlashInfer's; block_coord is (query tile, head, KV head, first row, first entry of the
//        block table, rows, tokens, sequence)
//   161  a block goes from work to work of its scheduler, in its producer and its consumers alike
//        There is no griddepcontrol: it is launched without overlap, and what follows it waits for
//        its end.
//  sparse_mainloop.cuh:
//   82   layouts are (tokens, head_dim, heads) with strides of 64 bits: rows of a page lie stride_n
//        apart, heads stride_h, pages k_page_stride. Offsets of K and V are equal (287), so V is
//        K's base plus a constant.
//   155  the last KV tile of a query tile; tiles of CTA_KV tokens begin at position 0
//   281  a position's page is kv_indices[first entry + position / page_size]
//   312  positions past the sequence's end are filled with zeros in its last tile alone
//  mainloop_mma.cuh:
//   105  a row sees positions below row + 1 + tokens - rows, and from row + tokens - rows -
//        window_left on
//  epilogue.cuh (198): no log-sum-exps where lse_ptr is null; rows past the sequence's are left out
//
// Adapted by cmake/flashinfer_hopper.cmake, because blocks behind a window are given back, so that
// entries of the block table before it may hold anything: tiles wholly before the first row's
// window are left out (utils.cuh: one was computed, masked), positions before it in the first tile
// are not read, and the last V tile is that tile, not tile 0 (sparse_mainloop.cuh: 404).
#pragma once

// FlashInfer's collection of CUTLASS headers, of which most are of other kernels: half of the time
// to compile.
#define FLASHINFER_CUTLASS_UTILS_CUH_
#include <cutlass/cuda_host_adapter.hpp>

#include "kernels/runtime/driver_call.h"

// CUTLASS prints that the driver refused to make a tensor map, and goes on.
#undef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#define CUTLASS_CUDA_DRIVER_WRAPPER_CALL(func)                                  \
  ::plimsoll::kernels::CheckedCall {                                            \
    [](auto... arguments) { return cutlass::call_##func(arguments...); }, #func \
  }
#include <cutlass/cutlass.h>
#include <cutlass/numeric_types.h>
#include <cute/tensor.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>

// Made by cmake/flashinfer_hopper.cmake; they stand in for those that prefill_sm90.cuh includes.
#include <flashinfer_hopper_utils.cuh>
//
#include <flashinfer_hopper_sparse_mainloop.cuh>
//
#include <flashinfer/attention/hopper/prefill_sm90.cuh>

#include "kernels/attention/hopper_kernel.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {

/// The works of a block, one after the other.
struct HopperScheduler {
  struct Params {
    HopperWorks works;
    int32_t group;  // heads of a KV head
  };

  struct WorkTileInfo {
    HopperPiece piece;
    int32_t kv_head = 0;
    int32_t next = 0, end = 0;  // in the list of works
    bool valid = false;

    __device__ bool is_valid(const Params&) const { return valid; }
    __device__ auto get_block_coord(const Params&) const {
      return cute::tuple{piece.tile,  piece.head, kv_head,       piece.first_row,
                         piece.entry, piece.rows, piece.context, piece.sequence};
    }
  };

  __device__ WorkTileInfo get_initial_work(const Params& params) const {
    return work_at(params, params.works.start[blockIdx.x], params.works.start[blockIdx.x + 1]);
  }
  template <bool is_producer = false>
  __device__ WorkTileInfo get_next_work(const Params& params, const WorkTileInfo& current) const {
    return work_at(params, current.next, current.end);
  }
  // Functions of the interface for schedulers that share a counter between blocks; this one does
  // not.
  __device__ void init_consumer() const {}
  __device__ void prefetch_next_work(const Params&, WorkTileInfo&) const {}
  __device__ void broadcast_next_work(WorkTileInfo&) const {}

 private:
  static __device__ WorkTileInfo work_at(const Params& params, int32_t at, int32_t end) {
    WorkTileInfo info;
    info.valid = at < end;
    if (!info.valid) return info;
    info.piece = params.works.piece(at);
    info.kv_head = info.piece.head / params.group;
    info.next = at + 1;
    info.end = end;
    return info;
  }
};

/// FlashInfer's online softmax, with another value of masked scores before they are scaled: its
/// "infinity" is 5e4, which scores of models with large biases of K pass. 1e8 is beyond all of
/// them, and small enough that the rounding of its product with the scale (a fused multiply-add
/// keeps the rest) stays below 2^9 in the exponent's result, which a row that sees nothing yet
/// multiplies by 0 later.
template <int Rows>
struct HopperSoftmax : flashinfer::OnlineSoftmax<Rows, /*WITH_SCALE=*/true> {
  static constexpr float fill_value = -1e8f;
  __device__ explicit HopperSoftmax(float scale_log2)
      : flashinfer::OnlineSoftmax<Rows, true>(scale_log2) {}
};

struct HopperVariant : flashinfer::AttentionVariantBase {
  float sm_scale_log2;

  template <typename MainloopParams, typename BlockCoord>
  __device__ HopperVariant(const MainloopParams& params, const BlockCoord&)
      : sm_scale_log2(params.additional_params.sm_scale * flashinfer::math::log2e) {}

  template <int Rows>
  __device__ auto GetAttentionUpdater() {
    return HopperSoftmax<Rows>(sm_scale_log2);
  }
};

template <typename T, int head_dim, bool windowed>
struct HopperInstance {
  struct Additional {
    float sm_scale;
  };
  static constexpr HopperTile kTile = hopper_tile(head_dim);
  using Traits = flashinfer::AttentionKernelTraits</*USE_TMA_LOAD_KV=*/false, head_dim, head_dim,
                                                   kTile.rows, kTile.tokens, /*NUM_STAGES=*/2, T, T,
                                                   T, int32_t, HopperVariant>;
  using Mainloop = flashinfer::SparseCollectiveMainloop<Additional, Traits, /*CAUSAL=*/true>;
  using Epilogue = flashinfer::CollectiveEpilogue<Traits>;
  static constexpr auto kKernel =
      flashinfer::PrefillWithKVCacheKernel<Mainloop, Epilogue, Traits, windowed, /*CAUSAL=*/true,
                                           HopperScheduler>;
  static constexpr size_t kSharedBytes = sizeof(typename Traits::SharedStorage);
  static_assert(kSharedBytes <= size_t{227} << 10, "what a thread block may have on 9.0");

  static cudaError_t prepare() {
    preload(kKernel);
    return cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(kSharedBytes));
  }

  static void run(const HopperArguments& a, int64_t blocks, cudaStream_t stream) {
    const Launch where{.grid = dim3(static_cast<uint32_t>(blocks)),
                       .block = dim3(Traits::NUM_THREADS),
                       .shared_bytes = kSharedBytes,
                       .stream = stream,
                       .overlap = Overlap::no};
    launch(where, "attention (Hopper)", kKernel, mainloop(a), epilogue(a),
           HopperScheduler::Params{a.works, static_cast<int32_t>(a.heads / a.kv_heads)});
  }

 private:
  static auto layout(int64_t rows, int64_t heads, int64_t stride_n, int64_t stride_h) {
    return flashinfer::get_gmem_layout(static_cast<int>(rows), static_cast<int>(heads), head_dim,
                                       stride_n, stride_h);
  }

  static typename Mainloop::Params mainloop(const HopperArguments& a) {
    const auto kv = layout(0, a.kv_heads, head_dim, a.block_size * head_dim);
    return Mainloop::to_underlying_arguments({static_cast<const T*>(a.q),
                                              layout(a.rows, a.heads, a.q_stride, head_dim),
                                              static_cast<const T*>(a.k),
                                              kv,
                                              static_cast<const T*>(a.v),
                                              kv,
                                              a.block_table,
                                              static_cast<int>(a.window_left),
                                              a.block_stride,
                                              a.block_stride,
                                              static_cast<uint32_t>(a.block_size),
                                              {a.scale}});
  }

  static typename Epilogue::Params epilogue(const HopperArguments& a) {
    return Epilogue::to_underlying_arguments(
        {static_cast<T*>(a.out), layout(a.rows, a.heads, a.heads * head_dim, head_dim), nullptr,
         flashinfer::get_lse_gmem_layout(static_cast<int>(a.rows), static_cast<int>(a.heads))});
  }
};

/// The kernels of one unit.
template <typename T, int head_dim>
struct HopperInstances {
  static cudaError_t prepare() {
    const cudaError_t status = HopperInstance<T, head_dim, false>::prepare();
    return status != cudaSuccess ? status : HopperInstance<T, head_dim, true>::prepare();
  }

  static void launch(const HopperArguments& a, int64_t blocks, cudaStream_t stream) {
    if (a.window_left < 0) return HopperInstance<T, head_dim, false>::run(a, blocks, stream);
    HopperInstance<T, head_dim, true>::run(a, blocks, stream);
  }
};

}  // namespace plimsoll::kernels
