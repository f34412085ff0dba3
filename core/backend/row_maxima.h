// Row maxima that ranks exchange in a product with rounded inputs, when they share its inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::backend {

/// Row maxima that ranks exchange: for each row the largest of all inputs that are rounded
/// together, where one rank has not all of them.
struct RowMaxima {
  int64_t count = 0;   // maxima of a whole row; 0: nothing to exchange
  int64_t group = 1;   // inputs of each maximum
  bool range = false;  // a row's largest and its least negated instead

  explicit RowMaxima(const model::WeightSpec& spec);
};

/// Room in bytes for the maxima of `rows` rows.
inline size_t maxima_bytes(int64_t rows, const model::WeightSpec& spec) {
  return rows * RowMaxima(spec).count * sizeof(float);
}

}  // namespace plimsoll::backend
