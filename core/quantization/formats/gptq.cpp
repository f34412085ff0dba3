// GPTQ: qweight I32 [in * bits / 32, out] packed along the inputs, qzeros [in / g, out * bits / 32]
// along the outputs, both lowest bits first and running over the ends of words; scales [in / g,
// out], g_idx [in]. Stored zero points are one less than they are ("gptq"), or as they are
// ("gptq_v2").
#include "base/error.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

class GptqRows final : public StoredRows {
 public:
  GptqRows(const model::Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix),
        codes_(require("qweight", {DType::i32}, {words(columns()), outputs_wanted()})),
        scales_(require_scales("scales", {groups(), outputs()})),
        zeros_(require("qzeros", {DType::i32}, {groups(), words(outputs())})) {
    if (has("g_idx")) {
      std::vector<int32_t> read = read_input_groups("g_idx");
      if (packing.ordered) input_groups_ = std::move(read);
    } else if (packing.ordered) {
      (void)require("g_idx", {DType::i32}, {columns()});
    }
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    codes_.guarded([&] {
      for (int64_t n = 0; n < inputs(); ++n)
        for (int64_t i = 0; i < count; ++i)
          to[i * inputs() + n] =
              field_at(codes_.data + (first + i) * 4, outputs(), first_input() + n, packing().bits);
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const auto index = [this](int64_t output, int64_t g) { return g * outputs() + output; };
    copy_scales(scales_, first, count, index, to);
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    const int64_t line = words(outputs()) * 4;
    zeros_.guarded([&] {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t g = first_group(); g < end_group(); ++g)
          *to++ = field_at(zeros_.data + g * line, 1, first + i, packing().bits);
    });
  }

 private:
  [[nodiscard]] int64_t words(int64_t numbers) const {
    if (numbers * packing().bits % 32 == 0) return numbers * packing().bits / 32;
    fail(ExitCode::checkpoint_unusable, "{}: {} numbers of {} bits do not fill words of 32 bits",
         matrix().module, numbers, packing().bits);
  }
  [[nodiscard]] int64_t outputs_wanted() const {
    const auto found = matrix().find("qweight");
    const bool more = matrix().padded_rows && found && found->shape.size() == 2;
    return more ? std::max(rows(), found->shape[1]) : rows();
  }
  [[nodiscard]] int64_t outputs() const { return codes_.shape[1]; }

  StoredTensor codes_, scales_, zeros_;
};

/// True when the groups' inputs do not follow one another.
bool is_ordered(const WeightScheme& scheme, const StoredMatrix& matrix) {
  const std::optional<StoredTensor> order = matrix.find("g_idx");
  if (!order) return scheme.ordered_groups;
  if (order->dtype != DType::i32 || order->elements() != matrix.columns) return true;
  bool ordered = false;
  const int64_t group = scheme.group > 0 ? scheme.group : matrix.columns;
  order->guarded([&] {
    for (int64_t n = 0; n < matrix.columns; ++n)
      ordered |= word_at(order->data, n) != static_cast<uint32_t>(n / group);
  });
  return ordered;
}

}  // namespace

model::Packing gptq_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  const int64_t bits = scheme.bits;
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    fail(ExitCode::checkpoint_unusable,
         "{}: GPTQ of {} bits is not run; 2, 3, 4 and 8 are. Use the unquantized model",
         matrix.module, bits);
  }
  return {.format = model::PackedFormat::gptq,
          .bits = bits,
          .group = scheme.group,
          .scale = scale_type_of(matrix.find, "scales"),
          .zeros = true,
          .zero = scheme.zeros_as_stored ? 0 : 1,
          .ordered = is_ordered(scheme, matrix)};
}

std::unique_ptr<model::PackedRows> open_gptq(const model::Packing& packing,
                                             const StoredMatrix& matrix) {
  return std::make_unique<GptqRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
