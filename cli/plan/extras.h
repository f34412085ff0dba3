// Inputs of plan beside its flags: environment and headers.
#pragma once

#include <filesystem>

#include "base/config_view.h"
#include "base/json.h"
#include "cli/environment.h"
#include "cli/plan/options.h"

namespace plimsoll::cli {

/// `options` with VLLM_MM_INPUT_CACHE_GIB (releases before 0.10 read it), and with the tensors of
/// the checkpoint beside `config_file` where the architecture is not known.
PlanOptions completed(PlanOptions options, const Environment& environment, const ConfigView& config,
                      const std::filesystem::path& config_file);

/// Reads the headers of the weights beside a config for vLLM, and returns whether a family of ours
/// has them as plain matrices. Throws Error(checkpoint_unusable) where they are unreadable, or
/// plain and not those of the config.
bool has_plain_weights(const Json& config, const std::filesystem::path& config_file,
                       const vllm::EngineArgs& args);

}  // namespace plimsoll::cli
