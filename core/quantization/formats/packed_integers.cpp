// compressed-tensors' pack-quantized: weight_packed I32 [out, in * bits / 32] along the inputs,
// weight_scale [out, in / g] or [out, 1], weight_zero_point I32 [out * bits / 32, in / g] along the
// outputs, weight_g_idx [in] (activation order), weight_shape; lowest bits first. Without zero
// points integers are stored half their range higher.
#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

class PackedIntegerRows final : public StoredRows {
 public:
  PackedIntegerRows(const model::Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix),
        codes_(require("weight_packed", {DType::i32}, {rows(), words(columns())})),
        scales_(require_scales("weight_scale", {rows(), groups()})) {
    if (packing.zeros) {
      zeros_ = require("weight_zero_point", {DType::i32}, {words(rows()), groups()});
    } else if (has("weight_zero_point")) {
      expect_no_zero_points();
    }
    if (packing.ordered) input_groups_ = read_input_groups("weight_g_idx");
    if (has("weight_shape")) check_shape();
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    codes_.guarded([&] {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t n = first_input(); n < end_input(); ++n)
          *to++ = field_at(codes_.data + (first + i) * words(columns()) * 4, 1, n, packing().bits);
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
          *to++ = field_at(zeros_.data + g * 4, groups(), first + i, packing().bits);
    });
  }

 private:
  [[nodiscard]] int64_t words(int64_t numbers) const {
    return divide_up(numbers * packing().bits, int64_t{32});
  }
  /// Those of symmetric integers say nothing.
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

  StoredTensor codes_, scales_, zeros_;
};

}  // namespace

model::Packing packed_integers_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  if (scheme.bits != 4 && scheme.bits != 8) {
    fail(ExitCode::checkpoint_unusable, "{}: packed integers of {} bits are not run; 4 and 8 are",
         matrix.module, scheme.bits);
  }
  return {.format = model::PackedFormat::packed_integers,
          .bits = scheme.bits,
          .group = scheme.group,
          .scale = scale_type_of(matrix.find, "weight_scale"),
          .zeros = scheme.zero_points,
          .zero = scheme.zero_points ? 0 : int64_t{1} << (scheme.bits - 1),
          .ordered = scheme.indexed_inputs || matrix.find("weight_g_idx")};
}

std::unique_ptr<model::PackedRows> open_packed_integers(const model::Packing& packing,
                                                        const StoredMatrix& matrix) {
  return std::make_unique<PackedIntegerRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
