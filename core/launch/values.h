// Values of a launch's flags: vLLM's JSON forms, names of dtypes. All throw std::invalid_argument.
#pragma once

#include <string>

#include "vllm/engine_args.h"

namespace plimsoll::launch {

/// More than any machine has: a larger number is a slip.
inline constexpr int kMostThreads = 1024;

double parse_number(const std::string& text);
/// auto, bfloat16, float16 (half) or float32 (float), as given.
std::string read_dtype_name(const std::string& text);
/// Of --compilation-config: a level, or vLLM's JSON.
void read_compilation(const std::string& text, vllm::EngineArgs& args);
/// Of --speculative-config: method, model and num_speculative_tokens.
void read_speculation(const std::string& text, vllm::EngineArgs& args);
/// Of --hf-overrides: an object, whose keys are added to those that were given.
void read_overrides(const std::string& text, vllm::EngineArgs& args);
/// Of --limit-mm-per-prompt: "image=2,video=0", {"image": 2} or {"image": {"count": 2, "width":
/// 512}}.
void read_modality_limits(const std::string& text, vllm::EngineArgs& args);
/// Of --mm-processor-kwargs.
void read_processor(const std::string& text, vllm::EngineArgs& args);

}  // namespace plimsoll::launch
