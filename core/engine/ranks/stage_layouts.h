// The layouts of a pipeline's stages, which agree on everything that the scheduler uses.
#pragma once

#include <vector>

#include "engine/layout.h"

namespace plimsoll::engine {

/// A stage's part of a model: some of its layers (shard/ranks/rank_model.h).
struct StageView {
  const model::ModelSpec* spec = nullptr;
  int64_t first_layer = 0;
};

/// Resolves the stages' layouts; `spec` is the whole model's. All have as many KV blocks, tokens
/// and sequences as the tightest stage has room for; each ceiling of `options` is one stage's.
/// Throws as resolve_layout.
std::vector<EngineLayout> resolve_stages(const model::ModelSpec& spec,
                                         const std::vector<StageView>& stages,
                                         const EngineOptions& options,
                                         const backend::Footprint& footprint);

/// Adds the room that ranks in several processes need: for messages (on devices their workspace has
/// it), and for the logits where process 0, which chooses tokens, does not have the last stage. A
/// layout for each rank of a replica, `tensor` in a stage, equally many in each of the `processes`.
void spread_ranks(std::vector<EngineLayout>& layouts, int64_t tensor, int64_t processes,
                  const backend::Footprint& footprint);

}  // namespace plimsoll::engine
