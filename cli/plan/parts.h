// What `plan` does beside printing: choosing the engine, reading prompts, checking a run's report.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/config_view.h"
#include "cli/environment.h"
#include "cli/plan/options.h"
#include "hardware/gpu_catalogue.h"
#include "plan/plan_result.h"

namespace plimsoll::cli {

/// The plan of the chosen engine, with what the solver found and the advice. Throws Error.
plan::PlanResult make_plan(const ConfigView& config, const PlanOptions& options,
                           const Environment& environment, const std::optional<hardware::Gpu>& gpu);

/// Adds to result.arguments the flags of the launch that were given and heeded and that the plan
/// does not resolve.
void add_given(plan::PlanResult& result, const PlanOptions& options);

/// A word for a shell: in quotes where it would not stay one.
std::string shell_quoted(const std::string& text);

/// Figures of the prompts of `-i`, read, rendered and tokenized as `run` would; `folder` is the
/// model's. Throws Error(input_unusable, checkpoint_unusable, usage).
void add_prompts(plan::PlanResult& result, const PlanOptions& options, const ConfigView& config,
                 const std::filesystem::path& folder);

/// Prints plan against measured of a run's report; does_not_fit when the measured peak exceeded it.
int check_report(const std::string& file);

}  // namespace plimsoll::cli
