#include "backend/cuda/fp8_product.h"

#include <algorithm>

#include "backend/row_maxima.h"
#include "base/rounding.h"

namespace plimsoll::backend::cuda {
namespace {

constexpr size_t kAligned = 256;
constexpr int64_t kTile = 16;  // cuBLASLt's, of bytes

size_t take(size_t& end, int64_t count, size_t element) {
  const size_t at = end;
  end += round_up(count * element, kAligned);
  return at;
}

}  // namespace

Fp8Product::Fp8Product(const PackedMatrix& layout, const model::Packing& packing, int64_t rows,
                       size_t weight_bytes)
    : groups(packing.group > 0 ? layout.columns / kFp8Group : 1) {
  const int64_t most = static_cast<int64_t>(weight_bytes) / layout.columns;
  outputs = std::min(layout.rows, std::max(most / 128, int64_t{1}) * 128);
  codes = take(bytes, rows * layout.columns, 1);
  scales = take(bytes, groups * rows, sizeof(float));
  weight = take(bytes, outputs * layout.columns, 1);
  weight_scales = take(bytes, groups > 1 ? groups * outputs : 0, sizeof(float));
}

bool multiplies_fp8(const model::Part& part, int64_t columns, DType dtype,
                    const CardFigures& card) {
  if (!part.packing || card.compute_capability / 10 != 9 || card.deterministic) return false;
  const model::Packing& packing = *part.packing;
  const bool codes = packing.code == model::Code::e4m3 && packing.scale == model::ScaleType::f32 &&
                     !packing.factors && !packing.ordered;
  if (!codes || dtype_size(dtype) != 2 || part.rows() % kTile != 0 || columns % kTile != 0 ||
      PackedMatrix(part, columns).spread)
    return false;
  using enum model::InputRounding;
  if (packing.inputs == fp8_group)
    return packing.group == kFp8Group && packing.lead == 0 && columns % kFp8Group == 0;
  const bool whole =
      packing.inputs == fp8_token || packing.inputs == fp8_bounded || packing.inputs == fp8_static;
  return whole && packing.group == 0;
}

size_t fp8_offset(int64_t rows, const model::WeightSpec& spec, DType dtype) {
  return round_up(rewritten_bytes(rows, spec, dtype) + maxima_bytes(rows, spec), kAligned);
}

size_t fp8_bytes(int64_t rows, const model::WeightSpec& spec, DType dtype,
                 const CardFigures& card) {
  size_t most = 0;
  if (rows < kFp8Rows) return most;
  for (const model::Part& part : spec.parts) {
    if (!multiplies_fp8(part, spec.columns(), dtype, card)) continue;
    most =
        std::max(most, Fp8Product(PackedMatrix(part, spec.columns()), *part.packing, rows).bytes);
  }
  return most;
}

}  // namespace plimsoll::backend::cuda
