// Which of its two engines a release of vLLM runs: to 0.7 the first (V0), from 0.11 on the second
// (V1), and between them the first where a launch asks for what the second has not yet. And which
// of the second engine's two model runners.
#pragma once

#include <string>
#include <string_view>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

struct EngineChoice {
  bool first = false;
  std::string note;  // for the report: why it is not the engine that one would expect; else empty
};

/// The choice of vllm/engine/arg_utils.py: _is_v1_supported_oracle, by what the arguments here and
/// the config say. Throws Error(usage) where VLLM_USE_V1=1 asks for the second engine and it lacks
/// something that the launch needs, and where the first engine drafts no more (0.10).
EngineChoice choose_engine(const ConfigView& config, const EngineArgs& args,
                           const hardware::Gpu* gpu);

/// Whether a flag that moves no memory by itself may choose the engine ("--num-scheduler-steps"):
/// it belongs into EngineArgs::beside.
bool may_choose_engine(std::string_view flag);

/// Whether the launch runs the first engine. `args` has what choose_engine chose.
bool runs_first_engine(const EngineArgs& args);

/// Whether the second engine's second model runner executes the model, which has no float32 copy of
/// the logits.
bool uses_second_runner(const EngineArgs& args, const ModelShape& shape);

}  // namespace plimsoll::vllm
