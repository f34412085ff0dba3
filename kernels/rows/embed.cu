#include "kernels/rows/embed_blocks.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 128;

/// Elements of a table in the type of the rows.
template <typename T, int N>
struct PlainTable {
  View rows;

  __device__ void read(int64_t row, int64_t i, float (&to)[N]) const {
    const Pack<T, N> piece = load_pack<T, N>(row_at<T>(rows, row) + i);
    for (int j = 0; j < N; ++j) to[j] = piece.at(j);
  }
};

/// Elements of a table of a GGUF file.
struct PackedTable {
  EmbedBlocks of;

  __device__ void read(int64_t row, int64_t i, float (&to)[1]) const {
    const Vector plain{of.data, of.type};
    to[0] = of.is_plain ? plain.at(row * of.layout.columns + i) : weight(row, i);
  }

 private:
  __device__ float weight(int64_t row, int64_t i) const {
    const int64_t strip = row / backend::cuda::kStripRows;
    const int of_strip = static_cast<int>(row % backend::cuda::kStripRows);
    const GgmlScale<float> by =
        scale_of_block(of.data + of.layout.scales + strip * of.layout.strip_scales, of.blocks,
                       i / of.packing.group, of_strip);
    const int code = code_of(of.data + strip * of.layout.strip_codes, of_strip, i);
    float number = static_cast<float>(code - static_cast<int>(of.packing.zero));
    if (of.packing.code == model::Code::table)
      number = reinterpret_cast<const float*>(of.data + of.layout.table)[code];
    const float value = by.scale * number - by.minimum;
    if (!of.packing.factors) return value;
    return value * reinterpret_cast<const float*>(of.data + of.layout.factors)[row];
  }
  /// The code of input `i` of a row of a strip, bit by bit.
  __device__ int code_of(const std::byte* strip, int row, int64_t i) const {
    using namespace backend::cuda;
    const int64_t number = i / kChunkInputs;
    const std::byte* const chunk = strip + number * chunk_bytes(of.packing.bits);
    const int64_t words = row_words(of.layout, of.packing.bits, number);
    const int64_t slot = i % kChunkInputs, lane = slot % kStepInputs / 4;
    int code = 0;
    for (int64_t bit = 0; bit < of.packing.bits; ++bit) {
      const int64_t place = code_place(of.packing, slot / kStepInputs * 4 + slot % 4, bit);
      const int64_t word = word_offset(row, lane, words, place / 32);
      const uint32_t bits = *reinterpret_cast<const uint32_t*>(chunk + word);
      code |= static_cast<int>(bits >> place % 32 & 1) << bit;
    }
    return code;
  }
};

/// A block per row.
template <typename T, int N, typename Table>
__global__ void __launch_bounds__(kThreads) embed_kernel(Embed op, Table table) {
  wait_for_previous();
  start_next();
  const int64_t t = blockIdx.x;
  const int32_t given = op.ids[t];
  const int64_t id = given >= 0 ? int64_t{given} + op.id_offset
                                : (op.drawn == nullptr ? -1 : op.drawn[-1 - given]);
  const bool shared = op.all_rows > 0;
  const bool named = id >= 0 && id < (shared ? op.all_rows : op.table.rows);
  const int64_t row = (named ? id : 0) - op.first_row;
  const bool own = row >= 0 && row < op.table.rows;
  const bool known = id >= 0 && own;
  T* to = static_cast<T*>(op.out.data) + t * op.out.stride;
  if (given < 0 && op.resolved != nullptr) {
    __syncthreads();  // all have read it
    if (threadIdx.x == 0) op.resolved[t] = static_cast<int32_t>(id < 0 ? 0 : id);
  }
  const bool accumulate = op.store == Store::accumulate;
  for (int64_t i = threadIdx.x * N; i < op.out.columns; i += blockDim.x * N) {
    float piece[N];
    table.read(own ? row : 0, i, piece);
    Pack<T, N> result;
    if (accumulate) result = load_pack<T, N>(to + i);
    for (int j = 0; j < N; ++j) {
      const float value = known ? piece[j] * op.scale : (shared ? -0.f : 0.f);
      result.set(j, accumulate ? result.at(j) + value : value);
    }
    store_pack(to + i, result);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) gather_kernel(View out, View in, const int32_t* rows) {
  wait_for_previous();
  start_next();
  const int64_t row = rows[blockIdx.x];
  const T* from = static_cast<const T*>(in.data) + (row < 0 ? 0 : row) * in.stride;
  T* to = static_cast<T*>(out.data) + int64_t{blockIdx.x} * out.stride;
  Pack<T, N> zero;
  for (int j = 0; j < N; ++j) zero.set(j, 0.f);
  for (int64_t i = threadIdx.x * N; i < out.columns; i += blockDim.x * N)
    store_pack(to + i, row < 0 ? zero : load_pack<T, N>(from + i));
}

Launch block_per_row(const View& out, cudaStream_t stream) {
  return {.grid = dim3(static_cast<unsigned>(out.rows)), .block = dim3(kThreads), .stream = stream};
}

}  // namespace

void embed(const Embed& op, cudaStream_t stream) {
  if (op.table.dtype != op.out.dtype) throw std::logic_error("embed: table and out differ in type");
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          constexpr int kN = decltype(n)::value;
          launch(block_per_row(op.out, stream), "embed", embed_kernel<T, kN, PlainTable<T, kN>>, op,
                 PlainTable<T, kN>{op.table});
        },
        op.out, op.table);
  });
}

void embed_blocks(const Embed& op, const EmbedBlocks& table, cudaStream_t stream) {
  with_activation_type(op.out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(block_per_row(op.out, stream), "embed_blocks", embed_kernel<T, 1, PackedTable>, op,
           PackedTable{table});
  });
}

void gather_rows(const View& out, const View& in, const int32_t* rows, cudaStream_t stream) {
  if (in.dtype != out.dtype) throw std::logic_error("gather_rows: in and out differ in type");
  with_activation_type(out.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_pack_size<T>(
        [&](auto n) {
          launch(block_per_row(out, stream), "gather_rows", gather_kernel<T, decltype(n)::value>,
                 out, in, rows);
        },
        out, in);
  });
}

}  // namespace plimsoll::kernels
