// Storage of quantized matrices in the CUDA backend (model/packing.h): plain C++, so that plans
// count the bytes that a launch loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/packed_segments.h"
#include "model/model_spec.h"

namespace plimsoll::backend::cuda {

/// Outputs of a strip, which lie side by side; inputs of a step, one product of tensor cores;
/// inputs of a chunk, which a warp reads at once.
inline constexpr int64_t kStripRows = 16;
inline constexpr int64_t kStepInputs = 16;
inline constexpr int64_t kChunkInputs = 128;
/// Codes of a row that a lane has of a chunk, and lanes that share a row.
inline constexpr int64_t kLaneCodes = 32;
inline constexpr int64_t kRowLanes = kChunkInputs / kLaneCodes;

/// A part [rows, columns] of a quantized weight, in the order in which the lanes of mma.m16n8k16
/// take it, so that a warp reads only whole, consecutive pieces of 16 bytes:
///
/// - Inputs lie in *slots*, 16 to a step, 8 steps to a chunk. A step has inputs of one group alone.
///   Slots are the inputs in turn where these and their groups are whole steps; else (`spread`:
///   activation order, odd groups, groups that ranks cut) `order` names the input of each slot, -1
///   for none, and rows are brought into that order before the product. In a share of the inputs in
///   activation order a group has as many steps as it needs, each of which counts as a group here
///   and has scales of its own.
/// - Codes are [strips][chunks][pieces][32 lanes][16 bytes], the last piece of 3 and 5 bits 8 bytes
///   long.
///   Lane 4 g + t has rows g and g + 8 of the strip, one after the other, 32 codes each: the codes
///   of slots 16 s + 4 t + i of the chunk, code 4 s + i. They are `bits` words, in which codes 2 p
///   and 2 p + 1 lie 16 bits apart (code_place): tensor cores take them as a pair.
/// - A last chunk of at most 64 slots is stored by half, where that is half of each row's words
///   (2, 4 and 8 bits): as a chunk of half as many bits, with those words alone.
/// - Scales and zero points are [strips][groups][16], factors [strips][16]; after them lies the
///   data that the part has once. Missing elements of the last strip, chunk or group are zero.
/// - Scales of a GGUF file's blocks (ScaleType::blocks) keep the bytes that they have in the file:
///   [strips][blocks], of each block its float16s [halves][16] and then its bytes [bytes][16].
struct PackedMatrix {
  int64_t rows = 0, columns = 0, groups = 0;
  int64_t stored_groups = 0;  // fewer where steps count as groups
  int64_t steps = 0;
  int64_t group_steps = 0;  // 0: one group has all
  bool spread = false;
  int64_t half_chunk = -1;  // the chunk that is stored by half; -1: none
  int64_t nested_blocks = 0;
  size_t strip_codes = 0, strip_scales = 0, strip_zeros = 0;  // bytes of one strip
  // Offsets of the data after the codes.
  size_t scales = 0, zeros = 0, factors = 0, order = 0, table = 0, nested = 0, input = 0;
  size_t bytes = 0;

  PackedMatrix(const model::Part& part, int64_t columns_of_part);

  [[nodiscard]] int64_t strips() const { return (rows + kStripRows - 1) / kStripRows; }
  [[nodiscard]] int64_t slots() const { return steps * kStepInputs; }
  [[nodiscard]] int64_t chunks() const { return (slots() + kChunkInputs - 1) / kChunkInputs; }
  /// True when rows are rewritten before the product: rounded, or put in the slots' order.
  [[nodiscard]] static bool rewrites(const model::Part& part, int64_t columns);
};

/// Bytes of the codes of a strip's chunk.
constexpr int64_t chunk_bytes(int64_t bits) {
  return kStripRows * kChunkInputs * bits / 8;
}

/// True for codes of which half a chunk's inputs have half of a row's words.
constexpr bool has_half_chunks(int64_t bits) {
  return bits % 2 == 0 && 16 % bits == 0;
}
/// Words that a lane has of a row of the chunk.
constexpr int64_t row_words(const PackedMatrix& layout, int64_t bits, int64_t chunk) {
  return chunk == layout.half_chunk ? bits / 2 : bits;
}

/// Header of the second stage of a double-quantized part, after its 256 numbers and before its
/// largest values.
struct NestedPlace {
  float offset = 0;
  int32_t first = 0, stride = 1;  // model::NestedScales
};

/// Place of bit `bit` of code `i` in the words of a row's 32 codes, counted from the lowest bit of
/// the first word. Codes 2 p and 2 p + 1 are 16 bits apart. With 3, 5 and 6 bits a half word holds
/// five, three and two whole codes; the bits left over in the words, lowest first, hold the last
/// codes of each half: one with 3 and 5 bits, four with 6 bits. Codes of tables are
/// interleaved, because one instruction looks up four at a time.
constexpr int64_t code_place(const model::Packing& packing, int64_t i, int64_t bit) {
  const int64_t bits = packing.bits;
  if (packing.code == model::Code::table) return i * bits + bit;
  const int64_t pair = i / 2, half = i % 2 * 16;
  const int64_t of_word = 16 / bits, left_over = 16 % bits;
  if (pair < of_word * bits) return pair / of_word * 32 + half + pair % of_word * bits + bit;
  const int64_t at = (pair - of_word * bits) * bits + bit;
  return at / left_over * 32 + half + of_word * bits + at % left_over;
}

/// Byte offset of word `word` of a row of a strip's chunk for lane `t` of the row, which has
/// `words`: they lie in pieces of four, the lanes' one behind the other.
constexpr int64_t word_offset(int64_t row, int64_t t, int64_t words, int64_t word) {
  const int64_t lane = row % 8 * kRowLanes + t;
  const int64_t at = row / 8 * words + word;
  const int64_t left = 2 * words - at / 4 * 4;
  const int64_t words_of_piece = left < 4 ? left : 4;
  return (at / 4 * 32 * 4 + lane * words_of_piece + at % 4) * 4;
}

/// Slots of a part that is `spread`; empty for other parts.
struct SlotOrder {
  std::vector<int32_t> inputs;  // [slots], -1 for none
  std::vector<int32_t> groups;  // [groups], which of the stored ones each is; empty: itself
};
/// The slots of a part. Throws Error(checkpoint_unusable) where a group of the checkpoint's order
/// has more inputs than the packing says.
SlotOrder slot_order(const model::Part& part, const PackedMatrix& layout,
                     const model::PackedRows& rows);

/// Packs the codes of one strip, which is filled whole.
void pack_strip(const model::Part& part, const PackedMatrix& layout, const model::PackedRows& rows,
                const SlotOrder& order, int64_t strip, std::byte* to);
/// Packs scales and zero points of one strip. `order` as in pack_strip.
void pack_scales(const model::Part& part, const PackedMatrix& layout, const model::PackedRows& rows,
                 const SlotOrder& order, int64_t strip, std::byte* to);
void pack_zeros(const PackedMatrix& layout, const model::PackedRows& rows, const SlotOrder& order,
                int64_t strip, std::byte* to);

/// The type of a part that is stored row by row: `dtype` without a packing, the file's own where a
/// packing has no codes; nullopt: a PackedMatrix.
std::optional<DType> row_type(const model::Part& part, DType dtype);

/// The parts of one matrix of a quantized weight; those with a row_type() are row-major.
Segments packed_segments(const model::WeightSpec& spec, DType dtype, int64_t matrix);

/// Columns of the widest row that a product with one of the weight's parts reads rewritten; 0: all
/// rows are read unchanged.
int64_t rewritten_columns(const model::WeightSpec& spec);
inline size_t rewritten_bytes(int64_t rows, const model::WeightSpec& spec, DType dtype) {
  return rows * rewritten_columns(spec) * dtype_size(dtype);
}

}  // namespace plimsoll::backend::cuda
