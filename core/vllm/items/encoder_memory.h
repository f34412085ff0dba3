// Images, videos and sound: tokens per item, what the encoder needs, and what limits change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_view.h"
#include "vllm/engine_args.h"
#include "vllm/items/item_sizes.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

struct EncoderMemory {
  int64_t kept = 0;  // outputs and inputs that stay while the language model runs
  int64_t peak = 0;  // of the tower itself
  /// Part of both that may not be there at once: outputs are made behind the tower's peak
  /// (v1/worker/gpu_model_runner.py: embed_multimodal in profile_run), normalized pixels let go
  /// before it.
  int64_t passing = 0;
  std::string modality;
  int64_t items = 0;
  int64_t tokens_per_item = 0;
  int64_t input_elements = 0;  // of one item, and the bytes of each
  int64_t input_bytes = 0;
  int64_t budget_tokens = 0;                            // of the encoder's cache
  std::vector<std::pair<std::string, int64_t>> tokens;  // of the largest item of each modality
  std::string formula;
  std::string peak_formula;
};

/// The batch of items that vLLM profiles (vllm/multimodal/encoder_budget.py).
EncoderMemory encoder_memory(const EngineArgs& args, const EngineLimits& limits,
                             const ModelShape& shape, int64_t element, int64_t max_model_len);

/// Tokens that a step must hold at least by default: models that read an item as a whole raise the
/// default to their largest one (Gemma 4); 0 for the others.
int64_t least_batched_tokens(const ConfigView& config, const EngineArgs& args);

/// The items that the encoder is planned for, in a sentence; empty: none.
std::string encoder_note(const EncoderMemory& memory);

/// Settings of a processor's JSON, flattened: "size.longest_edge", switches as 0 and 1.
void read_processor_settings(const ConfigView& settings, const std::string& prefix,
                             std::map<std::string, int64_t>& into);

/// Modalities whose towers are not built, because no request may hold an item of them.
std::vector<std::string> absent_modalities(const EngineArgs& args);

}  // namespace plimsoll::vllm
