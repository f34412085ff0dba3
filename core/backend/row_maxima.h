// What ranks that share the inputs of a product with rounded inputs need to know of each other's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::backend {

/// What ranks that share the inputs of a product tell each other of each row: the largest of all
/// inputs that are rounded together, where one rank has not all of them.
struct RowMaxima {
  int64_t count = 0;   // of a whole row; 0: there is nothing to tell
  int64_t group = 1;   // inputs of each
  bool range = false;  // of a row its largest and its least negated instead

  explicit RowMaxima(const model::WeightSpec& spec);
};

/// Room for what is told of so many rows.
inline size_t maxima_bytes(int64_t rows, const model::WeightSpec& spec) {
  return static_cast<size_t>(rows * RowMaxima(spec).count) * sizeof(float);
}

}  // namespace plimsoll::backend
