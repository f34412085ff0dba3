// Integers of four bits, eight outputs in a word. AWQ ("gemm"): qweight I32 [in, out / 8], qzeros
// [in / g, out / 8], scales [in / g, out]; of eight outputs number c is nibble kNibble[c] of their
// word. AMD Quark's int4, reordered: the same as weight, weight_zero_point and weight_scale; its
// symmetric integers are signed.
#include <array>

#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

constexpr std::array<int, 8> kNibble = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr int64_t kInWord = 8;
constexpr uint8_t kSign = 8;

/// Names of the tensors, and whether integers without zero points have a sign.
struct Names {
  const char* codes;
  const char* scales;
  const char* zeros;
  bool has_sign = false;
};
constexpr Names kAwqNames{"qweight", "scales", "qzeros"};
constexpr Names kQuarkNames{"weight", "weight_scale", "weight_zero_point", true};

const Names& names_of(const FindTensor& find) {
  return !find(kAwqNames.codes) && find(kQuarkNames.codes) ? kQuarkNames : kAwqNames;
}

class NibbleRows final : public StoredRows {
 public:
  NibbleRows(const model::Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix),
        names_(names_of(matrix.find)),
        sign_(names_.has_sign && !packing.zeros ? kSign : 0),
        codes_(require(names_.codes, {DType::i32}, {columns(), words_wanted()})),
        scales_(require_scales(names_.scales, {groups(), scales_wanted()})) {
    if (packing.zeros) zeros_ = require(names_.zeros, {DType::i32}, {groups(), words()});
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    codes_.guarded([&] {
      for (int64_t n = 0; n < inputs(); ++n)
        for (int64_t i = 0; i < count; ++i)
          to[i * inputs() + n] = nibble(codes_, first_input() + n, first + i) ^ sign_;
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const int64_t stride = scales_.shape[1];
    const auto index = [stride](int64_t output, int64_t g) { return g * stride + output; };
    copy_scales(scales_, first, count, index, to);
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    zeros_.guarded([&] {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t g = first_group(); g < end_group(); ++g) *to++ = nibble(zeros_, g, first + i);
    });
  }

 private:
  [[nodiscard]] uint8_t nibble(const StoredTensor& tensor, int64_t line, int64_t output) const {
    const uint32_t word = word_at(tensor.data, line * words() + output / kInWord);
    return static_cast<uint8_t>(word >> 4 * kNibble[static_cast<size_t>(output % kInWord)] & 15);
  }
  /// Words of a row of codes. A vocabulary may be stored with more outputs than there are tokens.
  [[nodiscard]] int64_t words_wanted() const {
    const int64_t least = (rows() + kInWord - 1) / kInWord;
    const auto found = matrix().find(names_.codes);
    const bool more = matrix().padded_rows && found && found->shape.size() == 2;
    return more ? std::max(least, found->shape[1]) : least;
  }
  /// Outputs that have scales. Quark's scales may lack the outputs that only fill up the last word.
  [[nodiscard]] int64_t scales_wanted() const {
    const auto found = matrix().find(names_.scales);
    const bool exact =
        names_.has_sign && found && found->shape.size() == 2 && found->shape[1] == rows();
    return exact ? rows() : words() * kInWord;
  }
  [[nodiscard]] int64_t words() const { return codes_.shape[1]; }

  Names names_;
  uint8_t sign_;
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
          .zero = zeros ? 0 : kSign};
}

model::Packing quark_int4_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  return {.format = model::PackedFormat::awq,
          .bits = 4,
          .group = scheme.group,
          .scale = scale_type_of(matrix.find, "weight_scale"),
          .zeros = scheme.zero_points,
          .zero = scheme.zero_points ? 0 : kSign};
}

std::unique_ptr<model::PackedRows> open_awq(const model::Packing& packing,
                                            const StoredMatrix& matrix) {
  return std::make_unique<NibbleRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
