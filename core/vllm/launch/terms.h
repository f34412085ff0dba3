// A launch's terms: what config, arguments and card settle before any layer is looked at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"
#include "vllm/kv/kv_plan.h"
#include "vllm/launch/quantization.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

struct Terms {
  std::string dtype;
  int64_t element = 2;  // bytes of it
  Quantization quantization;
  EngineLimits limits;
  int64_t max_model_len = 0;
  std::vector<std::string> notes;  // what was taken for granted
};

/// Throws Error(usage), in vLLM's words, for arguments that it refuses.
Terms resolve_terms(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu);

/// How the model is laid out on ranks. Throws Error(usage) for a cache's dtype that there is not.
ShapeOptions shape_options(const EngineArgs& args, const Terms& terms, const hardware::Gpu* gpu);

/// How the release makes blocks of the model's caches.
KvOptions kv_options(const EngineArgs& args, const Terms& terms, const ModelShape& shape,
                     bool fp8_cache);

}  // namespace plimsoll::vllm
