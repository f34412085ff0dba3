// compressed-tensors' pack-quantized: weight_packed I32 [out, words] along the inputs, weight_scale
// [out, in / g] or [out, 1], weight_zero_point I32 [words, in / g] along the outputs, weight_g_idx
// [in] (activation order), weight_shape; lowest bits first. Without zero points integers are stored
// half their range higher. Of 3 bits, which do not divide a word, compressed-tensors fills words
// with whole integers and leaves the highest bits 0, vLLM runs over the ends of words: the tensor's
// width says which.
#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

constexpr int64_t kWordBits = 32;

/// Arrangement of integers of some bits in a row of words.
struct Words {
  int64_t bits = 4;
  bool whole = false;  // no integer in two words

  [[nodiscard]] int64_t count(int64_t numbers) const {
    return whole ? divide_up(numbers, kWordBits / bits) : divide_up(numbers * bits, kWordBits);
  }
  /// Number `i`; words lie `stride` apart.
  [[nodiscard]] uint8_t at(const std::byte* data, int64_t stride, int64_t i) const {
    if (!whole) return field_at(data, stride, i, bits);
    const int64_t each = kWordBits / bits;
    return field_at(data + i / each * stride * 4, stride, i % each, bits);
  }
};

class PackedIntegerRows final : public StoredRows {
 public:
  PackedIntegerRows(const model::Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix),
        words_(find_words()),
        codes_(require("weight_packed", {DType::i32}, {rows(), words_.count(columns())})),
        scales_(require_scales("weight_scale", {rows(), groups()})) {
    if (packing.zeros) {
      zeros_ = require("weight_zero_point", {DType::i32}, {words_.count(rows()), groups()});
    } else if (has("weight_zero_point")) {
      expect_no_zero_points();
    }
    if (packing.ordered) input_groups_ = read_input_groups("weight_g_idx");
    if (has("weight_shape")) check_shape();
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    const int64_t line = words_.count(columns()) * 4;
    codes_.guarded([&] {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t n = first_input(); n < end_input(); ++n)
          *to++ = words_.at(codes_.data + (first + i) * line, 1, n);
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const auto index = [this](int64_t output, int64_t g) { return output * groups() + g; };
    copy_scales(scales_, first, count, index, to);
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    zeros_.guarded([&] {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t g = first_group(); g < end_group(); ++g)
          *to++ = words_.at(zeros_.data + g * 4, groups(), first + i);
    });
  }

 private:
  [[nodiscard]] Words find_words() const {
    const Words over_ends{.bits = packing().bits};
    const Words whole{.bits = over_ends.bits, .whole = true};
    const auto found = matrix().find("weight_packed");
    const bool wide =
        found && found->shape.size() == 2 && found->shape[1] == whole.count(columns());
    return wide ? whole : over_ends;
  }
  /// Throws where symmetric integers have zero points that are not zero.
  void expect_no_zero_points() const {
    const StoredTensor zeros = *matrix().find("weight_zero_point");
    const std::span all(zeros.data,
                        static_cast<size_t>(zeros.elements()) * dtype_size(zeros.dtype));
    bool none = true;
    zeros.guarded(
        [&] { none = std::ranges::all_of(all, [](std::byte b) { return b == std::byte{}; }); });
    if (none) return;
    refuse(zeros.name,
           "has zero points, and config.json's quantization_config says \"symmetric\", "
           "that there are none; do config and weights belong together?");
  }
  void check_shape() const {
    const StoredTensor shape = require("weight_shape", {DType::i64, DType::i32}, {2});
    int64_t outputs = 0, inputs = 0;
    shape.guarded([&] {
      const int64_t words = shape.dtype == DType::i64 ? 2 : 1;
      outputs = word_at(shape.data, 0);
      inputs = word_at(shape.data, words);
    });
    if (outputs == rows() && inputs == columns()) return;
    refuse(shape.name, fmt::format("says [{}, {}]", outputs, inputs));
  }

  Words words_;
  StoredTensor codes_, scales_, zeros_;
};

}  // namespace

model::Packing packed_integers_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  const int64_t bits = scheme.bits;
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    fail(ExitCode::checkpoint_unusable,
         "{}: packed integers of {} bits are not run; 2, 3, 4 and 8 are. Use the unquantized model",
         matrix.module, bits);
  }
  return {.format = model::PackedFormat::packed_integers,
          .bits = bits,
          .group = scheme.group,
          .scale = scale_type_of(matrix.find, "weight_scale"),
          .zeros = scheme.zero_points,
          .zero = scheme.zero_points ? 0 : int64_t{1} << (bits - 1),
          .ordered = scheme.indexed_inputs || matrix.find("weight_g_idx")};
}

std::unique_ptr<model::PackedRows> open_packed_integers(const model::Packing& packing,
                                                        const StoredMatrix& matrix) {
  return std::make_unique<PackedIntegerRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
