// The split rules of vLLM's layer classes (spec sharded_state.md, 4.1 to 4.3).
#include <algorithm>
#include <cassert>

#include "shard/layout.h"

namespace plimsoll::shard {
namespace {

using model::Part;
using model::Split;
using model::WeightSpec;

/// Rank `rank`'s part of [0, count), which `ranks` divides.
struct Range {
  int64_t first = 0;
  int64_t count = 0;
};

Range share(int64_t count, int64_t rank, int64_t ranks) {
  return {rank * (count / ranks), count / ranks};
}

// K and V rows: heads are divided while they last, then each stands on several ranks.
Range kv_share(int64_t rows, int64_t kv_heads, int64_t rank, int64_t ranks) {
  if (ranks <= kv_heads) return share(rows, rank, ranks);
  return share(rows, rank / (ranks / kv_heads), kv_heads);
}

Range vocabulary_share(int64_t rows, int64_t rank, int64_t rank_rows) {
  const int64_t first = std::min(rank * rank_rows, rows);
  return {first, std::min(first + rank_rows, rows) - first};
}

// Of a part's `count` outputs.
Range outputs_of(const ShardTensor& tensor, size_t index, int64_t count, int64_t rank,
                 int64_t ranks) {
  switch (tensor.split) {
    case Split::column:
    case Split::merged_column:
      return share(count, rank, ranks);
    case Split::qkv:
      return index == 0 ? share(count, rank, ranks) : kv_share(count, tensor.kv_heads, rank, ranks);
    case Split::vocabulary:
      return vocabulary_share(count, rank, tensor.shape[0]);
    case Split::replicated:
    case Split::row:
      return {0, count};
  }
  assert(false);
  return {};
}

Range inputs_of(const ShardTensor& tensor, int64_t count, int64_t rank, int64_t ranks) {
  return tensor.split == Split::row ? share(count, rank, ranks) : Range{0, count};
}

// Parts are whole tensors beside each other, or one over the other.
std::vector<Slice> column_slices(const ShardTensor& tensor, int64_t rank, int64_t ranks) {
  const WeightSpec& weight = *tensor.weight;
  const Range rows = inputs_of(tensor, weight.rows(), rank, ranks);
  const bool beside = weight.outputs == model::OutputAxis::columns;
  std::vector<Slice> slices;
  int64_t to_column = 0;
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const Part& part = weight.parts[i];
    const Range columns = beside ? outputs_of(tensor, i, part.stored_shape.back(), rank, ranks)
                                 : Range{0, weight.columns()};
    slices.push_back({.part = &part,
                      .row = rows.first,
                      .rows = rows.count,
                      .column = columns.first,
                      .columns = columns.count,
                      .to_column = to_column});
    if (beside) to_column += columns.count;
  }
  return slices;
}

}  // namespace

std::vector<Slice> rank_slices(const ShardTensor& tensor, int64_t rank, int64_t tensor_parallel) {
  if (tensor.weight == nullptr) return {};
  const WeightSpec& weight = *tensor.weight;
  if (weight.outputs != model::OutputAxis::rows) {
    return column_slices(tensor, rank, tensor_parallel);
  }
  const Range columns = inputs_of(tensor, weight.columns(), rank, tensor_parallel);
  std::vector<Slice> slices;
  slices.reserve(weight.parts.size());
  int64_t stored = 0;  // where the part's rows begin in its tensor
  int64_t to_row = 0;
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const Part& part = weight.parts[i];
    // vLLM cuts the rows of a fused tensor as they lie, one part after the other; where they are
    // interleaved (InternLM2's wqkv) it does not undo that. A single value is every part's.
    const bool follows = i > 0 && part.tensor == weight.parts[i - 1].tensor;
    if (!follows || part.stored_shape.empty()) stored = 0;
    const Range rows = outputs_of(tensor, i, part.rows(), rank, tensor_parallel);
    if (rows.count > 0) {
      slices.push_back({.part = &part,
                        .row = stored + rows.first,
                        .rows = rows.count,
                        .column = columns.first,
                        .columns = columns.count,
                        .to_row = to_row});
    }
    stored += part.rows();
    to_row += rows.count;
  }
  return slices;
}

}  // namespace plimsoll::shard
