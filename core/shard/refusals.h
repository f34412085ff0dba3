// Layouts that `shard` refuses: vLLM refuses them too, or how it would write them is not known.
#pragma once

#include <cstdint>

#include "model/model_spec.h"
#include "shard/layout.h"

namespace plimsoll::shard {

/// True when the release's names for the model's tensors are known.
bool is_known(const model::ModelSpec& spec, const Release& release);

/// Throws Error(usage), naming flag and value, where the model has no such ranks, stages or
/// release.
void check_layout(const model::ModelSpec& spec, const Layout& layout);

/// Throws Error(usage) naming the layer whose mixer ranks do not divide. Heads count even where no
/// weight is cut by them, as behind latents.
void check_mixers(const model::ModelSpec& spec, int64_t ranks);

}  // namespace plimsoll::shard
