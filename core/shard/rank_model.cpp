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

/// What vLLM leaves out and `run` adds stands with the weights before it: biases as long as these,
/// numbers by head.
void add_weights_of_run(const ModelSpec& spec, int64_t ranks, RankModel& rank) {
  for (size_t id = 1; id < spec.weights.size(); ++id) {
    const WeightSpec& weight = spec.weights[id];
    if (weight.kept != model::Kept::in_run) continue;
    rank.present[id] = rank.present[id - 1];
    if (weight.name.ends_with(".bias")) {
      rank.spec.weights[id].shape = {rank.spec.weights[id - 1].rows()};
    } else if (weight.split == model::Split::column) {
      rank.spec.weights[id].shape = {weight.rows() / ranks};
    }
  }
}

void cut_recurrent(int64_t ranks, model::RecurrentSpec& recurrent) {
  const int64_t shared = 2 * recurrent.groups * recurrent.state;
  recurrent.heads /= ranks;
  if (recurrent.groups > 1) recurrent.groups /= ranks;
  recurrent.norm_groups = std::max<int64_t>(1, recurrent.norm_groups / ranks);
  recurrent.conv.width = recurrent.groups == 1 && recurrent.kind == model::RecurrentKind::mamba2
                             ? (recurrent.conv.width - shared) / ranks + shared
                             : recurrent.conv.width / ranks;
}

/// A layer as its rank's weights are; what vLLM replicates stays whole.
void cut_layer(const ModelSpec& spec, int64_t ranks, ModelSpec& rank, LayerSpec& layer) {
  const auto is_cut = [&](model::WeightId id) {
    return rank.weight(id).rows() != spec.weight(id).rows() ||
           rank.weight(id).columns() != spec.weight(id).columns();
  };
  if (layer.recurrent && is_cut(layer.recurrent->out.weight))
    cut_recurrent(ranks, *layer.recurrent);
  if (layer.mlp.kind != model::MlpKind::none && is_cut(layer.mlp.down.weight)) {
    layer.mlp.intermediate /= ranks;
  }
  model::SharedExperts& shared = layer.mlp.shared;
  if (shared.intermediate > 0 && is_cut(shared.down.weight)) shared.intermediate /= ranks;
  if (layer.shortcut && is_cut(layer.shortcut->down.weight)) layer.shortcut->intermediate /= ranks;
  if (!layer.has_attention()) return;
  model::AttentionSpec& attention = layer.attention;
  const bool latent = attention.latent.kv_rank > 0;
  if (is_cut(latent ? attention.latent.q_up.weight : attention.qkv.weight)) {
    attention.heads /= ranks;
    attention.kv_heads = std::max<int64_t>(1, attention.kv_heads / ranks);
  }
  if (attention.norm_span == model::NormSpan::all_heads) {
    const auto cut = [&](const model::Norm& norm, int64_t heads) {
      if (norm.weight == model::kNoWeight) return;
      rank.weights[static_cast<size_t>(norm.weight)].shape = {heads * attention.head_dim};
    };
    cut(attention.q_norm, attention.heads);
    cut(attention.k_norm, attention.kv_heads);
  }
}

/// A weight that every layer of its kind has.
model::WeightId weight_of(const LayerSpec& layer) {
  if (layer.has_attention()) return layer.attention.out.weight;
  return layer.recurrent ? layer.recurrent->out.weight : layer.mlp.down.weight;
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
    add_weights_of_run(spec, layout.tensor_parallel, rank);
    std::erase_if(rank.spec.layers, [&](const LayerSpec& layer) {
      return !rank.present[static_cast<size_t>(weight_of(layer))];
    });
    if (rank.spec.layers.empty()) {
      fail(ExitCode::usage, "--pipeline-parallel-size {}: a stage would have none of the {} layers",
           layout.pipeline_parallel, spec.layers.size());
    }
    std::vector<LayerSpec> layers = std::move(rank.spec.layers);
    for (LayerSpec& layer : layers) cut_layer(spec, layout.tensor_parallel, rank.spec, layer);
    rank.spec.layers = std::move(layers);
    models.push_back(std::move(rank));
  }
  return models;
}

}  // namespace plimsoll::shard
