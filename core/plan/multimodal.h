// Images and videos: tokens per item, what the encoder needs, and what limits change.
#pragma once

#include <cstdint>
#include <string>

#include "plan/vllm_plan.h"

namespace plimsoll::plan {

/// The largest item of a modality that one request may hold.
struct LargestItem {
  int64_t tokens = 0;
  int64_t patches = 0;         // rows of the tower
  int64_t pixel_elements = 0;  // of its input
};

LargestItem largest_image(const VisionShape& vision, const EngineArgs& args);
LargestItem largest_video(const VisionShape& vision, const EngineArgs& args, int64_t max_model_len);

struct EncoderMemory {
  int64_t kept = 0;  // outputs and inputs that stay while the language model runs
  int64_t peak = 0;  // of the tower itself
  std::string modality;
  int64_t items = 0;
  int64_t tokens_per_item = 0;
  int64_t budget_tokens = 0;
  std::string formula;
  std::string peak_formula;
};

/// The batch of items that vLLM profiles.
EncoderMemory encoder_memory(const EngineArgs& args, const EngineLimits& limits,
                             const ModelShape& shape, int64_t element, int64_t max_model_len);

/// Every modality that the towers take is limited to 0, so that they are not built.
bool towers_unused(const ConfigView& config, const EngineArgs& args);

}  // namespace plimsoll::plan
