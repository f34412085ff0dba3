// How ranks of `run` cut weights: as vLLM's, but where what one rank would compute is needed by all
// of them and little work, each has the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::shard {

/// By weight. Whole on every rank are norms over columns that several ranks have (their inputs are
/// gathered), the way down of adapters, and what makes inputs by layer and further residuals.
/// Experts are cut as ModelSpec::whole_experts says.
std::vector<model::Split> run_splits(const model::ModelSpec& spec, int64_t ranks);

/// Whether no rank has all the columns of one of the groups that a mixer's norm is over.
bool spans_ranks(const model::RecurrentSpec& recurrent, int64_t ranks);

}  // namespace plimsoll::shard
