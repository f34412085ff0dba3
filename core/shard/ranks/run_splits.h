// Cuts weights for ranks of `run`: as vLLM's ranks do, but each rank has the whole of a weight when
// all ranks need its result and the work is small.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::shard {

/// Split of each weight, by its id. Whole on every rank are norms over columns that several ranks
/// have (their inputs are gathered), the down projection of adapters, and the weights of inputs by
/// layer and of further residuals. Experts are cut as ModelSpec::whole_experts says.
std::vector<model::Split> run_splits(const model::ModelSpec& spec, int64_t ranks);

/// True when a group that a mixer's norm is over has columns on several ranks.
bool spans_ranks(const model::RecurrentSpec& recurrent, int64_t ranks);

}  // namespace plimsoll::shard
