#include "backend/cpu/packed_layout.h"

#include <cstring>

namespace plimsoll::backend {
namespace {

constexpr size_t kAligned = 64;

size_t take(size_t& end, size_t bytes) {
  const size_t at = end;
  end += round_up(bytes, kAligned);
  return at;
}

}  // namespace

PackedPart::PackedPart(const model::Part& part, int64_t columns_of_part)
    : rows(part.rows()), columns(columns_of_part) {
  const model::Packing& packing = *part.packing;
  const auto strips = static_cast<size_t>(divide_up(rows, kStrip));
  constexpr auto kRows = static_cast<size_t>(kStrip);
  groups = packing.groups(columns);
  if (packing.code != model::Code::none) {
    const CodeUnit unit(packing.bits);
    strip_codes = divide_up(columns, unit.columns) * unit.words * kRows * sizeof(uint32_t);
  }
  strip_scales = packing.scales_bytes(groups) * kRows;
  strip_zeros = packing.zeros ? groups * kRows : 0;
  if (packing.scale == model::ScaleType::nested) {
    nested_blocks = packing.absmax_count(part.stored_shape.front(), part.stored_shape.back());
  }
  (void)take(bytes, strips * strip_codes);
  scales = take(bytes, strips * strip_scales);
  zeros = take(bytes, strips * strip_zeros);
  factors = take(bytes, packing.factors ? strips * kRows * sizeof(float) : 0);
  order = take(bytes, packing.ordered ? columns * sizeof(int32_t) : 0);
  table = take(bytes, packing.code == model::Code::table ? 16 * sizeof(float) : 0);
  const size_t nested_bytes = (256 + nested_blocks) * sizeof(float) + sizeof(NestedPlace);
  nested = take(bytes, nested_blocks > 0 ? nested_bytes : 0);
  input = take(bytes, model::has_input_scale(packing.inputs) ? sizeof(model::InputScale) : 0);
}

InputRule input_rule(const model::Part& part, int64_t columns, const std::byte* data) {
  InputRule rule{.rounding = part.packing->inputs};
  if (model::has_input_scale(rule.rounding))
    std::memcpy(&rule.stated, data + PackedPart(part, columns).input, sizeof rule.stated);
  return rule;
}

Segments packed_segments(const model::WeightSpec& spec, DType dtype, int64_t matrix) {
  return {spec, matrix, kAligned, [&](const model::Part& part) {
            if (part.packing) return PackedPart(part, spec.columns()).bytes;
            return divide_up(part.rows(), kStrip) * strip_bytes(spec.columns(), dtype);
          }};
}

}  // namespace plimsoll::backend
