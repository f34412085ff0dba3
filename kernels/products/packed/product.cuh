// The kernel of packed products (packed.h), for the units of packed_kernels.h.
#pragma once

#include "kernels/products/packed/codes.cuh"
#include "kernels/products/packed/kernels.h"
#include "kernels/products/packed/scales.cuh"
#include "kernels/products/packed/sums.cuh"
#include "kernels/rows/activation.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/store_as.h"

namespace plimsoll::kernels {

inline constexpr int kPackedWarps = 8;
inline constexpr int kPackedThreads = kPackedWarps * 32;

/// A lane's words of a strip's chunk: those of row g, then those of row g + 8.
template <int kBits>
struct LaneCodes {
  uint32_t words[2 * kBits];

  /// `kOnce`: no other block reads them, so they are not kept in the caches. `half`: the chunk is
  /// stored by half.
  template <bool kOnce>
  __device__ void load(const std::byte* chunk, bool half) {
    if constexpr (backend::cuda::has_half_chunks(kBits)) {
      if (half) return load_half<kOnce>(chunk);
    }
    load<kOnce>(chunk);
  }
  template <bool kOnce>
  __device__ void load(const std::byte* chunk) {
    constexpr int kPieces = kBits / 2;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      take<kOnce>(reinterpret_cast<const uint4*>(chunk) + 32 * i + lane, words + 4 * i);
    if constexpr (kBits % 2 != 0)
      take<kOnce>(reinterpret_cast<const uint2*>(chunk + 512 * kPieces) + lane,
                  words + 4 * kPieces);
  }

 private:
  template <bool kOnce>
  __device__ void load_half(const std::byte* chunk) {
    LaneCodes<kBits / 2> stored;
    stored.template load<kOnce>(chunk);
#pragma unroll
    for (int i = 0; i < 2 * kBits; ++i)
      words[i] = i % kBits < kBits / 2 ? stored.words[i / kBits * (kBits / 2) + i % kBits] : 0;
  }
  template <bool kOnce, typename V>
  __device__ static void take(const V* from, uint32_t* to) {
    const V bits = kOnce ? __ldcs(from) : __ldg(from);
    memcpy(to, &bits, sizeof bits);
  }
};

/// False where no chunk is ever stored by half: rows of Q2_K are whole blocks of 256 inputs.
template <typename Codes>
constexpr bool has_half_chunks() {
  return backend::cuda::has_half_chunks(Codes::kBits) &&
         !(Codes::kHasMinimums && Codes::kBits == 2);
}

/// The rows of a block, and the matrix that they are multiplied with.
template <typename T>
struct BlockRows {
  const PackedParameters& p;
  int64_t expert = 0, first = 0;
  int count = 0;  // 0: there are none

  __device__ BlockRows(const PackedParameters& parameters, int most) : p(parameters) {
    if (p.tiles == nullptr) {
      first = int64_t{blockIdx.y} * most;
      count = static_cast<int>(min(int64_t{most}, p.in.rows - first));
      return;
    }
    const int2 tile = p.tiles[blockIdx.y];
    if (tile.x < 0) return;
    const int64_t end = min(tile.y + p.tile_rows, int64_t{p.starts[tile.x + 1]});
    expert = tile.x;
    first = tile.y + int64_t{blockIdx.z} * most;
    count = static_cast<int>(max(int64_t{0}, min(int64_t{most}, end - first)));
  }
  /// Row `i`; past the last row the last one again.
  __device__ const T* at(int i) const {
    int64_t row = first + min(i, count - 1);
    if (p.slots_per_row > 0) row = p.order[row] / p.slots_per_row;
    return static_cast<const T*>(p.in.data) + row * p.in.stride;
  }
};

inline constexpr int kChunkSteps =
    static_cast<int>(backend::cuda::kChunkInputs / backend::cuda::kStepInputs);

/// The warp's part of one chunk. A group is kEvery steps, or a multiple of it.
template <int kEvery, bool kMinimums, typename Reader, typename Sums, int kBits>
__device__ void multiply_chunk(const PackedParameters& p, const Reader& reader,
                               const LaneCodes<kBits>& codes, const StepGroups& groups, int chunk,
                               const StagedScales& scales, Sums& sums) {
  sums.start_chunk(chunk * static_cast<int>(backend::cuda::kChunkInputs), p);
  GroupWalk group(groups, scales, chunk * kChunkSteps);
#pragma unroll
  for (int s = 0; s < kChunkSteps; s += kEvery) {
    const uint32_t upper = scales.zero(group.local, 0), lower = scales.zero(group.local, 1);
#pragma unroll
    for (int i = s; i < s + kEvery; ++i)
      sums.step(reader, codes.words, codes.words + kBits, i, upper, lower);
    sums.fold(scales.scale(group.local, 0), scales.scale(group.local, 1));
    if constexpr (kMinimums)
      sums.subtract(scales.minimum(group.local, 0), scales.minimum(group.local, 1));
    group.pass(kEvery, scales);
  }
}

/// Adds the warps' sums, `partial` [splits][rows of the tile][outputs of the block], and stores
/// them.
template <typename T, int kStrips, int kRows>
__device__ void store_sums(const PackedParameters& p, const BlockRows<T>& rows,
                           const std::byte* matrix, const float* partial) {
  constexpr int kOutputs = kStrips * static_cast<int>(backend::cuda::kStripRows);
  constexpr int kSplits = kPackedWarps / kStrips;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kOutputs; i += kPackedThreads) {
    const int row = i / kOutputs;
    const int64_t output = int64_t{blockIdx.x} * kOutputs + i % kOutputs;
    if (row >= rows.count || output >= p.layout.rows) continue;
    float sum = 0;
    for (int split = 0; split < kSplits; ++split) sum += partial[split * kRows * kOutputs + i];
    if (p.packing.factors) sum *= reinterpret_cast<const float*>(matrix + p.layout.factors)[output];
    if (p.bias.present()) sum += p.bias.at(output);
    store_as(p.out, rows.first + row, output, activate(p.activation, sum));
  }
}

/// Least blocks that a multiprocessor must have room for: with few rows enough that loads are in
/// flight all the time.
template <int kBits, typename T, int kTiles>
inline constexpr int kLeastBlocks = kTiles > 1 || sizeof(T) == 4 ? 1
                                    : kBits < 8                  ? 3
                                                                 : 2;

/// Grid [strips / kStrips, tiles of rows, tiles of a tile of experts].
template <typename Codes, typename T, int kStrips, int kTiles, bool kWide>
__global__ void __launch_bounds__(kPackedThreads, (kLeastBlocks<Codes::kBits, T, kTiles>))
    packed_kernel(const __grid_constant__ PackedParameters p) {
  constexpr bool kMinimums = Codes::kHasMinimums;
  using Sums = PackedSums<T, kTiles, kWide, kMinimums>;
  constexpr int kSplits = kPackedWarps / kStrips;
  constexpr int kRows = 8 * kTiles;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int own = warp % kStrips;
  const int split = warp / kStrips;
  const int chunks = static_cast<int>(chunks_of(p.layout));
  const int64_t strip = min(int64_t{blockIdx.x} * kStrips + own, last_strip(p.layout));
  constexpr int kChunkBytes = static_cast<int>(backend::cuda::chunk_bytes(Codes::kBits));
  constexpr bool kOnce = kTiles == 1;
  const int64_t first_codes = strip * p.layout.strip_codes + split * kChunkBytes;
  LaneCodes<Codes::kBits> next;
  const auto is_half = [&](int chunk) {
    return has_half_chunks<Codes>() && chunk == p.layout.half_chunk;
  };
  if (p.tiles == nullptr && split < chunks)
    next.template load<kOnce>(p.data + first_codes, is_half(split));
  wait_for_previous();
  start_next();
  const BlockRows<T> rows(p, kRows);
  if (rows.count == 0) return;
  const std::byte* const matrix = p.data + rows.expert * p.matrix_bytes;
  const std::byte* from = matrix + first_codes;
  if (p.tiles != nullptr && split < chunks) next.template load<kOnce>(from, is_half(split));
  using Reader = typename Codes::template Reader<T>;
  const Reader reader({reinterpret_cast<const float*>(matrix + p.layout.table), p.counting});
  const StepGroups groups(p.layout);
  [[maybe_unused]] const bool whole = groups.steps % kChunkSteps == 0;
  Sums sums(rows);
  for (int first = 0; first < chunks; first += static_cast<int>(kSpanChunks)) {
    StagedScales scales(p, first, kStrips, shared_array<float>());
    __syncthreads();
    stage_scales<Reader, Codes>(p, matrix, scales, kStrips);
    __syncthreads();
    scales.choose(own, Reader::zero(static_cast<int>(p.packing.zero)));
    const int end = min(chunks, first + static_cast<int>(kSpanChunks));
    for (int chunk = first + split; chunk < end; chunk += kSplits) {
      const LaneCodes<Codes::kBits> now = next;
      from += kSplits * kChunkBytes;
      if (chunk + kSplits < chunks) next.template load<kOnce>(from, is_half(chunk + kSplits));
      if constexpr (Codes::kGroupSteps > 0)
        multiply_chunk<Codes::kGroupSteps, kMinimums>(p, reader, now, groups, chunk, scales, sums);
      else if (whole)
        multiply_chunk<kChunkSteps, kMinimums>(p, reader, now, groups, chunk, scales, sums);
      else
        multiply_chunk<1, kMinimums>(p, reader, now, groups, chunk, scales, sums);
    }
  }
  __syncthreads();
  constexpr int kOutputs = kStrips * static_cast<int>(backend::cuda::kStripRows);
  float* partial = shared_array<float>();
  sums.store(partial + split * kRows * kOutputs + own * backend::cuda::kStripRows, kOutputs);
  __syncthreads();
  store_sums<T, kStrips, kRows>(p, rows, matrix, partial);
}

template <typename Codes, typename T, int kStrips, int kTiles, bool kWide = true>
void launch_packed(PackedParameters p, int64_t blocks, cudaStream_t stream) {
  constexpr int64_t kRows = 8 * kTiles;
  p.counting = Codes::template Reader<T>::kCounting;
  const bool experts = p.tiles != nullptr;
  const int64_t tiles = experts ? blocks : divide_up(p.in.rows, kRows);
  const size_t sums = kPackedWarps * kRows * backend::cuda::kStripRows * sizeof(float);
  launch({.grid = dim3(static_cast<unsigned>(divide_up(p.layout.strips(), kStrips)),
                       static_cast<unsigned>(tiles),
                       static_cast<unsigned>(experts ? divide_up(p.tile_rows, kRows) : 1)),
          .block = dim3(kPackedThreads),
          .shared_bytes = std::max(sums, StagedScales::bytes(p, kStrips)),
          .stream = stream},
         "packed_product", packed_kernel<Codes, T, kStrips, kTiles, kWide>, p);
}

/// Strips and tiles of eight rows of a block.
inline constexpr int kFewStrips = 1, kManyStrips = 2;
inline constexpr int kManyTiles = kPackedMany / 8;

/// True where there are kernels that load four inputs of a row at once; else one serves all rows.
/// Float rows with codes that GGUF files alone have are too rare for two.
template <typename Codes, typename T>
inline constexpr bool kHasWide = sizeof(T) == 2 || Codes::kGroupSteps == 0;

template <typename Codes>
void PackedKernels<Codes>::launch(const PackedParameters& parameters, bool many, int64_t blocks,
                                  cudaStream_t stream) {
  with_activation_type(parameters.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr bool kWide = kHasWide<Codes, T>;
    if (!kWide || !parameters.wide)
      return launch_packed<Codes, T, kFewStrips, 1, false>(parameters, blocks, stream);
    if constexpr (sizeof(T) == 2) {
      if (many) return launch_packed<Codes, T, kManyStrips, kManyTiles>(parameters, blocks, stream);
    }
    launch_packed<Codes, T, kFewStrips, 1, kWide>(parameters, blocks, stream);
  });
}

template <typename Codes>
void PackedKernels<Codes>::load(DType in) {
  with_activation_type(in, [](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (sizeof(T) == 2) preload(packed_kernel<Codes, T, kManyStrips, kManyTiles, true>);
    if constexpr (kHasWide<Codes, T>) preload(packed_kernel<Codes, T, kFewStrips, 1, true>);
    preload(packed_kernel<Codes, T, kFewStrips, 1, false>);
  });
}

}  // namespace plimsoll::kernels
