// Helpers of all formats: tensors looked up and checked, scales copied, bits picked out of words.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string_view>

#include "quantization/formats/format.h"

namespace plimsoll::quantization {

/// Rows of a matrix of one format, with all inputs or some. Asking for what a format does not have
/// is a bug of ours.
class StoredRows : public model::PackedRows {
 public:
  StoredRows(const model::Packing& packing, const StoredMatrix& matrix);

  void zeros(int64_t first, int64_t count, uint8_t* to) const override;
  void factors(int64_t first, int64_t count, float* to) const override;
  void input_groups(int32_t* to) const override;
  void table(std::span<float, 16> to) const override;
  void nested(model::NestedScales& to) const override;
  [[nodiscard]] model::InputScale input_scale() const override { return input_scale_; }
  [[nodiscard]] int64_t first_input() const override { return matrix_.inputs.first; }

 protected:
  using Shape = std::vector<int64_t>;
  /// The tensor MODULE.ENDING; throws where it is missing, of another dtype or shape. A shape's
  /// size of -1 may be any number.
  [[nodiscard]] StoredTensor require(const std::string& ending, std::initializer_list<DType> dtypes,
                                     const Shape& shape) const;
  /// The scales MODULE.ENDING, of any floating dtype; throws as require().
  [[nodiscard]] StoredTensor require_scales(const std::string& ending, const Shape& shape) const;
  /// Scale `i` of the tensor, in the packing's type.
  void copy_scale(const StoredTensor& tensor, int64_t i, std::byte* to) const;
  /// Copies the scales of rows first, first + 1, ..., group by group of the inputs that are read;
  /// index(output, group) is the place of one in the tensor.
  template <typename Index>
  void copy_scales(const StoredTensor& tensor, int64_t first, int64_t count, Index index,
                   std::byte* to) const {
    const int64_t size = model::scale_bytes(packing_.scale);
    tensor.guarded([&] {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t g = first_group(); g < end_group(); ++g, to += size)
          copy_scale(tensor, index(first + i, g), to);
    });
  }
  /// The value of MODULE.ENDING, a floating tensor of one element ([] or [1]); throws otherwise.
  [[nodiscard]] float single(const std::string& ending) const;
  /// Reads MODULE.ENDING as the group of each input. Throws Error for numbers out of range.
  [[nodiscard]] std::vector<int32_t> read_input_groups(const std::string& ending) const;
  [[noreturn]] void refuse(const std::string& tensor, const std::string& what) const;

  [[nodiscard]] int64_t rows() const { return matrix_.rows; }
  [[nodiscard]] int64_t columns() const { return matrix_.columns; }
  [[nodiscard]] int64_t groups() const { return packing_.groups(matrix_.columns); }
  /// Range of the inputs that are read, and of their groups (all groups with activation order).
  [[nodiscard]] int64_t inputs() const { return matrix_.inputs.count; }
  [[nodiscard]] int64_t end_input() const { return first_input() + inputs(); }
  [[nodiscard]] int64_t first_group() const {
    return packing_.group > 0 && !packing_.ordered ? first_input() / packing_.group : 0;
  }
  [[nodiscard]] int64_t end_group() const {
    return packing_.ordered ? groups() : packing_.groups(end_input());
  }
  [[nodiscard]] const model::Packing& packing() const { return packing_; }
  [[nodiscard]] const StoredMatrix& matrix() const { return matrix_; }
  [[nodiscard]] bool has(const std::string& ending) const {
    return matrix_.find(ending).has_value();
  }

  model::InputScale input_scale_;
  std::vector<int32_t> input_groups_;  // of ordered packings: the group of every input

 private:
  model::Packing packing_;
  StoredMatrix matrix_;
};

/// Word `i` of a tensor of 32-bit integers.
inline uint32_t word_at(const std::byte* data, int64_t i) {
  uint32_t word = 0;
  std::memcpy(&word, data + i * 4, sizeof word);
  return word;
}

/// Number `i` of `bits` bits of a row of words, lowest bits first, running over their ends; words
/// lie `stride` apart.
inline uint8_t field_at(const std::byte* data, int64_t stride, int64_t i, int64_t bits) {
  const int64_t at = i * bits;
  const int64_t shift = at % 32;
  uint64_t word = word_at(data, at / 32 * stride);
  if (shift + bits > 32) word |= uint64_t{word_at(data, (at / 32 + 1) * stride)} << 32;
  return static_cast<uint8_t>((word >> shift) & ((uint64_t{1} << bits) - 1));
}

/// The type that a scale is kept as, by its tensor's dtype.
model::ScaleType scale_type(DType stored);
/// The type that a module's scales are kept as; half precision where there is no tensor.
model::ScaleType scale_type_of(const FindTensor& find, const std::string& ending);

/// Declares the functions of a format, which the format's file defines.
#define PLIMSOLL_FORMAT(name)                                              \
  model::Packing name##_packing(const WeightScheme&, const StoredMatrix&); \
  std::unique_ptr<model::PackedRows> open_##name(const model::Packing&, const StoredMatrix&)
PLIMSOLL_FORMAT(awq);
PLIMSOLL_FORMAT(gptq);
PLIMSOLL_FORMAT(packed_integers);
PLIMSOLL_FORMAT(eight_bits);
PLIMSOLL_FORMAT(nvfp4);
PLIMSOLL_FORMAT(mxfp4);
PLIMSOLL_FORMAT(nf4);
PLIMSOLL_FORMAT(ggml);
#undef PLIMSOLL_FORMAT
/// AMD Quark's int4, whose words are AWQ's.
model::Packing quark_int4_packing(const WeightScheme& scheme, const StoredMatrix& matrix);

}  // namespace plimsoll::quantization
