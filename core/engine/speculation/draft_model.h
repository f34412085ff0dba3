// A smaller model of the same vocabulary whose tokens are proposed for another model's answers
// (drafter.h).
#pragma once

#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::engine {

/// The fields of --speculative-config with the method "draft_model". What it points to must outlive
/// the engine, `weights` its constructor.
struct DraftModel {
  const model::ModelSpec* spec = nullptr;
  const checkpoint::WeightSource* weights = nullptr;  // null: random ones, which need no checkpoint
  int64_t num_speculative_tokens = 0;                 // most that one step tries for a sequence
};

}  // namespace plimsoll::engine
