// The largest image, video and clip of sound that a model's processor makes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "vllm/engine_args.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// One item of a modality, as the tower and the language model see it.
struct LargestItem {
  int64_t tokens = 0;
  int64_t rows = 0;      // of the tower
  int64_t elements = 0;  // of the tower's input
};

/// How many items of a modality a request may hold: --limit-mm-per-prompt.
int64_t modality_limit(const EngineArgs& args, const std::string& modality);

/// The largest item that the engine counts on for its budgets.
LargestItem largest_image(const VisionShape& vision, const EngineArgs& args);
LargestItem largest_video(const VisionShape& vision, const EngineArgs& args, int64_t max_model_len);
LargestItem largest_sound(const SoundShape& sound, int64_t max_model_len);

/// The item that the engine profiles with: sizes of --limit-mm-per-prompt make it smaller, never
/// larger.
LargestItem profiled_image(const VisionShape& vision, const EngineArgs& args);
LargestItem profiled_video(const VisionShape& vision, const EngineArgs& args,
                           int64_t max_model_len);
LargestItem profiled_sound(const SoundShape& sound, const EngineArgs& args, int64_t max_model_len);

}  // namespace plimsoll::vllm
