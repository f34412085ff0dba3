// Which of its two engines a release of vLLM runs: to 0.7 the first, from 0.11 on the second, and
// between them the first where a launch asks for what the second has not yet.
#pragma once

#include <string>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"

namespace plimsoll::vllm {

struct EngineChoice {
  bool first = false;
  std::string note;  // in vLLM's words, why a release with both runs the first; else empty
};

/// The choice of vllm/engine/arg_utils.py: _is_v1_supported_oracle, by what the arguments here and
/// the config say. Models with states and encoder-decoders are planned with the second engine in
/// each release that has it. Throws Error(usage), in vLLM's words, where VLLM_USE_V1=1 asks for the
/// second engine and it lacks something that the launch needs.
EngineChoice choose_engine(const ConfigView& config, const EngineArgs& args,
                           const hardware::Gpu* gpu);

/// Whether the launch runs the first engine. `args` has what choose_engine chose.
bool runs_first_engine(const EngineArgs& args);

}  // namespace plimsoll::vllm
