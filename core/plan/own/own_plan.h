// Our own engine's launch, planned by its own constructors; per rank where there are several.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "plan/own/arguments.h"
#include "plan/plan_result.h"

namespace plimsoll::plan::own {

/// `gpu` null: a run on this machine's processor, without a verdict. Throws Error(usage,
/// checkpoint_unusable) for what `run` would not launch.
PlanResult make_plan(const ConfigView& config, const Arguments& arguments,
                     const hardware::Gpu* gpu);

/// The dtype that `run` would take for "auto" when the config states none: that of the weights'
/// headers in `folder`; "auto" where there are none, or the config states one.
std::string weights_dtype(const ConfigView& config, const std::filesystem::path& folder);

/// The weights in `folder`; null where they are missing or unreadable.
std::shared_ptr<const checkpoint::Checkpoint> open_weights(const std::filesystem::path& folder);

/// Whether `run` would find a head in `folder`'s weights that differs from the table that the
/// config ties it to; false where weights are missing.
bool has_own_head(const ConfigView& config, const std::filesystem::path& folder);

}  // namespace plimsoll::plan::own
