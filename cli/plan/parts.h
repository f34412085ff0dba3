// What `plan` does beside printing: choosing the engine, reading prompts, checking a run's report.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/plan/options.h"
#include "plan/config_view.h"
#include "plan/gpu_catalogue.h"
#include "plan/plan_result.h"

namespace plimsoll::cli {

/// The plan of the chosen engine, with what the solver found and the advice. Throws Error.
plan::PlanResult make_plan(const plan::ConfigView& config, const PlanOptions& options,
                           const std::optional<plan::Gpu>& gpu);

/// Our own engine's launch.
plan::PlanResult plan_own_engine(const plan::ConfigView& config, const PlanOptions& options,
                                 const plan::Gpu* gpu);

/// The dtype that `run` would take for "auto" when the config states none: that of the weights'
/// headers in `folder`; "auto" where there are none, or the config states one.
std::string own_dtype(const plan::ConfigView& config, const std::filesystem::path& folder);

/// Whether `run` would find a head in `folder`'s weights that differs from the table that the
/// config ties it to; false where weights are missing.
bool has_own_head(const plan::ConfigView& config, const std::filesystem::path& folder);

/// Figures of the prompts of `-i`, read, rendered and tokenized as `run` would; `folder` is the
/// model's. Throws Error(input_unusable, checkpoint_unusable, usage).
void add_prompts(plan::PlanResult& result, const PlanOptions& options,
                 const plan::ConfigView& config, const std::filesystem::path& folder);

/// Prints plan against measured of a run's report; does_not_fit when the measured peak exceeded it.
int check_report(const std::string& file);

}  // namespace plimsoll::cli
