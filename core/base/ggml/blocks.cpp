#include "base/ggml/blocks.h"

#include <algorithm>
#include <cstring>

namespace plimsoll {
namespace {

using Bytes = const uint8_t*;

constexpr std::array<int8_t, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
/// Numbers of E2M1, doubled.
constexpr std::array<int8_t, 16> kE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Number j of 2 * half nibbles: byte j holds number j in its low and number j + half in its high
/// four bits.
int nibble(Bytes from, int j, int half) {
  return j < half ? from[j] & 15 : from[j - half] >> 4;
}

/// Two bits of number j of 256 in 64 bytes.
int crumb(Bytes from, int j) {
  return from[j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3;
}

/// One bit of number j of 256 in 32 bytes.
int bit(Bytes from, int j) {
  return from[j % 32] >> j / 32 & 1;
}

/// Bit j of 32 in a word.
int word_bit(Bytes word, int j) {
  return word[j / 8] >> j % 8 & 1;
}

/// Where a type's block has what split_ggml_block() gives.
struct Places {
  GgmlBlocks blocks;
  std::array<int, 2> halves = {0, 2};
  int bytes = 0;
  void (*codes)(Bytes block, uint8_t* to);
};

/// The codes of a whole block, by a function without state that gives code j.
template <int kValues, typename Code>
constexpr auto all(Code) {
  return [](Bytes block, uint8_t* to) {
    for (int j = 0; j < kValues; ++j) to[j] = static_cast<uint8_t>(Code{}(block, j));
  };
}

using enum GgmlType;
constexpr bool kMinimums = true;

constexpr std::array kPlaces = {
    Places{{.type = q4_0, .zero = 8}, {}, 0, all<32>([](Bytes b, int j) {
             return nibble(b + 2, j, 16);
           })},
    Places{
        {.type = q4_1, .halves = 2, .minimums = kMinimums}, {0, 2}, 0, all<32>([](Bytes b, int j) {
          return nibble(b + 4, j, 16);
        })},
    Places{{.type = q5_0, .bits = 5, .zero = 16}, {}, 0, all<32>([](Bytes b, int j) {
             return nibble(b + 6, j, 16) | word_bit(b + 2, j) << 4;
           })},
    Places{{.type = q5_1, .bits = 5, .halves = 2, .minimums = kMinimums},
           {0, 2},
           0,
           all<32>([](Bytes b, int j) { return nibble(b + 8, j, 16) | word_bit(b + 4, j) << 4; })},
    Places{{.type = q8_0, .bits = 8, .zero = 128}, {}, 0, all<32>([](Bytes b, int j) {
             return b[2 + j] ^ 128;
           })},
    Places{{.type = q2_k,
            .values = 256,
            .bits = 2,
            .group = 16,
            .halves = 2,
            .bytes = 16,
            .minimums = kMinimums},
           {80, 82},
           0,
           all<256>([](Bytes b, int j) { return crumb(b + 16, j); })},
    Places{{.type = q3_k, .values = 256, .bits = 3, .group = 16, .bytes = 12, .zero = 4},
           {108, 0},
           96,
           all<256>([](Bytes b, int j) { return crumb(b + 32, j) | bit(b, j) << 2; })},
    Places{{.type = q4_k, .values = 256, .halves = 2, .bytes = 12, .minimums = kMinimums},
           {0, 2},
           4,
           all<256>([](Bytes b, int j) { return nibble(b + 16 + j / 64 * 32, j % 64, 32); })},
    Places{
        {.type = q5_k, .values = 256, .bits = 5, .halves = 2, .bytes = 12, .minimums = kMinimums},
        {0, 2},
        4,
        all<256>([](Bytes b, int j) {
          return nibble(b + 48 + j / 64 * 32, j % 64, 32) | bit(b + 16, j) << 4;
        })},
    Places{{.type = q6_k, .values = 256, .bits = 6, .group = 16, .bytes = 16, .zero = 32},
           {208, 0},
           192,
           all<256>([](Bytes b, int j) {
             const int half = j / 128, rest = j % 128;
             const int high = b[128 + 32 * half + rest % 32] >> rest / 32 * 2 & 3;
             return nibble(b + 64 * half, rest, 64) | high << 4;
           })},
    Places{{.type = iq4_nl, .table = &kIq4}, {}, 0, all<32>([](Bytes b, int j) {
             return nibble(b + 2, j, 16);
           })},
    Places{{.type = iq4_xs, .values = 256, .bytes = 6, .table = &kIq4},
           {},
           2,
           all<256>([](Bytes b, int j) { return nibble(b + 8 + j / 32 * 16, j % 32, 16); })},
    Places{{.type = mxfp4, .halves = 0, .bytes = 1, .table = &kE2m1},
           {},
           0,
           all<32>([](Bytes b, int j) { return nibble(b + 1, j, 16); })},
    Places{{.type = nvfp4, .values = 64, .group = 16, .halves = 0, .bytes = 4, .table = &kE2m1},
           {},
           0,
           all<64>([](Bytes b, int j) { return nibble(b + 4 + j / 16 * 8, j % 16, 8); })},
};

const Places* find(GgmlType type) {
  const auto* const at =
      std::ranges::find(kPlaces, type, [](const Places& places) { return places.blocks.type; });
  return at == kPlaces.end() ? nullptr : at;
}

}  // namespace

const GgmlBlocks* find_ggml_blocks(GgmlType type) {
  const Places* const places = find(type);
  return places == nullptr ? nullptr : &places->blocks;
}

void split_ggml_block(const GgmlBlocks& blocks, const std::byte* block, uint8_t* codes,
                      std::byte* scales) {
  const Places& places = *find(blocks.type);
  const auto* const bytes = reinterpret_cast<Bytes>(block);
  if (codes != nullptr) places.codes(bytes, codes);
  if (scales == nullptr) return;
  for (int64_t i = 0; i < blocks.halves; ++i)
    std::memcpy(scales + 2 * i, block + places.halves[static_cast<size_t>(i)], 2);
  std::memcpy(scales + 2 * blocks.halves, block + places.bytes, static_cast<size_t>(blocks.bytes));
}

void turn_ggml_scales(const GgmlBlocks& type, const std::byte* from, int64_t rows, int64_t blocks,
                      int64_t strip, std::byte* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t block = 0; block < blocks; ++block, from += type.scale_bytes()) {
      std::byte* const place = to + block * type.scale_bytes() * strip;
      for (int64_t i = 0; i < type.halves; ++i)
        std::memcpy(place + (i * strip + r) * 2, from + 2 * i, 2);
      for (int64_t i = 2 * type.halves; i < type.scale_bytes(); ++i) place[i * strip + r] = from[i];
    }
}

}  // namespace plimsoll
