// Draft models of speculative decoding (vllm/config/speculative.py, vllm/v1/spec_decode).
#pragma once

#include "vllm/launch/stage.h"

namespace plimsoll::vllm {

/// True when the draft of --speculative-config is one that add_draft counts: a model of its own, a
/// head of EAGLE, or layers of the model `config` itself.
bool counts_draft(const ConfigView& config, const EngineArgs& args);

/// The model for which a draft is added.
struct DraftedModel {
  const ConfigView& config;
  const Quantization& quantization;
  int64_t max_model_len = 0;
};

/// Adds weights, buffers and caches of the draft to the stage that samples; nothing where the draft
/// is not counted. Throws as build_shape does.
void add_draft(Stage& last, const EngineArgs& args, ShapeOptions options,
               const DraftedModel& target);

/// Note on drafts for the plan; empty: there are none, or they need nothing.
std::string draft_note(const ConfigView& config, const EngineArgs& args);

}  // namespace plimsoll::vllm
