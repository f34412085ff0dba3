#include "shard/ranks/rank_share.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "model/vllm/rank_rows.h"
#include "quantization/layer_parameters.h"

namespace plimsoll::shard {
namespace {

using model::ExpertBlocks;
using model::OutputAxis;
using model::Split;
using model::WeightSpec;

/// ModelOpt's scales of a grid of blocks: [rows, 1, columns, 1].
constexpr size_t kGridAxes = 4;

void check_divides(const ShardTensor& tensor, std::string_view what, int64_t number,
                   int64_t ranks) {
  if (number % ranks == 0) return;
  fail(ExitCode::usage,
       "--tensor-parallel-size {}: {} has {} {}, which {} does not divide; vLLM refuses it too",
       ranks, tensor.name, number, what, ranks);
}

void check_heads(const ShardTensor& tensor, int64_t heads, int64_t kv_heads, int64_t ranks) {
  check_divides(tensor, "query heads", heads, ranks);
  if (kv_heads % ranks == 0 || ranks % kv_heads == 0) return;
  fail(ExitCode::usage,
       "--tensor-parallel-size {}: {} has {} KV heads, of which neither divides the other; vLLM "
       "refuses it too",
       ranks, tensor.name, kv_heads);
}

// ---- blocks that share a scale are not cut ----

void check_multiple(const ShardTensor& tensor, const char* what, int64_t number, int64_t multiple) {
  if (number % multiple == 0) return;
  if (tensor.weight->is_stack()) {
    fail(ExitCode::usage,
         "--tensor-parallel-size: {} would have {} {} on a rank, no multiple of {}: how vLLM pads "
         "such experts depends on the kernel that it takes for the card; use fewer ranks",
         tensor.name, number, what, multiple);
  }
  fail(ExitCode::usage,
       "--tensor-parallel-size: {} would have {} {} on a rank, no multiple of its blocks of {}, of "
       "which each has a scale; use fewer ranks",
       tensor.name, number, what, multiple);
}

/// Divides the outputs of a tensor over ranks (model/vllm/rank_rows.h).
struct Shares {
  const ShardTensor& tensor;
  const Heads& heads;
  int64_t ranks;

  [[nodiscard]] int64_t share(int64_t outputs) const {
    const bool by_rows = tensor.weight->outputs == OutputAxis::rows;
    const std::string in_part = tensor.split == Split::merged_column ? " in a part" : "";
    check_divides(tensor, (by_rows ? "rows" : "columns") + in_part, outputs, ranks);
    return outputs / ranks;
  }
  [[nodiscard]] int64_t kv_share(int64_t rows, int64_t kv_heads) const {
    const int64_t cuts = std::min(ranks, kv_heads);
    const bool by_rows = tensor.weight->outputs == OutputAxis::rows;
    check_divides(tensor, std::string(by_rows ? "rows" : "columns") + " of KV heads", rows, cuts);
    return rows / cuts;
  }
  [[nodiscard]] int64_t vocabulary(int64_t padded) const {
    const int64_t packed = tensor.weight->outputs_per_row;
    check_divides(tensor, "rows with padding", padded, ranks);
    check_multiple(tensor, "outputs", padded / ranks, packed);
    return padded / ranks / packed;
  }
};

void check_blocks(const ShardTensor& tensor, const Shares& shares) {
  const WeightSpec& weight = *tensor.weight;
  if (shares.ranks == 1) return;
  if (tensor.split == Split::row) {
    return check_multiple(tensor, "inputs", tensor.shape.back(), weight.input_multiple);
  }
  if (weight.output_multiple == 1) return;
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const int64_t rows =
        part_rows_on_rank(weight, tensor.split, i, weight.parts[i].rows(), shares.heads.kv, shares);
    check_multiple(tensor, "outputs of a part", rows, weight.output_multiple);
  }
}

/// The blocks with sizes of a rank's slice.
ExpertBlocks slice_of(const ExpertBlocks& blocks, int64_t ranks) {
  ExpertBlocks slice = blocks;
  slice.intermediate /= ranks;
  return slice;
}

bool cuts_blocks(const ExpertBlocks& blocks, int64_t ranks) {
  return quantization::cuts_blocks(slice_of(blocks, ranks), ranks > 1);
}

/// Finer blocks that vLLM repeats the scales for; nothing: it refuses to.
std::optional<ExpertBlocks> finer(const ExpertBlocks& blocks, int64_t ranks) {
  const bool whole = blocks.intermediate % blocks.outputs == 0 &&
                     blocks.intermediate % blocks.inputs == 0 &&
                     blocks.hidden % blocks.outputs == 0 && blocks.hidden % blocks.inputs == 0;
  if (blocks.uneven == model::UnevenBlocks::refined && !whole) return std::nullopt;
  return quantization::finer_blocks(slice_of(blocks, ranks));
}

Repeat fit_expert_blocks(const ShardTensor& tensor, int64_t ranks) {
  if (!tensor.weight->expert_blocks) return {};
  const ExpertBlocks& blocks = *tensor.weight->expert_blocks;
  check_divides(tensor, "intermediate features of an expert", blocks.intermediate, ranks);
  const int64_t share = blocks.intermediate / ranks;
  if (!cuts_blocks(blocks, ranks)) return {};
  if (const auto fine = finer(blocks, ranks)) {
    if (tensor.unit() != tensor.dtype) return {};
    return {.rows = blocks.outputs / fine->outputs, .columns = blocks.inputs / fine->inputs};
  }
  fail(
      ExitCode::usage,
      "--tensor-parallel-size {}: {} would have {} intermediate features on a rank, no multiple of "
      "its blocks of {} x {}, of which each has a scale; use fewer ranks",
      ranks, tensor.name, share, blocks.outputs, blocks.inputs);
}

// ---- outputs and inputs ----

int64_t local_outputs(const Shares& shares) {
  const ShardTensor& tensor = shares.tensor;
  const Heads& heads = shares.heads;
  const bool of_tower = heads.query > 0 && tensor.weight->heads > 0;  // which are cut otherwise
  if (tensor.split == Split::column && of_tower) {
    check_divides(tensor, "query heads", heads.query, shares.ranks);
  }
  if (tensor.split == Split::kv || tensor.split == Split::qkv) {
    check_heads(tensor, heads.query, heads.kv, shares.ranks);
  }
  return rows_on_rank(*tensor.weight, tensor.split, heads.kv, shares, tensor.repeat.rows);
}

void cut_experts(ShardTensor& tensor, int64_t ranks) {
  int64_t& experts = tensor.shape.front();
  if (experts % ranks != 0) {
    fail(ExitCode::usage, "--enable-expert-parallel: {} has {} experts, which {} does not divide",
         tensor.name, experts, ranks);
  }
  experts /= ranks;
}

}  // namespace

bool is_held(const WeightSpec& weight, int64_t ranks) {
  if (!weight.expert_blocks) return true;
  const model::UnevenBlocks uneven = weight.expert_blocks->uneven;
  if (uneven == model::UnevenBlocks::absent) return !cuts_blocks(*weight.expert_blocks, ranks);
  if (uneven == model::UnevenBlocks::needed) return cuts_blocks(*weight.expert_blocks, ranks);
  return true;
}

void cut_to_share(ShardTensor& tensor, const Heads& heads, int64_t ranks) {
  const WeightSpec& weight = *tensor.weight;
  if (tensor.split == Split::experts) return cut_experts(tensor, ranks);
  tensor.repeat = fit_expert_blocks(tensor, ranks);
  if (tensor.split == Split::replicated) return;
  const size_t row_axis = weight.is_stack() ? 1 : 0;
  const size_t column_axis = weight.shape.size() == kGridAxes ? 2 : weight.shape.size() - 1;
  const bool by_rows = weight.outputs == OutputAxis::rows;
  const Shares shares{tensor, heads, ranks};
  if (tensor.repeat.columns > 1) tensor.shape[column_axis] *= tensor.repeat.columns;
  tensor.shape[by_rows ? row_axis : column_axis] = local_outputs(shares);
  if (tensor.split == Split::row) {
    const size_t axis = by_rows ? column_axis : row_axis;
    check_divides(tensor, by_rows ? "columns" : "rows", tensor.shape[axis], ranks);
    tensor.shape[axis] /= ranks;
  }
  check_blocks(tensor, shares);
  if (tensor.unit() != tensor.dtype) tensor.shape.back() *= kWordBytes;
}

}  // namespace plimsoll::shard
