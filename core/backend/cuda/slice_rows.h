// Some inputs of quantized rows, as a rank that has only these reads them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::backend::cuda {

/// The inputs [first, first + columns of `slice`) of rows that `part` describes and that have
/// `columns` inputs. In an activation order every slice has all groups.
class SliceRows final : public model::PackedRows {
 public:
  SliceRows(const model::PackedRows& rows, const model::Part& part, int64_t columns,
            const model::Part& slice, model::Inputs inputs);

  [[nodiscard]] int64_t first_input() const override { return rows_.first_input() + inputs_.first; }
  void codes(int64_t first, int64_t count, uint8_t* to) const override;
  void scales(int64_t first, int64_t count, std::byte* to) const override;
  void zeros(int64_t first, int64_t count, uint8_t* to) const override;
  void factors(int64_t first, int64_t count, float* to) const override {
    rows_.factors(first, count, to);
  }
  void input_groups(int32_t* to) const override;
  void table(std::span<float, 16> to) const override { rows_.table(to); }
  void nested(model::NestedScales& to) const override;
  [[nodiscard]] model::InputScale input_scale() const override { return rows_.input_scale(); }

 private:
  /// How many groups (or blocks) all inputs have, how many the slice has, and its first one.
  struct Groups {
    int64_t all, own, first;
  };
  /// Copies groups of a row from [count, all groups] of `size` bytes; zeros where the last ones are
  /// missing.
  static void copy_groups(const Groups& groups, const std::byte* from, int64_t count, int64_t size,
                          std::byte* to);

  const model::PackedRows& rows_;
  int64_t columns_;
  model::Inputs inputs_;
  Groups groups_;
  Groups scales_;        // as scales are stored: groups, or whole blocks of a GGUF file
  int64_t scale_bytes_;  // of one of scales_
};

}  // namespace plimsoll::backend::cuda
