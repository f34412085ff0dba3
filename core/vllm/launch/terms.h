// Terms of a launch: values that follow from config, arguments and card before any layer is
// counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"
#include "vllm/kv/kv_plan.h"
#include "vllm/launch/quantization.h"
#include "vllm/launch/runner.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

struct Terms {
  std::string dtype;
  int64_t element = 2;  // its size in bytes
  Quantization quantization;
  Runner runner;
  EngineLimits limits;
  int64_t max_model_len = 0;
  std::vector<std::string> notes;  // on what was assumed
};

/// Resolves the terms. Throws Error(usage), in vLLM's words, for arguments that it refuses.
Terms resolve_terms(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu);

/// Layout of the model on ranks. Throws Error(usage) for an unknown dtype of the cache.
ShapeOptions shape_options(const EngineArgs& args, const Terms& terms, const hardware::Gpu* gpu);

/// How the release makes blocks of the model's caches.
KvOptions kv_options(const EngineArgs& args, const Terms& terms, const ModelShape& shape,
                     const ShapeOptions& layout);

}  // namespace plimsoll::vllm
