// AWQ ("gemm"): qweight I32 [in, out / 8], qzeros [in / g, out / 8], scales [in / g, out]. Of eight
// outputs number c is nibble kNibble[c] of their word.
#include <array>

#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

constexpr std::array<int, 8> kNibble = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr int64_t kInWord = 8;

uint8_t nibble_of(const std::byte* data, int64_t line, int64_t words, int64_t output) {
  const uint32_t word = word_at(data, line * words + output / kInWord);
  return static_cast<uint8_t>(word >> 4 * kNibble[static_cast<size_t>(output % kInWord)] & 15);
}

class AwqRows final : public StoredRows {
 public:
  AwqRows(const model::Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix),
        codes_(require("qweight", {DType::i32}, {columns(), words_wanted()})),
        scales_(require_scales("scales", {groups(), outputs()})) {
    if (packing.zeros) zeros_ = require("qzeros", {DType::i32}, {groups(), words()});
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    codes_.guarded([&] {
      for (int64_t n = 0; n < inputs(); ++n)
        for (int64_t i = 0; i < count; ++i)
          to[i * inputs() + n] = nibble_of(codes_.data, first_input() + n, words(), first + i);
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const auto index = [this](int64_t output, int64_t g) { return g * outputs() + output; };
    copy_scales(scales_, first, count, index, to);
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    zeros_.guarded([&] {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t g = first_group(); g < end_group(); ++g)
          *to++ = nibble_of(zeros_.data, g, words(), first + i);
    });
  }

 private:
  /// Of a vocabulary more outputs may be stored than there are tokens.
  [[nodiscard]] int64_t words_wanted() const {
    const int64_t least = (rows() + kInWord - 1) / kInWord;
    const auto found = matrix().find("qweight");
    const bool more = matrix().padded_rows && found && found->shape.size() == 2;
    return more ? std::max(least, found->shape[1]) : least;
  }
  [[nodiscard]] int64_t words() const { return codes_.shape[1]; }
  [[nodiscard]] int64_t outputs() const { return words() * kInWord; }

  StoredTensor codes_, scales_, zeros_;
};

}  // namespace

model::Packing awq_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  const bool zeros = scheme.zero_points || matrix.find("qzeros");
  return {.format = model::PackedFormat::awq,
          .bits = 4,
          .group = scheme.group,
          .scale = scale_type_of(matrix.find, "scales"),
          .zeros = zeros,
          .zero = zeros ? 0 : 8};
}

std::unique_ptr<model::PackedRows> open_awq(const model::Packing& packing,
                                            const StoredMatrix& matrix) {
  return std::make_unique<AwqRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
