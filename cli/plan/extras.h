// What plan reads beside flags: environment and headers.
#pragma once

#include <filesystem>

#include "cli/environment.h"
#include "cli/plan/options.h"
#include "plan/config_view.h"

namespace plimsoll::cli {

/// `options` with VLLM_MM_INPUT_CACHE_GIB (releases before 0.10 read it), and with the tensors of
/// the checkpoint beside `config_file` where the architecture is not known.
PlanOptions completed(PlanOptions options, const Environment& environment,
                      const plan::ConfigView& config, const std::filesystem::path& config_file);

}  // namespace plimsoll::cli
