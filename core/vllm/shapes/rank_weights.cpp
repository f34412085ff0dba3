#include "vllm/shapes/rank_weights.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "model/model_spec.h"
#include "model/vocabulary.h"
#include "quantization/layer_parameters.h"

namespace plimsoll::vllm {
namespace {

/// Bytes of a tensor's segment that are neither used nor split off.
Amount segment_slack(Amount bytes) {
  constexpr int64_t kOwnSegment = 10 * kMiB;
  if (bytes < Amount{kOwnSegment} || bytes.saturated()) return 0;
  const Amount rest = padded_to(bytes, 2 * kMiB) - bytes;
  return rest > Amount{kMiB} ? Amount{0} : rest;
}

}  // namespace

RankWeights::RankWeights(int64_t tensor_parallel, int64_t element, const Quantization& quantization)
    : ranks_(tensor_parallel), element_(element), quantization_(&quantization) {}

int64_t RankWeights::share(int64_t size, const char* what) const {
  if (size % ranks_ != 0) {
    fail(ExitCode::usage,
         "--tensor-parallel-size {}: {} ({}) cannot be divided by it; vLLM refuses this size",
         ranks_, what, size);
  }
  return size / ranks_;
}

int64_t RankWeights::kv_heads(int64_t total) const {
  if (total >= ranks_) return share(total, "the number of key-value heads");
  if (ranks_ % total != 0) {
    fail(ExitCode::usage,
         "--tensor-parallel-size {}: it is not a multiple of the number of key-value heads ({}); "
         "vLLM refuses this size",
         ranks_, total);
  }
  return 1;
}

void RankWeights::parameters(Part part, Amount bytes) {
  parts_[static_cast<size_t>(part)] += bytes;
  slack_bytes_ += segment_slack(bytes);
}

Amount RankWeights::parameter_bytes() const {
  Amount sum = 0;
  for (const Amount part : parts_) sum += part;
  return sum;
}

void RankWeights::linear(Part part, const Linear& linear) {
  const char* const what = linear.name.leaf.c_str();
  const bool cuts_outputs = ranks_ > 1 && linear.split == Split::outputs;
  MatrixShape shape{linear.inputs, linear.inputs, linear.outputs, cuts_outputs};
  if (linear.split == Split::inputs) shape.inputs = share(linear.inputs, what);
  for (int64_t& width : shape.widths) {
    if (cuts_outputs) width = share(width, what);
  }
  matrix(part, linear.name, shape, linear.quantized);
  if (linear.bias) parameters(part, shape.outputs() * element_);
}

void RankWeights::matrix(Part part, const ModuleName& name, const MatrixShape& shape,
                         bool quantized) {
  const WeightScheme scheme = quantized ? quantization_->linear(name) : WeightScheme{};
  const Amount bytes = matrix_bytes(scheme, shape, element_);
  largest_matrix_ = std::max(largest_matrix_, bytes);
  parameters(part, bytes);
  if (part == Part::vision) return;
  for (const int64_t width : shape.widths) adapt(shape.inputs, width);
}

void RankWeights::adapt(Amount inputs, Amount outputs, Amount count) {
  for (const Amount width : {inputs, outputs}) adapt_rows(width * lora_rank_ * count);
}

void RankWeights::adapt_rows(Amount elements) {
  const Amount bytes = elements * lora_slots_ * element_;
  lora_bytes_ += bytes;
  slack_bytes_ += segment_slack(bytes);
}

int64_t RankWeights::vocabulary_rows(int64_t rows) const {
  return share(padded_to(rows, model::kVocabularyPadding).value(),
               "the vocabulary, padded to a multiple of 64");
}

void RankWeights::vocabulary(Part part, int64_t rows, int64_t columns) {
  parameters(part, Amount{vocabulary_rows(rows)} * columns * element_);
}

void RankWeights::lm_head(int64_t rows, int64_t columns) {
  const WeightScheme scheme = quantization_->lm_head({"", "lm_head", {}});
  const MatrixShape shape{columns, columns, {vocabulary_rows(rows)}, ranks_ > 1};
  parameters(Part::lm_head, matrix_bytes(scheme, shape, element_));
}

void RankWeights::experts(const Experts& experts) {
  ExpertShape shape;
  shape.hidden = experts.hidden;
  shape.up_matrices = experts.up_matrices;
  shape.bias = experts.bias;
  shape.ordered = expert_order_;
  if (expert_parallel_) {
    shape.experts = ceil_div(experts.experts, expert_ranks());
    shape.intermediate = experts.intermediate;
  } else {
    shape.experts = experts.experts;
    const int64_t slice = share(experts.intermediate, "the experts' intermediate size");
    if (slice % replicas_ != 0) {
      fail(ExitCode::usage,
           "--data-parallel-size {}: the experts' intermediate size ({}) cannot be divided by the "
           "ranks of all copies ({}); use --enable-expert-parallel",
           replicas_, experts.intermediate, expert_ranks());
    }
    shape.intermediate = slice / replicas_;
    shape.split = expert_ranks() > 1;
  }
  WeightScheme scheme = quantization_->experts(experts.name);
  scheme.refine_expert_blocks &= refined_blocks_;
  if (scheme.plain()) {
    shape.intermediate = padded_to(shape.intermediate, plain_expert_multiple_);
  }
  const Amount bytes = expert_bytes(scheme, shape, element_);
  largest_matrix_ = std::max(largest_matrix_, bytes);
  parameters(Part::experts, bytes);
  if (expert_adapters_ == ExpertAdapters::none) return;
  const bool fused = expert_adapters_ == ExpertAdapters::fused;
  const int64_t factors = fused ? 1 : experts.up_matrices;
  const Amount width = Amount{shape.intermediate} * (fused ? experts.up_matrices : 1);
  for (int64_t i = 0; i < factors; ++i) adapt(experts.hidden, width, shape.experts);
  adapt(shape.intermediate, experts.hidden, shape.experts);
}

void RankWeights::rotary(const RotaryTable& table) {
  if (tables_.insert(table).second) {
    buffer(Amount{table.positions} * table.dimensions * table.element);
  }
}

void RankWeights::attention_buffers() {
  buffer(Amount{std::ssize(model::kScaleNames)} * kFloat32);
}

void RankWeights::attention_scales(bool latent) {
  attention_buffers();
  if (!quantization_->has_attention_scales(latent)) return;
  for (const auto& each : quantization::attention_parameters(quantization_->method()))
    parameters(Part::attention, each.element_bytes(element_));
}

}  // namespace plimsoll::vllm
