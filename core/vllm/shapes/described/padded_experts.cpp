// Experts that vLLM pads for their kernel: in mxfp4 (gpt-oss) before they are loaded, in nvfp4
// without a gate (Nemotron) after that.
#include "vllm/shapes/described/described_model.h"

namespace plimsoll::vllm {
namespace {

/// Bytes that a kernel with an order of its own keeps beside one expert that was loaded: `slice` is
/// the rank's share of its width.
Amount reordered_bytes(const ExpertKernel& kernel, int64_t hidden, int64_t slice) {
  constexpr int64_t kGroup = 32, kTile = 64, kScaleRows = 256, kScaleColumns = 2;
  const auto padded = [&](int64_t size) {
    return kernel.padded_values ? padded_to(size, kTile).value() : size;
  };
  Amount bytes = 0;
  const auto add = [&](int64_t outputs, int64_t inputs) {
    const Amount loaded = Amount{outputs} * (inputs / 2);
    bytes += Amount{padded(outputs)} * padded(inputs / 2) - loaded;
    bytes += padded_to(outputs, kScaleRows) * padded_to(inputs / kGroup, kScaleColumns);
    bytes += Amount{outputs} * (kFloat32 - 2);  // biases
  };
  add(2 * slice, hidden);
  add(hidden, slice);
  return bytes;
}

/// What Blackwell's kernels add to one expert in nvfp4 without a gate: they take slices of whole
/// tiles (quantization/utils/flashinfer_fp4_moe.py). What later kernels add to the hidden size is
/// not counted.
Amount tile_rest(int64_t hidden, int64_t slice) {
  constexpr int64_t kTile = 128, kGroup = 16;
  const Amount rest = padded_to(slice, kTile) - slice;
  return rest * 2 * (hidden / 2 + hidden / kGroup);
}

}  // namespace

void tile_experts(Builder& build, const RankWeights::Experts& experts) {
  const RankWeights& weights = build.weights;
  if (weights.quantization().experts(experts.name).format != WeightFormat::nvfp4) return;
  using enum hardware::Architecture;
  const bool tiles = build.options.card == blackwell || build.options.card == consumer_blackwell;
  if (!tiles || experts.up_matrices > 1) return;
  const bool whole = build.options.expert_parallel;
  const Amount held =
      whole ? ceil_div(experts.experts, weights.expert_ranks()) : Amount{experts.experts};
  const int64_t slice = experts.intermediate / (whole ? 1 : weights.expert_ranks());
  build.shape.after_loading_bytes += held * tile_rest(experts.hidden, slice);
}

void pad_experts(Builder& build, RankWeights::Experts& experts) {
  const RankWeights& weights = build.weights;
  if (weights.quantization().experts(experts.name).format != WeightFormat::mxfp4) return;
  const ExpertKernel& kernel = build.options.mxfp4;
  const bool whole = build.options.expert_parallel;  // each expert is
  const int64_t ranks = whole ? 1 : weights.expert_ranks();
  const int64_t own = ceil_div(experts.intermediate, ranks).value();
  const int64_t slice = padded_to(own, kernel.intermediate_multiple).value();
  experts.intermediate = slice * ranks;
  experts.hidden = padded_to(experts.hidden, kernel.hidden_multiple).value();
  if (!kernel.reordered) return;
  const Amount held =
      whole ? ceil_div(experts.experts, weights.expert_ranks()) : Amount{experts.experts};
  build.shape.after_loading_bytes += held * reordered_bytes(kernel, experts.hidden, slice);
}

}  // namespace plimsoll::vllm
