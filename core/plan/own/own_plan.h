// Our own engine's launch, planned by its own constructors; per rank where there are several.
#pragma once

#include <filesystem>
#include <memory>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "plan/own/arguments.h"
#include "plan/plan_result.h"

namespace plimsoll::plan::own {

/// `gpu` null: a run on this machine's processor, without a verdict. Throws Error(usage,
/// checkpoint_unusable) for what `run` would not launch.
PlanResult make_plan(const ConfigView& config, const Arguments& arguments,
                     const hardware::Gpu* gpu);

/// Looks at the weights in `folder` where the config leaves something open: a tied head, the dtype,
/// what is quantised. Null where it does not, or they are missing or unreadable: planning needs no
/// more than the config, the weights may come later.
std::shared_ptr<const StoredWeights> look_at_weights(const ConfigView& config,
                                                     const std::filesystem::path& folder);

}  // namespace plimsoll::plan::own
