#include "shard/ranks/rank_model.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "model/pipeline.h"
#include "model/stage_weights.h"
#include "shard/ranks/tensor_ranks.h"

namespace plimsoll::shard {
namespace {

using model::ModelSpec;
using model::WeightSpec;

/// Layers [first, end), by their numbers in the checkpoint.
struct LayerRange {
  int64_t first = 0, end = 0;
};

[[noreturn]] void refuse_empty_stage(const ModelSpec& spec, const Layout& layout) {
  fail(ExitCode::usage, "--pipeline-parallel-size {}: a stage would have none of the {} layers",
       layout.pipeline_parallel, spec.layers.size());
}

/// Weights that the first stage alone computes with; last_weights(): those of the last stage.
std::vector<model::WeightId> first_weights(const ModelSpec& spec) {
  return {spec.embedding, spec.embedding_norm.weight, spec.embedding_norm.bias,
          spec.position_embedding, spec.embedding_in};
}
std::vector<model::WeightId> last_weights(const ModelSpec& spec) {
  return {spec.final_norm.weight, spec.final_norm.bias, spec.embedding_out, spec.head,
          spec.head_bias};
}

bool is_last(const ModelSpec& spec, LayerRange layers) {
  return layers.end * spec.layers_in_stored == static_cast<int64_t>(spec.layers.size());
}

/// Weights of layers are their stage's; those of no layer and neither end are everybody's.
std::vector<bool> held_weights(const ModelSpec& spec, LayerRange layers) {
  std::vector<bool> held;
  for (const int64_t layer : model::layers_of_weights(spec)) {
    held.push_back(layer < 0 || (layer >= layers.first && layer < layers.end));
  }
  const auto set = [&](const std::vector<model::WeightId>& ids, bool here) {
    for (const model::WeightId id : ids)
      if (id != model::kNoWeight) held[static_cast<size_t>(id)] = here;
  };
  set(first_weights(spec), false);
  set(last_weights(spec), false);
  if (layers.first == 0) set(first_weights(spec), true);
  if (is_last(spec, layers)) set(last_weights(spec), true);
  return held;
}

ModelSpec cut_stage(const ModelSpec& spec, LayerRange layers) {
  ModelSpec stage = spec;
  const std::vector<bool> held = held_weights(spec, layers);
  for (size_t id = 0; id < held.size(); ++id) {
    if (held[id]) continue;
    WeightSpec& weight = stage.weights[id];
    weight = WeightSpec{.name = weight.name, .shape = {0}, .use = weight.use};
  }
  const int64_t each = spec.layers_in_stored;
  stage.layers = {spec.layers.begin() + layers.first * each,
                  spec.layers.begin() + layers.end * each};
  if (layers.first > 0) {
    stage.embedding = stage.position_embedding = stage.embedding_in = model::kNoWeight;
    stage.embedding_norm = {};
  }
  if (!is_last(spec, layers)) {
    stage.head = stage.head_bias = stage.embedding_out = model::kNoWeight;
    stage.final_norm = {};
  }
  return stage;
}

// A stage would need what another has: the token table, keys, the first layer's input.
void refuse_uncut(const ModelSpec& spec) {
  if (spec.layer_inputs.width == 0 && !spec.shares_blocks()) return;
  fail(ExitCode::usage, "{} has {}, which are not cut so yet; use --pipeline-parallel-size 1",
       spec.architecture,
       spec.layer_inputs.width > 0 ? "inputs by layer" : "blocks that layers share");
}

/// Layers that see what the layer before chose have it in their stage.
void refuse_parted_choice(const ModelSpec& spec, int64_t first) {
  const model::IndexerSpec& indexer = spec.layers[static_cast<size_t>(first)].attention.indexer;
  if (indexer.most == 0 || indexer.chooses()) return;
  fail(
      ExitCode::usage,
      "a pipeline stage would begin with layer {}, which attends to the keys that the layer before "
      "chose; VLLM_PP_LAYER_PARTITION can cut elsewhere",
      first);
}

}  // namespace

std::vector<StageModel> stage_models(const ModelSpec& spec, const Layout& layout) {
  const ModelSpec* model = &spec;
  std::optional<ModelSpec> cut;
  if (layout.tensor_parallel > 1) model = &cut.emplace(cut_for_run(spec, layout.tensor_parallel));
  if (layout.pipeline_parallel == 1) return {{*model, 0}};
  refuse_uncut(spec);
  Layout stages_alone = layout;
  stages_alone.tensor_parallel = 1;
  (void)make_stages(spec, stages_alone);  // refuses what vLLM cannot divide
  std::vector<StageModel> stages;
  const int64_t stored = static_cast<int64_t>(spec.layers.size()) / spec.layers_in_stored;
  int64_t first = 0;
  for (const int64_t end :
       model::stage_ends(stored, layout.pipeline_parallel, layout.pipeline_partition)) {
    if (first == end) refuse_empty_stage(spec, layout);
    refuse_parted_choice(spec, first * spec.layers_in_stored);
    stages.push_back({cut_stage(*model, {first, end}), first * spec.layers_in_stored});
    first = end;
  }
  return stages;
}

}  // namespace plimsoll::shard
