// Decode attention by XQA, TensorRT-LLM's kernel (Apache-2.0) as FlashInfer ships it, as this
// program launches it. Included by the units alone (xqa_unit.cu.in), which define HEAD_ELEMS,
// INPUT_FP16 and CACHE_ELEM_ENUM before.
//
// What is relied on, with places in flashinfer 0.6.9's csrc/xqa:
//
//  mha.cu, kernel_mha:
//   1574  the grid is [parts, KV heads, sequences], 256 threads; a block takes the tiles of 256
//         tokens part, part + parts ... of a sequence's keys
//   1662  it waits for the kernels ahead before it reads anything
//   1737  a sequence's length counts the row's own token
//   1906  positions past the end are filled with zeros, of K and V alike; pages past the sequence's
//         last one are not looked up (mhaUtils.cuh: 268)
//   2554  with several parts, partial results of 16 bits go to scratch: largest scores and sums
//         first, then the rows; atom.inc leaves the counters zeros again
//  mhaUtils.cuh, HeadPtr (62): pages, tokens and heads are strides apart that count rows of
//         head_dim elements, in 32 bits: K and V have a pointer each, so our blocks (all layers of
//         16 tokens, heads outermost) are pages with one stride where that is whole rows
//
// Adapted by cmake/flashinfer_xqa.cmake: the number of query heads of a KV head is an argument (a
// tile has 16 rows whatever it is), q is read out of rows of q, k and v, sums of the warps' results
// are made in float32 (they were rounded once more), a sequence without tokens gives zeros also
// where it has several parts, a barrier stands between the flag of the last part and the maxima of
// rows that are written to its place, and code for 9.0 has all registers where shared memory has no
// room for two blocks.
// mha_sm90.cu is left out: it is for caches of float8 alone, over tensor maps that the driver
// makes.
#pragma once

#define HEAD_GRP_SIZE 16
#define TOKENS_PER_PAGE 16
#define BEAM_WIDTH 1
#define USE_INPUT_KV 0

// Made by cmake/flashinfer_xqa.cmake.
#include <flashinfer_xqa_mha.cuh>

#include <cmath>

#include "kernels/attention/xqa_kernel.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {

static_assert(::headGrpSize == kMostXqaGroup && ::tokensPerPage == kXqaPage);
static_assert(ctaTile.x == kXqaTile);
static_assert(2 * sizeof(SMemWarpRowMax) + size_t{nbValidRows} * HEAD_ELEMS * sizeof(InputElem) ==
              xqa_part_bytes(HEAD_ELEMS));

// Of this unit alone: with a name that others see, the linker would keep one unit's functions for
// all of them.
namespace {

/// The kernel of this unit.
struct XqaInstance {
  /// Of the code that runs, whose tiles are the architecture's.
  static uint32_t& shared_bytes() {
    static uint32_t bytes = 0;
    return bytes;
  }

  static bool prepare() {
    preload(kernel_mha);
    uint32_t bytes = 0;
    check_launch(cudaMemcpyFromSymbol(&bytes, ::smemSize, sizeof bytes), "cudaMemcpyFromSymbol");
    int device = 0, most = 0;
    check_launch(cudaGetDevice(&device), "cudaGetDevice");
    check_launch(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                 "cudaDeviceGetAttribute");
    if (bytes > static_cast<uint32_t>(most)) return false;
    shared_bytes() = bytes;
    check_launch(cudaFuncSetAttribute(kernel_mha, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(bytes)),
                 "cudaFuncSetAttribute");
    return true;
  }

  static void run(const XqaArguments& a, cudaStream_t stream) {
    const auto count = [](int64_t of) { return static_cast<uint32_t>(of); };
    const KVCacheList<true> cache{.kCacheVLLM = static_cast<GMemCacheHead*>(const_cast<void*>(a.k)),
                                  .vCacheVLLM = static_cast<GMemCacheHead*>(const_cast<void*>(a.v)),
                                  .kvCachePageList = a.block_table,
                                  .seqLenList = reinterpret_cast<const uint32_t*>(a.context_length),
                                  .maxNbPagesPerSeq = count(a.table_stride)};
    // The kernel has one scale for keys and values, of float8 alone, and divides by the root of
    // the columns.
    const float root = std::sqrt(static_cast<float>(HEAD_ELEMS));
    launch({.grid = dim3(count(a.parts), count(a.kv_heads), count(a.sequences)),
            .block = dim3(warp_size * ctaShapeInWarps.x, ctaShapeInWarps.y, ctaShapeInWarps.z),
            .shared_bytes = shared_bytes(),
            .stream = stream},
           "attention (XQA)", kernel_mha, count(a.kv_heads), count(a.heads / a.kv_heads),
           a.scale * root * a.k_scale / a.v_scale, static_cast<const float*>(nullptr),
           static_cast<OutputHead*>(a.out), static_cast<const IOHead*>(a.q),
           static_cast<const float*>(nullptr), cache, count(a.sequences), a.v_scale,
           static_cast<const float*>(nullptr), count(a.block_stride), uint32_t{1}, count(kXqaPage),
           a.counters, static_cast<void*>(a.scratch));
  }
};

}  // namespace

}  // namespace plimsoll::kernels
