#include "shard/rank_model.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"

namespace plimsoll::shard {
namespace {

using model::LayerSpec;
using model::ModelSpec;
using model::WeightSpec;

/// The index of one of the spec's weights; towers' tensors and constants are none.
std::optional<size_t> id_of(const ModelSpec& spec, const WeightSpec* weight) {
  const WeightSpec* first = spec.weights.data();
  if (weight == nullptr || std::less<>()(weight, first)) return std::nullopt;
  const auto id = static_cast<size_t>(weight - first);
  return id < spec.weights.size() ? std::optional(id) : std::nullopt;
}

/// The rank's shape of every weight, and the rows of its vocabulary.
ModelSpec cut_weights(const ModelSpec& spec, const std::vector<Stage>& stages) {
  ModelSpec cut = spec;
  for (const Stage& stage : stages) {
    for (const ShardTensor& tensor : stage) {
      const auto id = id_of(spec, tensor.weight);
      if (!id) continue;
      cut.weights[*id].shape = tensor.shape;
      if (static_cast<model::WeightId>(*id) == spec.head) cut.vocab_size = tensor.shape.front();
    }
  }
  return cut;
}

/// Biases that vLLM leaves out and that `run` adds stand with the weights before them.
void add_biases_of_run(const ModelSpec& spec, RankModel& rank) {
  for (size_t id = 1; id < spec.weights.size(); ++id) {
    if (spec.weights[id].kept != model::Kept::in_run) continue;
    rank.present[id] = rank.present[id - 1];
    rank.spec.weights[id].shape = {rank.spec.weights[id - 1].rows()};
  }
}

void cut_layer(LayerSpec& layer, int64_t ranks) {
  layer.attention.heads /= ranks;
  layer.attention.kv_heads = std::max<int64_t>(1, layer.attention.kv_heads / ranks);
  layer.mlp.intermediate /= ranks;
}

}  // namespace

std::vector<RankModel> rank_models(const ModelSpec& spec, const Layout& layout) {
  const std::vector<Stage> stages = make_stages(spec, layout);
  const ModelSpec cut = cut_weights(spec, stages);
  std::vector<RankModel> models;
  for (const Stage& stage : stages) {
    RankModel rank{cut, std::vector<bool>(spec.weights.size(), false)};
    for (const ShardTensor& tensor : stage) {
      if (const auto id = id_of(spec, tensor.weight)) rank.present[*id] = true;
    }
    add_biases_of_run(spec, rank);
    std::erase_if(rank.spec.layers, [&](const LayerSpec& layer) {
      return !rank.present[static_cast<size_t>(layer.attention.qkv.weight)];
    });
    if (rank.spec.layers.empty()) {
      fail(ExitCode::usage, "--pipeline-parallel-size {}: a stage would have none of the {} layers",
           layout.pipeline_parallel, spec.layers.size());
    }
    for (LayerSpec& layer : rank.spec.layers) cut_layer(layer, layout.tensor_parallel);
    models.push_back(std::move(rank));
  }
  return models;
}

}  // namespace plimsoll::shard
