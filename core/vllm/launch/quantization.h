// The quantization of a launch of vLLM, and the limits of its method.
#pragma once

#include <string>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "quantization/config.h"
#include "vllm/engine_args.h"

namespace plimsoll::vllm {

using quantization::Quantization;

/// The checkpoint's quantization, else the one that the arguments ask for. Throws Error.
Quantization quantization_of(const ConfigView& config, const EngineArgs& args);

/// Assumptions of the plan on quantization that the config does not state; empty: none.
std::string quantization_note(const ConfigView& config, const EngineArgs& args,
                              const Quantization& quantization);

/// Throws Error(usage) where the version's quantization method does not support the card.
void check_card(const std::string& method, const VllmVersion& version, const hardware::Gpu* gpu);

/// Throws Error(usage) where the method does not compute in the dtype.
void check_dtype(const std::string& method, const std::string& dtype, const VllmVersion& version);

}  // namespace plimsoll::vllm
