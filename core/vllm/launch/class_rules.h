// What a launch of vLLM decides by the name of the model's class alone.
#pragma once

#include <string_view>

#include "base/config_view.h"
#include "model/vllm/types.h"
#include "model/vllm/version.h"

namespace plimsoll::vllm {

struct ClassRules {
  std::string_view name;  // what the class's name begins with
  /// Releases that compute a prompt in one step, since the states of its parts were not kept.
  model::Releases whole_prompts{{1, 0, 0}};
  /// What --kv-cache-dtype auto becomes on Blackwell cards of data centres, and since when.
  std::string_view blackwell_cache = {};
  model::VllmVersion blackwell_cache_since{0, 0, 0};
  /// Release from which --kv-cache-dtype auto becomes fp8; vLLM refuses `auto` before it.
  model::VllmVersion settles_cache{0, 0, 0};
  /// The config's key of layers with embeddings of n-grams (vllm/config/engram.py).
  const char* ngram_layers = nullptr;
  const char* pooled_index = nullptr;  // the config's key of an index over pooled keys
};

/// The row of a config's class; one without any of these for others.
const ClassRules& class_rules(const ConfigView& config);

/// True for a model whose cache vLLM to 0.10 takes for one of latents (vllm/config.py:
/// is_deepseek_mla).
bool caches_latents(const ConfigView& config);

}  // namespace plimsoll::vllm
