// Attention backends, their pages, and the dtype of the KV cache.
#pragma once

#include <string>

#include "engines/sglang/launch.h"

namespace plimsoll::engines::sglang {

/// The backend that SGLang takes by itself for both phases; `topk`: as given; page: as given.
struct BackendChoice {
  std::string prefill, decode;
};
BackendChoice default_backends(const Launch& launch, const CommandLine& line);

/// Backends as given, or the defaults. Throws Refusal for those that a model or card lacks.
void settle_backends(Launch& launch, const CommandLine& line);

/// Tokens of a page, for backends that are settled.
int64_t settled_page(const Launch& launch, const CommandLine& line, const ModelConfig& config);

/// Fills in kv_cache_dtype and kv_dtype. Throws Refusal.
void settle_kv_dtype(Launch& launch, const CommandLine& line, const ModelConfig& config);

}  // namespace plimsoll::engines::sglang
