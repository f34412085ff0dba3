// Values of a launch's flags: vLLM's JSON forms, names of dtypes. All throw std::invalid_argument.
#pragma once

#include <string>

#include "vllm/engine_args.h"

namespace plimsoll::launch {

/// Most threads that a flag may ask for: more than any machine has, so that a larger number is a
/// slip.
inline constexpr int kMostThreads = 1024;

double parse_number(const std::string& text);
/// Reads auto, bfloat16, float16 (half) or float32 (float), returned as given.
std::string read_dtype_name(const std::string& text);
/// Reads --compilation-config: a level, or vLLM's JSON.
void read_compilation(const std::string& text, vllm::EngineArgs& args);
/// Reads --cuda-graph-sizes, vLLM's from 0.9 to 0.12: the sizes, or one number, which to 0.11.0 is
/// the largest of 1, 2, 4, 8, 16, 24 ...
void read_graph_sizes(const std::string& text, vllm::EngineArgs& args);
/// Reads --speculative-config: method, model and num_speculative_tokens.
void read_speculation(const std::string& text, vllm::EngineArgs& args);
/// Reads --hf-overrides: an object, whose keys are added to those given before.
void read_overrides(const std::string& text, vllm::EngineArgs& args);
/// Reads --engram-config: where embeddings of n-grams lie, and over what they are divided.
void read_tables(const std::string& text, vllm::EngineArgs& args);
/// Reads --pooler-config: of which tokens a vector is made; other keys change no memory.
void read_pooler(const std::string& text, vllm::EngineArgs& args);
/// Reads --limit-mm-per-prompt: "image=2,video=0", {"image": 2} or {"image": {"count": 2, "width":
/// 512}}.
void read_modality_limits(const std::string& text, vllm::EngineArgs& args);
/// Reads --mm-processor-kwargs.
void read_processor(const std::string& text, vllm::EngineArgs& args);

}  // namespace plimsoll::launch
