// What SGLang's model classes decide: tables by architecture.
#pragma once

#include <string>
#include <string_view>

#include "engines/model_config.h"
#include "engines/sglang/launch.h"

namespace plimsoll::engines::sglang {

/// The facts of a config's model class. `multimodal`: --enable-multimodal was given.
ModelFacts facts_of(const ModelConfig& config, bool multimodal);

/// False: SGLang has no class of its own, and at best serves it through transformers.
bool has_class(std::string_view architecture);

/// Qwen3.5 and its kin, text or multimodal: Qwen3_5*.
bool is_qwen35(std::string_view architecture);

/// True where the radix cache of recurrent states may keep extra buffers.
bool takes_extra_buffer(std::string_view architecture);

/// True where prefill graphs are off by default for the model itself.
bool without_prefill_graphs(const ModelFacts& facts);

/// Layers with a window and without, of a model with two pools.
struct Windows {
  int64_t window_layers = 0;
  int64_t full_layers = 0;
};
Windows windows_of(const ModelConfig& config, const ModelFacts& facts);

/// Longest request by the config: the length it states, times the factor of its rope.
int64_t derived_context(const ModelConfig& config);

}  // namespace plimsoll::engines::sglang
