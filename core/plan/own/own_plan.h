// Our own engine's launch, planned by its own constructors; per rank where there are several.
#pragma once

#include <filesystem>
#include <memory>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "plan/own/arguments.h"
#include "plan/own/planned_model.h"
#include "plan/plan_result.h"

namespace plimsoll::plan::own {

/// Plans a launch. `gpu` null: a run on this machine's processor, without a verdict. Throws
/// Error(usage, checkpoint_unusable) where `run` would not launch.
PlanResult make_plan(PlannedModel& model, const Arguments& arguments, const hardware::Gpu* gpu);

/// True when `folder` holds weights whose headers a plan looks at.
bool holds_weights(const std::filesystem::path& folder);

/// Reads the headers of the weights in `folder`, which have the last word on a tied head, the dtype
/// and quantisation. Null where it holds none: planning needs no more than the config, the weights
/// may come later. Throws Error(checkpoint_unusable) where `run` would not load them.
std::shared_ptr<const StoredWeights> look_at_weights(const ConfigView& config,
                                                     const std::filesystem::path& folder,
                                                     const EngineArgs& args);

}  // namespace plimsoll::plan::own
