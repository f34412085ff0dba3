// The products of experts that many rows chose, on tensor cores: tiles of 64 rows by 128 columns.
#include "kernels/products/expert_tiles.h"
#include "kernels/products/mma.h"
#include "kernels/runtime/launch.h"
#include "kernels/runtime/store_as.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 128;  // of a tile
constexpr int kDepth = 32;     // of one step along k
constexpr int kWide16 = 8;     // 16-bit numbers in 16 bytes
constexpr int kPieces = kDepth / kWide16;
/// Pairs from row to row in shared memory: eight rows of a fragment lie in different banks.
constexpr int kPitch = kDepth / 2 + 4;
constexpr int kLoads = (kTileRows + kColumns) * kPieces / kThreads;  // pieces of a thread
constexpr int kStagePairs = (kTileRows + kColumns) * kPitch;
// Warps: 2 along rows, 4 along columns, with 32 x 32 each.
constexpr int kWarpColumns = 4;
constexpr int kWarpSide = 32;
static_assert(kLoads * kThreads == (kTileRows + kColumns) * kPieces);

/// Pieces that a thread moves in each step: pieces of rows of both operands, the inputs' rows
/// first.
template <typename T>
struct Mover {
  const T* from[kLoads];  // null: zeros
  int to[kLoads];
  int64_t depth;
  uint4 held[kLoads];

  __device__ Mover(const TileRows<T>& rows, const T* matrix, int64_t stride, int64_t k, int columns)
      : depth(k) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int piece = static_cast<int>(threadIdx.x) + i * kThreads;
      const int row = piece / kPieces;
      const int column = piece % kPieces * kWide16;
      from[i] = nullptr;
      if (row < kTileRows) {
        if (row < rows.count) from[i] = rows.at(row) + column;
      } else if (row - kTileRows < columns) {
        from[i] = matrix + (row - kTileRows) * stride + column;
      }
      to[i] = row * kPitch + column / 2;
    }
  }
  __device__ void load(int64_t first) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t column = static_cast<int>(threadIdx.x + i * kThreads) % kPieces * kWide16;
      held[i] = from[i] != nullptr && first + column < depth
                    ? *reinterpret_cast<const uint4*>(from[i] + first)
                    : make_uint4(0, 0, 0, 0);
    }
  }
  __device__ void store(Pair* stage) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) *reinterpret_cast<uint4*>(stage + to[i]) = held[i];
  }
};

/// The warp's 32 x 32 part of one step.
template <typename T>
__device__ void multiply_stage(const Pair* stage, int first_row, int first_column,
                               float (&sums)[2][4][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int k = 0; k < kDepth / 2; k += 8) {
    Pair a[2][4];
    Pair b[4][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        a[i][part] = stage[(first_row + 16 * i + g + part % 2 * 8) * kPitch + k + t + part / 2 * 4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int part = 0; part < 2; ++part)
        b[j][part] = stage[(kTileRows + first_column + 8 * j + g) * kPitch + k + t + part * 4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_add<T>(sums[i][j], a[i], b[j]);
  }
}

/// Grid [tiles of columns, tiles of rows].
template <typename T>
__global__ void __launch_bounds__(kThreads) multiply_tiles_kernel(ExpertParameters p) {
  wait_for_previous();
  start_next();
  const int2 tile = p.tiles[blockIdx.y];
  if (tile.x < 0) return;
  const TileRows<T> rows(p, tile, kTileRows);
  const int64_t depth = p.in.columns;
  const int64_t column = int64_t{blockIdx.x} * kColumns;
  const auto columns = static_cast<int>(min(int64_t{kColumns}, p.out.columns - column));
  const T* matrix =
      static_cast<const T*>(p.weight) + (tile.x * p.out.columns + column) * p.weight_stride;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int first_row = warp / kWarpColumns * kWarpSide;
  const int first_column = warp % kWarpColumns * kWarpSide;
  Pair* stages = shared_array<Pair>();
  Mover<T> mover(rows, matrix, p.weight_stride, depth, columns);
  float sums[2][4][4] = {};
  mover.load(0);
  int now = 0;
  for (int64_t first = 0; first < depth; first += kDepth) {
    Pair* stage = stages + now * kStagePairs;
    mover.store(stage);
    // No thread reads the other stage any more when all threads have come here once more.
    __syncthreads();
    if (first + kDepth < depth) mover.load(first + kDepth);
    multiply_stage<T>(stage, first_row, first_column, sums);
    now = 1 - now;
  }
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int row = first_row + 16 * i + lane / 4 + part / 2 * 8;
        const int at = first_column + 8 * j + lane % 4 * 2 + part % 2;
        if (row >= rows.count || at >= columns) continue;
        store_as(p.out, rows.first + row, column + at, sums[i][j][part]);
      }
}

}  // namespace

void multiply_tiles(const ExpertParameters& parameters, int64_t tiles, cudaStream_t stream) {
  const Launch grid{
      .grid = dim3(static_cast<unsigned>(divide_up<int64_t>(parameters.out.columns, kColumns)),
                   static_cast<unsigned>(tiles)),
      .block = dim3(kThreads),
      .shared_bytes = 2 * kStagePairs * sizeof(Pair),
      .stream = stream};
  if (parameters.in.dtype == DType::bf16)
    launch(grid, "multiply_tiles", multiply_tiles_kernel<__nv_bfloat16>, parameters);
  else
    launch(grid, "multiply_tiles", multiply_tiles_kernel<__half>, parameters);
}

}  // namespace plimsoll::kernels
