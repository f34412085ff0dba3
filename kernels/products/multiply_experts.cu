// The products of experts with their rows, on CUDA cores: tiles of rows by 64 columns through
// shared memory.
#include "kernels/products/expert_tiles.h"
#include "kernels/products/few_rows.h"
#include "kernels/runtime/store_as.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 64;  // of a tile
constexpr int kDepth = 32;    // of one step along k
constexpr int kSide = 16;     // threads along columns, and along rows
constexpr int kFewRows = 8;   // of a tile, ExpertSlots::tile_rows()
constexpr int kManyRows = kTileRows;
static_assert(kSide * kSide == kThreads);

/// A tile of at most M rows.
template <typename T, int N, int M>
__device__ void multiply_few(const ExpertParameters& p, int expert, const TileRows<T>& rows) {
  const int64_t k = p.in.columns;
  const int64_t first_column = int64_t{blockIdx.x} * kFewColumns;
  const T* matrix = static_cast<const T*>(p.weight) + expert * p.out.columns * p.weight_stride;
  FewColumns<T, N> columns(matrix, p.weight_stride, p.out.columns, first_column, k);
  const T* pointers[M];
#pragma unroll
  for (int m = 0; m < M; ++m) pointers[m] = rows.at(min(m, rows.count - 1));
  float sums[M][kFewColumns] = {};
  columns.template multiply<T>([&](int m) { return pointers[m]; }, sums);
  const float sum = sum_of_threads(sums, shared_array<float>());
  const auto result = static_cast<int>(threadIdx.x);
  const int row = result / kFewColumns;
  const int64_t column = first_column + result % kFewColumns;
  if (row >= min(M, rows.count) || column >= p.out.columns) return;
  store_as(p.out, rows.first + row, column, sum);
}

/// Grid [columns / 4, tiles of 8 rows]: bound by reading the matrices.
template <typename T, int N>
__global__ void __launch_bounds__(kFewThreads) multiply_few_kernel(ExpertParameters p) {
  wait_for_previous();
  start_next();
  const int2 tile = p.tiles[blockIdx.y];
  if (tile.x < 0) return;
  const TileRows<T> rows(p, tile, kFewRows);
  if (rows.count == 1)
    multiply_few<T, N, 1>(p, tile.x, rows);
  else if (rows.count == 2)
    multiply_few<T, N, 2>(p, tile.x, rows);
  else if (rows.count <= 4)
    multiply_few<T, N, 4>(p, tile.x, rows);
  else
    multiply_few<T, N, kFewRows>(p, tile.x, rows);
}

/// `rows` rows of a tile, [kDepth][pitch] with depth outermost, zeros past the ends. row_at(i) is
/// null for rows past the last. Neighbouring threads read along a row and write to different banks
/// (pitch is odd).
template <int N, typename T, typename RowAt>
__device__ void load_tile(float* to, int rows, int pitch, int64_t first, int64_t depth,
                          RowAt row_at) {
  constexpr int kPieces = kDepth / N;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces; i += kThreads) {
    const int row = i / kPieces;
    const int piece = i % kPieces * N;
    const T* from = row_at(row);
    float* at = to + piece * pitch + row;
    if (from != nullptr && first + piece < depth) {
      const Pack<T, N> values = load_pack<T, N>(from + first + piece);
      for (int j = 0; j < N; ++j) at[j * pitch] = values.at(j);
    } else {
      for (int j = 0; j < N; ++j) at[j * pitch] = 0.f;
    }
  }
}

/// Grid [tiles of 64 columns, tiles of 64 rows], through shared memory. A thread has 4 rows and 4
/// columns, 16 apart.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) multiply_kernel(ExpertParameters p) {
  wait_for_previous();
  start_next();
  constexpr int kRows = kManyRows;
  constexpr int kOwnRows = kRows / kSide;
  constexpr int kOwnColumns = kColumns / kSide;
  constexpr int kRowPitch = kRows + 1;
  constexpr int kColumnPitch = kColumns + 1;
  const int2 tile = p.tiles[blockIdx.y];
  if (tile.x < 0) return;
  const TileRows<T> rows(p, tile, kRows);
  const int count = rows.count;
  const int64_t depth = p.in.columns;
  const int64_t first_column = int64_t{blockIdx.x} * kColumns;
  const T* weight =
      static_cast<const T*>(p.weight) + (tile.x * p.out.columns + first_column) * p.weight_stride;
  const auto columns = static_cast<int>(min(int64_t{kColumns}, p.out.columns - first_column));
  const auto in_row = [&](int i) -> const T* { return i < count ? rows.at(i) : nullptr; };
  const auto weight_row = [&](int i) -> const T* {
    return i < columns ? weight + i * p.weight_stride : nullptr;
  };
  float* a = shared_array<float>();
  float* b = a + kDepth * kRowPitch;
  const int x = static_cast<int>(threadIdx.x) % kSide;
  const int y = static_cast<int>(threadIdx.x) / kSide;
  float sums[kOwnRows][kOwnColumns] = {};
  for (int64_t first = 0; first < depth; first += kDepth) {
    __syncthreads();
    load_tile<N, T>(a, kRows, kRowPitch, first, depth, in_row);
    load_tile<N, T>(b, kColumns, kColumnPitch, first, depth, weight_row);
    __syncthreads();
#pragma unroll 8
    for (int d = 0; d < kDepth; ++d) {
      float left[kOwnRows];
      float right[kOwnColumns];
#pragma unroll
      for (int i = 0; i < kOwnRows; ++i) left[i] = a[d * kRowPitch + y + i * kSide];
#pragma unroll
      for (int j = 0; j < kOwnColumns; ++j) right[j] = b[d * kColumnPitch + x + j * kSide];
#pragma unroll
      for (int i = 0; i < kOwnRows; ++i)
#pragma unroll
        for (int j = 0; j < kOwnColumns; ++j) sums[i][j] += left[i] * right[j];
    }
  }
#pragma unroll
  for (int i = 0; i < kOwnRows; ++i) {
    const int row = y + i * kSide;
    if (row >= count) continue;
#pragma unroll
    for (int j = 0; j < kOwnColumns; ++j)
      if (x + j * kSide < columns)
        store_as(p.out, tile.y + row, first_column + x + j * kSide, sums[i][j]);
  }
}

int64_t stride_of(const ExpertProduct& op) {
  return op.weight_stride > 0 ? op.weight_stride : op.in.columns;
}

template <typename T, int N>
void launch_multiply(const ExpertProduct& op, const ExpertSlots& slots, cudaStream_t stream) {
  const bool few = slots.tile_rows() == kFewRows;
  const int64_t columns = few ? kFewColumns : kColumns;
  const Launch grid{.grid = dim3(static_cast<unsigned>(divide_up(op.out.columns, columns)),
                                 static_cast<unsigned>(slots.count_tiles())),
                    .block = dim3(few ? kFewThreads : kThreads),
                    .shared_bytes = (few ? kFewWarps * kFewRows * kFewColumns
                                         : kDepth * (kManyRows + kColumns + 2)) *
                                    sizeof(float),
                    .stream = stream};
  const ExpertParameters parameters{op.out,      op.in,        op.weight,   op.slots_per_row,
                                    slots.tiles, slots.starts, slots.order, stride_of(op)};
  const bool has_tensor_cores = sizeof(T) == 2 && N > 1;
  if (few)
    launch(grid, "multiply_experts", multiply_few_kernel<T, N>, parameters);
  else if (has_tensor_cores)
    multiply_tiles(parameters, slots.count_tiles(), stream);
  else
    launch(grid, "multiply_experts", multiply_kernel<T, N>, parameters);
}

}  // namespace

void multiply_experts(const ExpertProduct& op, const ExpertSlots& slots, cudaStream_t stream) {
  if (op.in.dtype != op.out.dtype && op.out.dtype != DType::f32)
    throw std::logic_error("multiply_experts: in and out differ in type");
  const View weight{const_cast<void*>(op.weight), op.in.dtype, op.out.columns, op.in.columns,
                    stride_of(op)};
  if (slots.slots == 0) return;
  with_activation_type(op.in.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>([&](auto n) { launch_multiply<T, decltype(n)::value>(op, slots, stream); },
                      op.in, weight);
  });
}

}  // namespace plimsoll::kernels
