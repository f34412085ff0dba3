// Inputs of products with quantized weights: rounded as the checkpoint's format asks for, and in
// the order of the weight's slots.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// out[r, j] = the number that in[row(r), order[j]] is rounded to (0 where order[j] is -1), by the
/// formulas of backend/cpu/round_inputs.h in float, then rounded to the rows' type: in 16 bits a
/// code times its scale is not exact. (A product of codes on 8-bit tensor cores would take codes
/// and scales from here in their place.)
struct RoundInputs {
  View out;  // [R, slots]
  View in;   // [T, k], of the type of `out`
  model::InputRounding rounding = model::InputRounding::none;
  const model::InputScale* scale = nullptr;  // the checkpoint's, where the rounding has one
  const int32_t* order = nullptr;            // [slots]; null: columns in turn
  // Rows of experts' sorted slots (ExpertSlots): row(p) = sorted[p] / slots_per_row, or p itself
  // where that is 0; `scale` and `order` lie `matrix_bytes` further for each expert.
  const int32_t* sorted = nullptr;  // null: row(r) = r
  const int32_t* starts = nullptr;  // [experts + 1]
  int64_t slots_per_row = 0, experts = 0, matrix_bytes = 0;
  /// Row maxima where other ranks have inputs that are rounded together with those here: FindMost's
  /// results over all of them, from the first group that has some here, `most_count` a row.
  const float* most = nullptr;
  int64_t most_count = 0;
  int64_t lead = 0;  // inputs of the first group that other ranks have
};
void round_inputs(const RoundInputs& op, cudaStream_t stream);

/// Rows as codes of float8 and the scales that they are multiplied by: group g and row r at [g *
/// rows + r]. Only for roundings to float8, without slots or an order; `op.out` is not used.
struct Fp8Rows {
  unsigned char* codes = nullptr;  // [R, k]
  float* scales = nullptr;         // [groups, R]
};
void quantize_rows(const RoundInputs& op, const Fp8Rows& to, cudaStream_t stream);

/// The largest absolute value of each group of a row; 0 for groups without inputs here. With
/// `range` the row's largest number and its least one negated. (backend::RowMaxima)
struct FindMost {
  View to;                      // [R, count] f32
  View in;                      // [R, k]
  int64_t group = 0, lead = 0;  // inputs of a group; of the first those that others have
  int64_t first = 0;            // group that the first input is of
  bool range = false;
};
void find_most(const FindMost& op, cudaStream_t stream);

}  // namespace plimsoll::kernels
