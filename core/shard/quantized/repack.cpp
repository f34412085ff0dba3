#include "shard/quantized/repack.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace plimsoll::shard {
namespace {

constexpr int64_t kInWord = 8;
constexpr uint32_t kBits = 4, kMask = 15;
// Place of each output of AWQ's words among the word's groups of four bits.
constexpr std::array<uint32_t, kInWord> kPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t word_at(const checkpoint::TensorEntry& tensor, int64_t row, int64_t column) {
  uint32_t word = 0;
  std::memcpy(&word, tensor.data + (row * tensor.shape[1] + column) * int64_t{sizeof word},
              sizeof word);
  return word;
}

uint32_t integer_of(uint32_t word, int64_t output) {
  return word >> (kBits * kPlaces[static_cast<size_t>(output % kInWord)]) & kMask;
}

}  // namespace

void repack_awq_words(const checkpoint::TensorEntry& tensor, const checkpoint::Block& block,
                      std::byte* to, int64_t stride) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t output = block.row + row;
    for (int64_t column = 0; column < block.columns; ++column) {
      uint32_t made = 0;
      for (int64_t i = 0; i < kInWord; ++i) {
        const int64_t input = (block.column + column) * kInWord + i;
        made |= integer_of(word_at(tensor, input, output / kInWord), output)
                << (kBits * static_cast<uint32_t>(i));
      }
      std::memcpy(to + (row * stride + column) * int64_t{sizeof made}, &made, sizeof made);
    }
  }
}

void repack_awq_zeros(const checkpoint::TensorEntry& tensor, const Repeat& repeat,
                      const checkpoint::Block& block, std::byte* to, int64_t stride) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t output = (block.row + row) * 2;
    for (int64_t column = 0; column < block.columns; ++column) {
      const int64_t group = (block.column + column) / repeat.columns;
      const uint32_t word = word_at(tensor, group, output / kInWord);
      to[row * stride + column] =
          std::byte(integer_of(word, output) | integer_of(word, output + 1) << kBits);
    }
  }
}

}  // namespace plimsoll::shard
