// Products of fixed-point rows with quantized weights: a row's numbers are integers of 16 or 24
// bits times a power of two for each chunk of inputs, a byte of them a plane; or, of inputs that
// are rounded to int8 in groups, these bytes times the groups' scales. Codes times planes are sums
// of integers, exact in any order, so that bits depend on nothing but row and column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/kernels.h"
#include "base/rounding.h"
#include "model/packing.h"

namespace plimsoll::backend {

/// Most inputs that share a power of two; inputs of two groups of weights never share one.
inline constexpr int64_t kFixedChunk = 128;
/// Inputs whose bytes lie together.
inline constexpr int64_t kFixedUnit = 8;
/// Inputs between the fields at one place of each of a word's bytes (CodeUnit): 1 with 8 bits, 2
/// with 4, else 4.
constexpr int64_t fixed_stride(int64_t bits) {
  return bits == 4 || bits == 8 ? 8 / bits : 4;
}
/// Inputs that neither a chunk nor a slice cuts.
constexpr int64_t fixed_block(int64_t bits) {
  return std::max(4 * fixed_stride(bits), kFixedUnit);
}
/// Most rows of one tile, by planes.
inline constexpr int kFixedRows = 6, kByteRows = 32;
constexpr int fixed_rows(int planes) {
  return planes == 1 ? kByteRows : kFixedRows;
}

/// A chunk: inputs [begin, end) of a slice; empty where the slice begins or ends in their group.
struct FixedChunk {
  int64_t index, group, begin, end;
};

/// Division of a slice's inputs into chunks: each group, from the first on, is cut into chunks of
/// kFixedChunk of which the last may be shorter. They are walked in order: a division for each
/// would cost as much as a tenth of its products.
struct FixedChunks {
  int64_t columns, group, lead, in_group, count;

  /// `group_columns`: Packing::group; `before`: inputs of the first group that lie before the
  /// slice.
  FixedChunks(int64_t group_columns, int64_t slice_columns, int64_t before)
      : columns(slice_columns),
        group(group_columns > 0 ? group_columns : columns),
        lead(before),
        in_group(divide_up(group, kFixedChunk)),
        count(divide_up(lead + columns, group) * in_group) {}
  /// Most chunks of a slice, wherever it begins.
  static constexpr int64_t most(int64_t group_columns, int64_t slice_columns) {
    if (group_columns == 0) return divide_up(slice_columns, kFixedChunk);
    return divide_up(slice_columns + group_columns - kFixedUnit, group_columns) *
           divide_up(group_columns, kFixedChunk);
  }

  class Iterator {
   public:
    Iterator(const FixedChunks& chunks, int64_t index)
        : chunks_(chunks), group_end_(chunks.group - chunks.lead), chunk_{index, 0, 0, 0} {
      bound(0);
    }
    const FixedChunk& operator*() const { return chunk_; }
    Iterator& operator++() {
      ++chunk_.index;
      if (++in_group_ < chunks_.in_group) {
        bound(chunk_.begin + kFixedChunk);
      } else {
        ++chunk_.group;
        in_group_ = 0;
        group_end_ += chunks_.group;
        bound(group_end_ - chunks_.group);
      }
      return *this;
    }
    bool operator!=(const Iterator& other) const { return chunk_.index != other.chunk_.index; }

   private:
    void bound(int64_t begin) {
      const int64_t end = std::min(group_end_, chunks_.columns);
      chunk_.begin = std::min(begin, end);
      chunk_.end = std::min(begin + kFixedChunk, end);
    }

    const FixedChunks& chunks_;
    int64_t group_end_;
    int64_t in_group_ = 0;
    FixedChunk chunk_;
  };
  [[nodiscard]] Iterator begin() const { return {*this, 0}; }
  [[nodiscard]] Iterator end() const { return {*this, count}; }
};

/// A fixed-point row: number = (plane0 * 256^(planes - 1) + ... ) * scale of its chunk, planes
/// signed bytes. With one plane the chunks of `rounded` inputs have the same scale.
///   bytes  [slices][columns / 8][planes][8]; four by four, the i-th four of a block of 4 stride
///          columns being i, i + stride, i + 2 stride, i + 3 stride
///   scales [slices][room]
///   sums   [slices][room][2]: sum of a chunk's integers; with 24 bits the sum without their last
///          bytes, then the sum of the last bytes; with 8 bits the sum times -zero, then the
///          negated sum as a float
struct FixedRow {
  int planes;  // 1 to 3
  int64_t slices;
  int64_t columns;      // of a slice
  int64_t group;        // Packing::group
  int64_t lead;         // inputs of the first group that lie before the first slice
  int64_t rounded = 0;  // with one plane: inputs that are rounded together
  int32_t zero = 0;     // with one plane: zero point of the codes

  [[nodiscard]] FixedChunks chunks(int64_t slice) const {
    return {group, columns, group > 0 ? (lead + slice * columns) % group : 0};
  }
  /// Chunks that a slice has room for.
  [[nodiscard]] int64_t room() const { return FixedChunks::most(group, columns); }
  [[nodiscard]] int64_t scales_at() const { return slices * columns * planes; }
  [[nodiscard]] int64_t sums_at() const { return scales_at() + 4 * slices * room(); }
  [[nodiscard]] int64_t bytes() const { return sums_at() + 8 * slices * room(); }
};

/// What a row of one plane has of a chunk (FixedRow::sums_at): the sum times -zero, and negated.
struct ByteSums {
  int32_t start;
  float negated;
};

/// A product of rows with some strips of codes (packed_layout.h), in one slice:
///   c[r, o] = sum over chunks, in order, of scale[o, g] * (sum over k of (code[o, k] - zero) *
///   integer[r, k]) * scale[r, chunk] - minimum[o, g] * (sum over k of integer[r, k]) * scale[r,
///   chunk]; with one plane chunks of one scale[r] are summed before they are scaled by it.
struct FixedTile {
  const PackedTile* weight = nullptr;  // its rows are not read
  int planes = 0;
  const FixedChunks* chunks = nullptr;
  // The first row's slice; the next row's lies `stride` bytes on.
  const std::byte* a = nullptr;
  const std::byte* scales = nullptr;
  const std::byte* sums = nullptr;
  int64_t stride = 0;
  int rows = 0;
  float* c = nullptr;  // [rows][32 strips]
  int64_t ahead = 0;   // bytes: codes that lie so far behind are asked for; 0: none are
};

/// Kernels of one instruction set; all give equal bits.
struct FixedKernels {
  /// Stores a row of floats as integers at `to`, for codes of `bits` bits.
  void (*store)(const float* from, const FixedRow& row, int64_t bits, std::byte* to);
  void (*multiply)(const FixedTile& tile);
  int64_t most_bits;  // of codes' bytes
};

#if defined(__x86_64__)
void store_fixed_row(const float* from, const FixedRow& row, int64_t bits, std::byte* to);
extern const FixedKernels kFixedVnni;  // AVX-512 VNNI
extern const FixedKernels kFixedAvx2;
#endif

/// FixedTile::ahead of few rows and PackedTile::ahead, as these wait for memory: Intel's
/// prefetchers stop at the end of a page, and asking a page ahead gives a single row a fifth to a
/// half more; AMD's do not stop.
int64_t asked_ahead();

/// The kernels that this processor has and that suit kernels of `isa`; null: none.
const FixedKernels* fixed_kernels(CpuIsa isa);

/// Form of codes in a product, as unsigned bytes.
enum class FixedCodes : uint8_t {
  integers,
  halves,        // of e2m1, doubled
  signed_bytes,  // of a table of ggml, integers from -128 to 127
  levels,        // of a table, as integers of 16 bits of which the largest is 2^15 - 1: two bytes
};
constexpr FixedCodes fixed_codes(const model::Packing& packing) {
  if (packing.code != model::Code::table) return FixedCodes::integers;
  const bool ggml = packing.has_blocks();
  const bool halves = ggml ? packing.blocks == GgmlType::mxfp4 || packing.blocks == GgmlType::nvfp4
                           : packing.format == model::PackedFormat::nvfp4 ||
                                 packing.format == model::PackedFormat::mxfp4;
  if (halves) return FixedCodes::halves;
  return ggml ? FixedCodes::signed_bytes : FixedCodes::levels;
}

/// What is added to numbers of a table, so that they are unsigned bytes: to doubled e2m1, and to
/// bytes.
inline constexpr int32_t kHalvesZero = 12, kBytesZero = 128;

/// The zero point that all codes have in a product, as unsigned bytes; not of levels.
constexpr int32_t fixed_zero(const model::Packing& packing) {
  const FixedCodes codes = fixed_codes(packing);
  if (codes == FixedCodes::integers) return static_cast<int32_t>(packing.zero);
  return codes == FixedCodes::halves ? kHalvesZero : kBytesZero;
}

/// True when inputs are rounded to int8 in groups, as rows of one plane have them.
constexpr bool rounds_to_bytes(model::InputRounding rounding) {
  return rounding == model::InputRounding::int8_group32 ||
         rounding == model::InputRounding::int8_group256;
}

/// True when weights suit products of `kernels` with rows of `planes` planes; `columns` are a
/// slice's. Levels are as exact as rows of two planes, not of three. Rows take no more memory then
/// than as floats.
constexpr bool suits_fixed(const FixedKernels& kernels, const model::Packing& packing,
                           int64_t columns, int planes) {
  if (packing.code == model::Code::e4m3 || packing.code == model::Code::none || packing.ordered)
    return false;
  const FixedCodes codes = fixed_codes(packing);
  const bool levels = codes == FixedCodes::levels;
  const bool bytes = levels || codes == FixedCodes::signed_bytes;
  if ((bytes ? 8 : packing.bits) > kernels.most_bits || (levels && planes > 2)) return false;
  if (planes == 1) {  // each chunk is a group
    const int64_t rounded = model::rounded_together(packing.inputs);
    if (!packing.has_blocks() || rounded % packing.group != 0 || columns % rounded != 0 ||
        packing.lead != 0)
      return false;
  }
  const int64_t block = fixed_block(packing.bits);
  return columns % block == 0 && packing.group % block == 0 &&
         12 * FixedChunks::most(packing.group, columns) <= columns;
}

}  // namespace plimsoll::backend
