#include "backend/cuda/step_nodes.h"

#include <algorithm>

#include "backend/cuda/fp8_product.h"
#include "backend/cuda/rank_area.h"
#include "backend/cuda/slices.h"

namespace plimsoll::backend {
namespace {

// A product is two nodes: with the bias or the activation that cuBLASLt does not join.

/// channel_delta has most: seven products, the convolution, the rule, norm and gates.
constexpr int64_t kMixer = 20;
/// Norms and copies before it, adapters of q, k, v and the MLP, the product behind it.
constexpr int64_t kSharedBlock = 30;
constexpr int64_t kLayerInput = 8;
constexpr int64_t kLatentExperts = 4;
/// Two routers, the low-rank branch, the correction.
constexpr int64_t kStreamLayer = 42;

int64_t more_nodes(const model::LayerSpec& layer, int64_t streams) {
  int64_t nodes = 0;
  if (layer.recurrent) {
    nodes += kMixer + 2 * static_cast<int64_t>(layer.recurrent->head_gates.size());
  }
  if (layer.shared_block) nodes += kSharedBlock;
  if (layer.mlp.latent > 0) nodes += kLatentExperts;
  if (layer.input) nodes += kLayerInput;
  if (layer.streams) nodes += kStreamLayer + 5 * streams;
  return nodes;
}

/// Nodes of products by cuBLASLt with float8 weights: rows and weights are rewritten before them.
int64_t fp8_nodes(const model::ModelSpec& spec) {
  int64_t nodes = 0;
  for (const model::WeightSpec& weight : spec.weights) {
    for (const model::Part& part : weight.parts) {
      const bool rounded = part.packing && part.packing->code == model::Code::e4m3 &&
                           part.packing->inputs != model::InputRounding::none;
      if (!rounded || weight.is_stack()) continue;
      const auto bytes = static_cast<size_t>(part.rows() * weight.columns());
      nodes += 2 + 2 * static_cast<int64_t>(bytes / cuda::kFp8WeightBytes + 2);
    }
  }
  return nodes;
}

/// Nodes of sums of slices after products, with experts' second product separately; `of_sum` nodes
/// for each sum over ranks of whole experts.
int64_t slice_nodes(const model::ModelSpec& spec, int64_t of_sum) {
  constexpr int64_t kRows = 1024;
  int64_t nodes = 0;
  for (const model::WeightSpec& weight : spec.weights) {
    if (!cuda::is_sliced(weight)) continue;
    const int64_t kernels = (weight.is_packed() ? 2 : 1) + (weight.is_stack() ? 1 : 0);
    nodes += kernels == 1 ? 1 : kernels * weight.slices + 2;
    if (weight.split != model::Split::experts) continue;
    const auto numbers = static_cast<size_t>(weight.slices * kRows * weight.rows());
    nodes += of_sum * cuda::rank_pieces(numbers * sizeof(float));
  }
  return nodes;
}

/// Number of tensor-parallel ranks.
int64_t ranks_of(const model::ModelSpec& spec) {
  int64_t ranks = 1;
  for (const model::WeightSpec& weight : spec.weights) ranks = std::max(ranks, weight.ranks);
  return ranks;
}

/// Nodes of tensor-parallel ranks for sums and columns, each in pieces: a mixer has up to three, an
/// MLP one. Maxima of rounded inputs are found and exchanged before each.
int64_t rank_nodes(const model::ModelSpec& spec) {
  constexpr int64_t kOfLayer = 4, kOfModel = 3, kRows = 1024, kLogitsRows = 256;
  const auto pieces = [](int64_t numbers) { return cuda::rank_pieces(numbers * sizeof(float)); };
  return pieces(kRows * spec.hidden_size) * (kOfLayer * std::ssize(spec.layers) + kOfModel) +
         2 * kOfLayer * std::ssize(spec.layers) +
         (kRows / kLogitsRows) * (pieces(kLogitsRows * spec.vocab_size) + 1);
}

}  // namespace

int64_t more_step_nodes(const model::ModelSpec& spec, bool deterministic,
                        const memory::NcclShape& nccl) {
  const int64_t streams = spec.streams.count();
  int64_t nodes = spec.layer_inputs.width > 0 ? kLayerInput : 0;
  if (streams > 1) nodes += 7 * streams + 10;  // made of the first one, and joined
  for (const model::LayerSpec& layer : spec.layers) nodes += more_nodes(layer, streams);
  // Over NCCL a sum is up to three: shares go, are added, and are gathered; of slices, a rank's own
  // are added before, and the sum is rounded behind.
  const int64_t of_sum = nccl.team == 0 ? 1 : deterministic ? 5 : 3;
  if (ranks_of(spec) > 1) nodes += rank_nodes(spec) * of_sum;
  if (deterministic) nodes += slice_nodes(spec, of_sum);
  nodes += fp8_nodes(spec);
  return nodes;
}

memory::OverheadShape overhead_shape(const model::ModelSpec& spec, const CardFigures& card,
                                     int64_t graphs, const memory::NcclShape& nccl) {
  return {.compute_capability = card.compute_capability,
          .processors = card.processors,
          .layers = std::ssize(spec.layers),
          .experts = std::ranges::any_of(spec.layers, &model::LayerSpec::has_experts),
          .more_nodes = more_step_nodes(spec, card.deterministic, nccl),
          .graphs = graphs,
          .peers = nccl.team > 0 ? 0 : ranks_of(spec) - 1,
          .nccl = nccl};
}

}  // namespace plimsoll::backend
