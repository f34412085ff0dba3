#include "shard/ranks/rank_share.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/rounding.h"
#include "model/vocabulary.h"
#include "quantization/layer_parameters.h"

namespace plimsoll::shard {
namespace {

using model::ExpertBlocks;
using model::kVocabularyPadding;
using model::OutputAxis;
using model::Part;
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

void check_blocks(const ShardTensor& tensor, const Heads& heads, int64_t ranks) {
  const WeightSpec& weight = *tensor.weight;
  if (ranks == 1) return;
  if (tensor.split == Split::row) {
    return check_multiple(tensor, "inputs", tensor.shape.back(), weight.input_multiple);
  }
  for (size_t i = 0; i < weight.parts.size(); ++i) {
    const bool kv = tensor.split == Split::qkv && i > 0;
    check_multiple(tensor, "outputs of a part",
                   weight.parts[i].rows() / (kv ? std::min(ranks, heads.kv) : ranks),
                   weight.output_multiple);
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

int64_t vocabulary_share(const ShardTensor& tensor, int64_t outputs, int64_t ranks) {
  const int64_t packed = tensor.weight->outputs_per_row;
  const int64_t padded = round_up(outputs * packed, kVocabularyPadding);
  check_divides(tensor, "rows with padding", padded, ranks);
  check_multiple(tensor, "outputs", padded / ranks, packed);
  return padded / ranks / packed;
}

/// A rank's share of `outputs` whose parts are cut one by one.
int64_t merged_share(const ShardTensor& tensor, const char* axis, int64_t outputs, int64_t ranks) {
  int64_t everywhere = 0;
  for (const Part& part : tensor.weight->parts) {
    const int64_t rows = part.rows() * tensor.repeat.rows;
    if (part.every_rank) {
      everywhere += rows;
    } else {
      check_divides(tensor, axis, rows, ranks);
    }
  }
  return (outputs - everywhere) / ranks + everywhere;
}

/// Rows of all parts but k and v: gates may stand with q.
int64_t q_rows(const std::vector<Part>& parts) {
  int64_t rows = 0;
  for (size_t i = 0; i + 2 < parts.size(); ++i) rows += parts[i].rows();
  return rows;
}

int64_t local_outputs(const ShardTensor& tensor, const Heads& heads, int64_t ranks) {
  const std::vector<Part>& parts = tensor.weight->parts;
  const bool by_rows = tensor.weight->outputs == OutputAxis::rows;
  const int64_t outputs = by_rows ? tensor.weight->rows() * tensor.repeat.rows  //
                                  : tensor.weight->columns();
  const char* const axis = by_rows ? "rows" : "columns";
  switch (tensor.split) {
    case Split::replicated:
    case Split::row:
    case Split::experts:
      return outputs;
    case Split::column:
      if (heads.query > 0 && tensor.weight->heads > 0) {  // of a tower, which are cut otherwise
        check_divides(tensor, "query heads", heads.query, ranks);
      }
      check_divides(tensor, axis, outputs, ranks);
      break;
    case Split::merged_column:
      return merged_share(tensor, by_rows ? "rows in a part" : "columns in a part", outputs, ranks);
    case Split::vocabulary:
      return vocabulary_share(tensor, outputs, ranks);
    case Split::kv:
      check_heads(tensor, heads.query, heads.kv, ranks);
      return outputs / std::min(ranks, heads.kv);
    case Split::qkv:
      check_heads(tensor, heads.query, heads.kv, ranks);
      return q_rows(parts) / ranks +
             (parts[parts.size() - 2].rows() + parts.back().rows()) / std::min(ranks, heads.kv);
  }
  return outputs / ranks;
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
  if (tensor.repeat.columns > 1) tensor.shape[column_axis] *= tensor.repeat.columns;
  tensor.shape[by_rows ? row_axis : column_axis] = local_outputs(tensor, heads, ranks);
  if (tensor.split == Split::row) {
    const size_t axis = by_rows ? column_axis : row_axis;
    check_divides(tensor, by_rows ? "columns" : "rows", tensor.shape[axis], ranks);
    tensor.shape[axis] /= ranks;
  }
  check_blocks(tensor, heads, ranks);
  if (tensor.unit() != tensor.dtype) tensor.shape.back() *= kWordBytes;
}

}  // namespace plimsoll::shard
