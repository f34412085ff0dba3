// Draft models of speculative decoding (vllm/config/speculative.py, vllm/v1/spec_decode).
#pragma once

#include "vllm/launch/stage.h"

namespace plimsoll::vllm {

/// True when the draft model of --speculative-config is one that add_draft counts.
bool counts_draft(const EngineArgs& args);

/// Adds weights, buffers and caches of the draft model to the stage that samples; nothing where the
/// draft is not counted. Throws as build_shape does.
void add_draft(Stage& last, const EngineArgs& args, ShapeOptions options, int64_t max_model_len);

/// Note on drafts for the plan; empty: there are none, or they need nothing.
std::string draft_note(const EngineArgs& args);

}  // namespace plimsoll::vllm
