// The plan of a launch of our own engine, laid out by the engine's own constructors, rank by rank.
#pragma once

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "launch/model_source.h"
#include "plan/plan_result.h"

namespace plimsoll::plan::own {

/// The config's model, as our engine describes it. Throws Error(checkpoint_unusable, usage), naming
/// vLLM's plan where that knows the model.
model::ModelSpec read_spec(const ConfigView& config, const vllm::EngineArgs& args);

/// Plans one launch. `gpu` null: a run on this machine's processor, without a verdict. Throws
/// Error(usage, checkpoint_unusable) for what `run` would not launch.
PlanResult make_plan(launch::ModelSource& model, const launch::Arguments& arguments,
                     const hardware::Gpu* gpu);

}  // namespace plimsoll::plan::own
