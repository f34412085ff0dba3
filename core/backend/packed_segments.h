// The parts of one matrix of a quantized weight, which backends store one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rounding.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Some outputs of a matrix: a quantized part, or a plain one.
struct Segment {
  const model::Part* part = nullptr;
  size_t index = 0;       // of the part in the weight
  int64_t first_row = 0;  // in the matrix
  size_t offset = 0;      // bytes from the matrix's beginning
};

/// The segments of one packed matrix. `end`: offset in bytes at which the next matrix begins.
struct Segments {
  std::vector<Segment> parts;
  size_t end = 0;

  Segments() = default;
  /// Lays out the segments: a part takes bytes_of(part) bytes, and each begins at a multiple of
  /// `aligned`.
  template <typename F>
  Segments(const model::WeightSpec& spec, int64_t matrix, size_t aligned, const F& bytes_of) {
    const size_t count = spec.parts_in_matrix();
    const size_t first = matrix * count;
    int64_t row = 0;
    for (size_t i = first; i < first + count; ++i) {
      const model::Part& part = spec.parts[i];
      parts.push_back({&part, i, row, end});
      end += round_up(bytes_of(part), aligned);
      row += part.rows();
    }
  }
};

}  // namespace plimsoll::backend
