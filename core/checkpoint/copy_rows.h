// Rows of a checkpoint tensor, in the engine's orientation and dtype.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.h"

namespace plimsoll::checkpoint {

/// Copies a block to `to` [rows, columns], converted, whose rows begin `to_stride` elements apart;
/// `transposed`: the tensor is stored [in, out]. Tensors of more than two dimensions count as
/// [shape[0], the rest].
void copy_block(const TensorEntry& tensor, bool transposed, const Block& block, DType dtype,
                std::byte* to, int64_t to_stride);

/// Calls visit(stored, done, count) for each run of the part's rows [first, first + count) that lie
/// together: rows [stored, stored + count) of the tensor, `done` rows after `first`.
template <typename Visit>
void for_each_run(const model::Part& part, int64_t first, int64_t count, Visit visit) {
  for (int64_t done = 0; done < count;) {
    const model::Part::Run run = part.run_at(first + done);
    const int64_t now = std::min(count - done, run.rows);
    visit(run.first, done, now);
    done += now;
  }
}

/// Calls visit(part, from, at, rows) for each part that rows [first, first + count) of the weight
/// come from: rows [from, from + rows) of the part, `at` rows after `first`.
template <typename Visit>
void for_each_part(const model::WeightSpec& weight, int64_t first, int64_t count, Visit visit) {
  int64_t part_first = 0;  // the part's first row in the weight
  for (const model::Part& part : weight.parts) {
    const int64_t from = std::max(first, part_first);
    const int64_t until = std::min(first + count, part_first + part.rows());
    if (from < until) visit(part, from - part_first, from - first, until - from);
    part_first += part.rows();
  }
}

/// True when convert() converts the dtype to the engine's.
bool is_convertible(DType dtype);

/// Copies a block of a part, whose rows count from its first on, to `to` [rows, columns],
/// converted.
void copy_rows(const TensorEntry& tensor, const model::Part& part, const Block& block, DType dtype,
               std::byte* to);

/// Copies a block of a weight whose values are a constant, not from a checkpoint.
void copy_constant(const model::WeightSpec& weight, const Block& block, DType dtype, std::byte* to);

/// The value rounded to a dtype (float32, bfloat16 or float16).
float rounded(float value, DType dtype);
/// Applies the mapping to float32 values of the tensor, in place.
void map_values(const TensorEntry& tensor, model::Mapping mapping, std::byte* values, size_t count);
/// Reverses Mapping::minus_exp: ln(-x).
void unmap_values(std::byte* values, size_t count);
/// Applies the part's change (Part::is_changed) to whole rows of `columns` values, each rounded to
/// the dtype (float32, bfloat16 or float16).
void change_values(const model::Part& part, std::byte* values, DType dtype, int64_t rows,
                   int64_t columns);

}  // namespace plimsoll::checkpoint
