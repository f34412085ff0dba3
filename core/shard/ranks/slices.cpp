// The split rules of vLLM's layer classes (spec sharded_state.md, 4.1 to 4.3).
#include <algorithm>
#include <utility>

#include "model/vllm/rank_rows.h"
#include "shard/layout.h"

namespace plimsoll::shard {
namespace {

using model::Part;
using model::Split;
using model::WeightSpec;

struct Range {
  int64_t first = 0;
  int64_t count = 0;
};

/// The `own` of `count` numbers that rank `rank` has. Ranks that share a KV head have the same.
Range range_of(int64_t count, int64_t own, int64_t rank, int64_t ranks) {
  if (own == count || own == 0) return {0, own};
  return {rank * (count / own) / ranks * own, own};
}

/// Sizes that divide, as cut_to_share has checked (model/vllm/rank_rows.h).
struct DividedShares {
  int64_t ranks;
  [[nodiscard]] int64_t share(int64_t size) const { return size / ranks; }
  [[nodiscard]] int64_t kv_share(int64_t rows, int64_t kv_heads) const {
    return rows / std::min(ranks, kv_heads);
  }
};

Range vocabulary_share(int64_t rows, int64_t rank, int64_t rank_rows) {
  const int64_t first = std::min(rank * rank_rows, rows);
  return {first, std::min(first + rank_rows, rows) - first};
}

/// Rank `rank`'s range of the `count` outputs of part `index`, or of its tensor.
Range outputs_of(const ShardTensor& tensor, size_t index, int64_t count, int64_t rank,
                 int64_t ranks) {
  const WeightSpec& weight = *tensor.weight;
  if (tensor.split == Split::vocabulary) {
    const bool by_rows = weight.outputs == model::OutputAxis::rows;
    return vocabulary_share(count, rank, by_rows ? tensor.shape[0] : tensor.shape.back());
  }
  const int64_t own =
      part_rows_on_rank(weight, tensor.split, index, count, tensor.kv_heads, DividedShares{ranks});
  return range_of(count, own, rank, ranks);
}

Range inputs_of(const ShardTensor& tensor, int64_t count, int64_t rank, int64_t ranks) {
  return range_of(count, tensor.split == Split::row ? count / ranks : count, rank, ranks);
}

// First rows of parts in their tensors, part after part. vLLM cuts the outputs of a fused tensor as
// they lie, one part after the other; where they are interleaved (InternLM2's wqkv) it does not
// undo that. A single value is every part's.
class Position {
 public:
  int64_t next(const Part& part) {
    const bool single = part.stored_shape.empty() || part.stored_shape == std::vector<int64_t>{1};
    if (last_ == nullptr || last_->tensor != part.tensor || single) at_ = 0;
    last_ = &part;
    return std::exchange(at_, at_ + part.rows());
  }

 private:
  const Part* last_ = nullptr;
  int64_t at_ = 0;
};

// Parts lie beside each other, or one over the other.
std::vector<Slice> column_slices(const ShardTensor& tensor, int64_t rank, int64_t ranks) {
  const WeightSpec& weight = *tensor.weight;
  const Range rows = inputs_of(tensor, weight.rows(), rank, ranks);
  const bool beside = weight.outputs == model::OutputAxis::columns;
  const size_t in_matrix = weight.parts_in_matrix();
  std::vector<Slice> slices;
  slices.reserve(weight.parts.size());
  Position position;
  int64_t to_column = 0;
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const Part& part = weight.parts[i];
    const size_t index = i % in_matrix;
    if (index == 0) to_column = 0;
    const int64_t first = beside ? position.next(part) : 0;
    const Range columns =
        beside ? outputs_of(tensor, index, part.rows(), rank, ranks) : Range{0, weight.columns()};
    slices.push_back({.part = &part,
                      .row = rows.first,
                      .rows = rows.count,
                      .column = first + columns.first,
                      .columns = columns.count,
                      .to_row = static_cast<int64_t>(i / in_matrix) * rows.count,
                      .to_column = to_column});
    if (beside) to_column += columns.count;
  }
  return slices;
}

// Slices of all rows of interleaved tensors, in their own order, one tensor after the other. A
// tensor is cut as its first part would be: one that holds q, k and v is cut as q.
std::vector<Slice> in_place_slices(const ShardTensor& tensor, const Range& columns, int64_t rank,
                                   int64_t ranks) {
  std::vector<Slice> slices;
  int64_t to_row = 0;
  const std::vector<Part>& parts = tensor.weight->parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && parts[i].tensor == parts[i - 1].tensor) continue;
    const Range rows = outputs_of(tensor, i, parts[i].stored_shape.front(), rank, ranks);
    slices.push_back({.part = &parts[i],
                      .row = rows.first,
                      .rows = rows.count,
                      .column = columns.first,
                      .columns = columns.count,
                      .to_row = to_row});
    to_row += rows.count;
  }
  return slices;
}

// Rows `rows` of a part, one slice for each block that they lie in; to_row is moved behind them.
void add_untangled(const Part& part, Range rows, const Range& columns, int64_t& to_row,
                   std::vector<Slice>& slices) {
  while (rows.count > 0) {
    const Part::Run at = part.run_at(rows.first);
    const int64_t run = std::min(rows.count, at.rows);
    slices.push_back({.part = &part,
                      .row = at.first,
                      .rows = run,
                      .column = columns.first,
                      .columns = columns.count,
                      .to_row = to_row});
    rows = {rows.first + run, rows.count - run};
    to_row += run;
  }
}

// A norm's numbers of each head are a tensor of their own (StableLM).
bool has_heads_in_parts(const ShardTensor& tensor) {
  const std::vector<Part>& parts = tensor.weight->parts;
  return tensor.weight->use == model::WeightUse::vector && parts.size() > 1 &&
         parts[0].tensor != parts[1].tensor &&
         (tensor.split == Split::column || tensor.split == Split::kv);
}

}  // namespace

std::vector<Slice> rank_slices(const ShardTensor& tensor, int64_t rank, int64_t tensor_parallel) {
  if (tensor.weight == nullptr) return {};
  const WeightSpec& weight = *tensor.weight;
  if (weight.first_rank_alone && rank > 0) return {};
  if (weight.outputs != model::OutputAxis::rows) {
    return column_slices(tensor, rank, tensor_parallel);
  }
  const Range columns =
      inputs_of(tensor, weight.columns() * tensor.repeat.columns, rank, tensor_parallel);
  if (weight.interleaved == model::InterleavedCut::in_place) {
    return in_place_slices(tensor, columns, rank, tensor_parallel);
  }
  std::vector<Slice> slices;
  slices.reserve(weight.parts.size());
  Position position;
  int64_t to_row = 0;
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const Part& part = weight.parts[i];
    const int64_t first = position.next(part) * tensor.repeat.rows;
    const Range rows = outputs_of(tensor, i, part.rows() * tensor.repeat.rows, rank,  //
                                  tensor_parallel);
    if (weight.interleaved == model::InterleavedCut::untangled) {
      add_untangled(part, rows, columns, to_row, slices);
      continue;
    }
    if (rows.count > 0) {
      slices.push_back({.part = &part,
                        .row = first + rows.first,
                        .rows = rows.count,
                        .column = columns.first,
                        .columns = columns.count,
                        .to_row = to_row,
                        .repeat = tensor.repeat});
    }
    to_row += rows.count;
  }
  return slices;
}

std::vector<checkpoint::Block> part_blocks(const ShardTensor& tensor, int64_t rank,
                                           int64_t tensor_parallel) {
  const WeightSpec& weight = *tensor.weight;
  const Range columns = inputs_of(tensor, weight.columns(), rank, tensor_parallel);
  std::vector<checkpoint::Block> blocks;
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const Range rows = outputs_of(tensor, i, weight.parts[i].rows(), rank, tensor_parallel);
    blocks.push_back({rows.first, rows.count, columns.first, columns.count});
  }
  return blocks;
}

std::vector<checkpoint::Block> rank_blocks(const ShardTensor& tensor, int64_t rank,
                                           int64_t tensor_parallel) {
  const WeightSpec& weight = *tensor.weight;
  if (tensor.split == Split::experts) {
    const int64_t all = weight.matrices() * weight.rows();
    const Range rows = range_of(all, all / tensor_parallel, rank, tensor_parallel);
    return {{rows.first, rows.count, 0, weight.columns()}};
  }
  if (weight.parts.empty() || has_heads_in_parts(tensor)) {
    const Range columns = inputs_of(tensor, weight.columns(), rank, tensor_parallel);
    const int64_t own = tensor.shape.empty() ? 1 : tensor.shape.front();
    const Range rows = range_of(weight.rows(), own, rank, tensor_parallel);
    return {{rows.first, rows.count, columns.first, columns.count}};
  }
  std::vector<checkpoint::Block> blocks = part_blocks(tensor, rank, tensor_parallel);
  int64_t first = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].row += first;
    first += weight.parts[i].rows();
  }
  std::erase_if(blocks, [](const checkpoint::Block& block) { return block.rows == 0; });
  return blocks;
}

}  // namespace plimsoll::shard
