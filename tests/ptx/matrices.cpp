// Products on tensor cores and matrices in shared memory.
#include <bit>
#include <cstring>

#include "ptx/instructions.h"
#include "ptx/numbers.h"
#include "ptx/operands.h"

namespace plimsoll::ptx {
namespace {

constexpr size_t kRowBytes = 16;

void need_all(Context& c, const Instruction& i, Mask lanes) {
  if (lanes != kAllLanes) fault(c, i, "lanes are missing");
}

/// Operands of a product. Where lane 4 g + t has its elements: PTX ISA, mma.m16n8k16.
struct Tiles {
  float a[16][16];
  float b[16][8];
  float c[16][8];
};
constexpr unsigned row_of_a(unsigned lane, unsigned part) {
  return lane / 4 + part % 2 * 8;
}
constexpr unsigned column_of_a(unsigned lane, unsigned part) {
  return lane % 4 * 2 + part / 2 * 8;
}

template <bool kBf16>
void read_tiles(Context& c, const Instruction& i, Tiles& tiles) {
  const auto half = [](uint32_t pair, unsigned which) {
    return from_half<kBf16>(static_cast<uint16_t>(pair >> 16 * which));
  };
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned part = 0; part < 4; ++part) {
      const auto pair = get<uint32_t>(c, i, 4 + part, lane);
      float* const to = &tiles.a[row_of_a(lane, part)][column_of_a(lane, part)];
      to[0] = half(pair, 0);
      to[1] = half(pair, 1);
      tiles.c[g + part / 2 * 8][2 * t + part % 2] = get<float>(c, i, 10 + part, lane);
    }
    for (unsigned part = 0; part < 2; ++part) {
      const auto pair = get<uint32_t>(c, i, 8 + part, lane);
      tiles.b[2 * t + part * 8][g] = half(pair, 0);
      tiles.b[2 * t + part * 8 + 1][g] = half(pair, 1);
    }
  }
}

/// In float32, in the order of the columns of `a`: a tensor core's own order is not known.
template <bool kBf16>
void multiply(Context& c, const Instruction& i, Mask lanes) {
  need_all(c, i, lanes);
  Tiles tiles;
  read_tiles<kBf16>(c, i, tiles);
  for (unsigned row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (unsigned k = 0; k < 16; ++k)
      for (unsigned n = 0; n < 8; ++n) sums[n] += tiles.a[row][k] * tiles.b[k][n];
    for (unsigned n = 0; n < 8; ++n) tiles.c[row][n] += sums[n];
  }
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned part = 0; part < 4; ++part)
      if (i.operands[part].is_there())
        put(c, i, part, lane, tiles.c[lane / 4 + part / 2 * 8][lane % 4 * 2 + part % 2]);
}

/// Elements of 16 bits; a lane has two neighbours of a row, or of a column.
using Matrix = uint16_t[8][8];
uint16_t& element(Matrix& matrix, bool transposed, unsigned row, unsigned column) {
  return transposed ? matrix[column][row] : matrix[row][column];
}
std::byte* row_place(Context& c, const Instruction& i, unsigned lane) {
  const uint64_t address = get_bits(c, i, i.elements, lane) + static_cast<uint64_t>(i.offset);
  return place(c, i, Space::shared, address, kRowBytes);
}

}  // namespace

void multiply_bf16(Context& c, const Instruction& i, Mask lanes) {
  multiply<true>(c, i, lanes);
}
void multiply_f16(Context& c, const Instruction& i, Mask lanes) {
  multiply<false>(c, i, lanes);
}

void load_matrices(Context& c, const Instruction& i, Mask lanes) {
  need_all(c, i, lanes);
  Matrix matrices[4];
  for (unsigned lane = 0; lane < 8u * i.elements; ++lane) {
    const std::byte* const at = row_place(c, i, lane);
    note_read(c, i, at, kRowBytes);
    std::memcpy(matrices[lane / 8][lane % 8], at, kRowBytes);
  }
  for (unsigned number = 0; number < i.elements; ++number)
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned row = lane / 4, column = lane % 4 * 2;
      const uint32_t low = element(matrices[number], i.option != 0, row, column);
      const uint32_t high = element(matrices[number], i.option != 0, row, column + 1);
      put_bits(c, i, number, lane, low | high << 16);
    }
}

void store_matrices(Context& c, const Instruction& i, Mask lanes) {
  need_all(c, i, lanes);
  for (unsigned number = 0; number < i.elements; ++number) {
    Matrix matrix;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const auto pair = get<uint32_t>(c, i, number, lane);
      const unsigned row = lane / 4, column = lane % 4 * 2;
      element(matrix, i.option != 0, row, column) = static_cast<uint16_t>(pair);
      element(matrix, i.option != 0, row, column + 1) = static_cast<uint16_t>(pair >> 16);
    }
    for (unsigned row = 0; row < 8; ++row) {
      std::byte* const at = row_place(c, i, 8 * number + row);
      note_write(c, i, at, kRowBytes, {});
      std::memcpy(at, matrix[row], kRowBytes);
    }
  }
}

}  // namespace plimsoll::ptx
