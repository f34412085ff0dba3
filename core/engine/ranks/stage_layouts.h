// The layouts of a pipeline's stages, which agree on all that a sequence is scheduled by.
#pragma once

#include <vector>

#include "engine/layout.h"

namespace plimsoll::engine {

/// A stage's part of a model: some of its layers (shard/ranks/rank_model.h).
struct StageView {
  const model::ModelSpec* spec = nullptr;
  int64_t first_layer = 0;
};

/// Resolves the stages' layouts, `spec` being the whole model's: as many KV blocks, tokens and
/// sequences as the tightest stage has room for, each ceiling of `options` being a stage's own.
/// Throws as resolve_layout.
std::vector<EngineLayout> resolve_stages(const model::ModelSpec& spec,
                                         const std::vector<StageView>& stages,
                                         const EngineOptions& options,
                                         const backend::Footprint& footprint);

/// What ranks in several processes have besides: room for messages (those of devices have it in
/// their workspace), and for the logits where the first process, which chooses tokens, does not
/// have the last stage. A layout for each rank of a copy, `tensor` in a stage, as many in each of
/// the `processes`.
void spread_ranks(std::vector<EngineLayout>& layouts, int64_t tensor, int64_t processes,
                  const backend::Footprint& footprint);

}  // namespace plimsoll::engine
