// Products with quantized weights (backend/cuda/packed_layout.h): of all rows with a matrix, and of
// each expert with the rows that chose it.
//
//   out[r, o] = activation(factor[o] * sum over groups g of scale[o, g] * sum over the group's n of
//               in[r, n] * (number(code[o, n]) - zero[o, g]) + bias[o])
//
// For blocks of a GGUF file with minimums, minimum[o, g] * sum of the group's in[r, n] is
// subtracted from a group's sum.
//
// Weights become numbers in registers and are never written anywhere. With rows of bf16 and f16
// the inner sums are tensor cores' (numbers are exact in the rows' type), with rows of f32 CUDA
// cores'; all are in float. Two arrangements of a block's eight warps:
//
// - few rows (8): a strip of 16 outputs, its inputs dealt out to the warps by chunks of 128. For
//   decoding, bound by reading: a warp loads pieces of 512 bytes that lie one behind the other, a
//   chunk ahead, which no cache keeps. An H200 reads some 36 codes of four bits for each SM and
//   cycle, in which it issues 128 instructions of lanes: 3.5 for a code. Integers of 4 bits in
//   groups of whole chunks take 3.1 (of machine code for 9.0, rows and sums included, at up to 8
//   rows), bytes no more than 4.4 of their 7; tables and smaller groups take 4.5, so those are
//   bound by instructions, at eight tenths of that rate at best. Cards that read less for each SM,
//   as an H100, have room for them.
// - many rows (64): two strips, inputs dealt out to four warps each. What rows cost is in their
//   loads then, of 8 bytes and through the first cache.
//
// Rates are as they were thought out: no card has measured them yet (bench/cuda/kernels).
// One arrangement gives a row the same bits beside any other rows: a warp adds its chunks in turn,
// and then the warps' sums are added in their order.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/packed_layout.h"
#include "kernels/products/experts.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// Rows of a tile of either arrangement.
inline constexpr int kPackedFew = 8, kPackedMany = 64;

/// Which arrangement is used.
enum class PackedTiles : uint8_t {
  by_rows,  // the one that fits the rows
  many,     // one for all: a row has the same bits in any batch
};

/// One quantized part; `rows` of one or of all experts.
struct PackedPart {
  const model::Packing* packing = nullptr;
  backend::cuda::PackedMatrix layout;
  const std::byte* data = nullptr;  // of the first expert's
  int64_t matrix_bytes = 0;         // from one expert's to the next
};

/// out [T, n] of in [T, k], both bf16, f16 or f32 alike, or out f32. Where the part is `spread`
/// rows are [T, slots] in the slots' order (round_inputs).
///
/// Blocks read their first codes before they wait for the kernel before them: no kernel of the same
/// stream that is still running may write the weight.
struct PackedLinear {
  View out;
  View in;
  PackedPart part;
  Vector bias{};  // [n] or none
  model::Activation activation = model::Activation::none;
  PackedTiles tiles = PackedTiles::by_rows;
};
void packed_linear(const PackedLinear& op, cudaStream_t stream);

/// out[p] = in[row(p)] * part(expert(p))^T for each sorted place p, as multiply_experts().
struct PackedExperts {
  View out;  // [slots, n]
  View in;
  PackedPart part;
  int64_t slots_per_row = 0;
  PackedTiles tiles = PackedTiles::by_rows;
};
void packed_experts(const PackedExperts& op, const ExpertSlots& slots, cudaStream_t stream);

/// Loads both arrangements' kernels for codes and rows of a type ahead of their first launch.
void load_packed(const model::Packing& packing, DType in);

}  // namespace plimsoll::kernels
