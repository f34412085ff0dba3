// Draft models of speculative decoding (vllm/config/speculative.py, vllm/v1/spec_decode).
#pragma once

#include "vllm/launch/stage.h"

namespace plimsoll::vllm {

/// Whether the draft model of --speculative-config is one that add_draft counts.
bool counts_draft(const EngineArgs& args);

/// Adds weights, buffers and caches of the draft model to the stage that samples; nothing where it
/// is none that is counted. Throws as build_shape does.
void add_draft(Stage& last, const EngineArgs& args, ShapeOptions options, int64_t max_model_len);

/// What the plan says of drafts; empty: there are none, or they need nothing.
std::string draft_note(const EngineArgs& args);

}  // namespace plimsoll::vllm
