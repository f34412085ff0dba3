// Rows of a weight on one of several tensor-parallel ranks, as vLLM's layers cut them.
#pragma once

#include "base/rounding.h"
#include "model/spec/weight.h"
#include "model/vocabulary.h"

namespace plimsoll::model {

// `Ranks` divides sizes and refuses, in words of its own, those that vLLM cannot divide:
//   share(size)               a rank's share
//   kv_share(rows, kv_heads)  a rank's share of the rows of KV heads, of which it has one at least
//   vocabulary(padded)        a rank's share of rows that were padded

/// True when a rank has all outputs of the matrices that it has.
constexpr bool is_whole(Split split) {
  return split == Split::replicated || split == Split::row || split == Split::experts;
}

/// Rows of part `index` of a matrix on a rank, of `rows` that it has in all. The last two parts of
/// three or more are keys and values.
template <typename Ranks>
int64_t part_rows_on_rank(const WeightSpec& weight, Split split, size_t index, int64_t rows,
                          int64_t kv_heads, const Ranks& ranks) {
  if (is_whole(split) || weight.parts[index].every_rank) return rows;
  const size_t parts = weight.parts_in_matrix();
  const bool kv = split == Split::kv || (split == Split::qkv && parts > 2 && index + 2 >= parts);
  return kv ? ranks.kv_share(rows, kv_heads) : ranks.share(rows);
}

/// Rows of one matrix of a weight on a rank, columns where these are its outputs; each stored row
/// stands `repeat` times.
template <typename Ranks>
int64_t rows_on_rank(const WeightSpec& weight, Split split, int64_t kv_heads, const Ranks& ranks,
                     int64_t repeat = 1) {
  const bool by_rows = weight.outputs == OutputAxis::rows;
  const int64_t outputs = by_rows ? weight.rows() * repeat : weight.columns();
  if (is_whole(split)) return outputs;
  if (split == Split::kv) return ranks.kv_share(outputs, kv_heads);
  if (split == Split::vocabulary) {
    return ranks.vocabulary(round_up(outputs * weight.outputs_per_row, kVocabularyPadding));
  }
  if (split == Split::column || weight.parts_in_matrix() == 0) return ranks.share(outputs);
  int64_t rows = 0;
  for (size_t i = 0; i < weight.parts_in_matrix(); ++i) {
    rows += part_rows_on_rank(weight, split, i, weight.parts[i].rows() * repeat, kv_heads, ranks);
  }
  return rows;
}

}  // namespace plimsoll::model
