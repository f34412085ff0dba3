#include "launch/resolve.h"

#include <fmt/format.h>

#include <iterator>

#include "backend/cuda/slices.h"
#include "base/error.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/speculation.h"
#include "launch/draft_source.h"
#include "launch/images.h"

namespace plimsoll::launch {
namespace {

/// Says where --deterministic on cards does not keep bits from one width of -tp to another.
void add_widths_note(const Arguments& arguments, const backend::Footprint& footprint,
                     ResolvedLaunch& launch) {
  if (!arguments.deterministic || footprint.shares_memory()) return;
  for (const shard::StageModel& stage : launch.stages) {
    const model::WeightSpec* weight = backend::cuda::find_unpinned(stage.spec);
    if (weight == nullptr) continue;
    launch.notes.push_back(fmt::format(
        "--deterministic: {} is quantized in a way that is not cut into slices, so answers at "
        "another --tensor-parallel-size may differ in their last bits; in any batch they are the "
        "same",
        weight->name));
    return;
  }
}

/// Adds the draft model, and says where it costs more than it can save.
void add_draft(const Arguments& arguments, const backend::Footprint& footprint,
               ResolvedLaunch& launch) {
  if (!arguments.draft) return;
  launch.draft = arguments.draft;
  const model::ModelSpec& draft = launch.draft->spec(launch.spec, launch.dtype);
  launch.engine.draft = {&draft, nullptr, arguments.args.draft_tokens};
  const double cost = engine::draft_cost(launch.spec, draft, launch.dtype, footprint);
  if (engine::worthwhile_length(engine::kHopedAcceptance, 1, 1, cost) > 0) return;
  launch.notes.push_back(fmt::format(
      "--speculative-config: a step of the draft model reads {:.0f} % of the bytes that "
      "one of the model reads, so it never pays and proposes nothing; take a smaller "
      "one, or leave the flag out",
      100 * cost));
}

/// Kernels of cards do not read ggml's blocks.
void refuse_blocks_on_cards(const model::ModelSpec& spec, const backend::Footprint& footprint) {
  if (footprint.name() == "cpu") return;
  for (const model::WeightSpec& weight : spec.weights)
    for (const model::Part& part : weight.parts)
      if (part.packing && part.packing->format == model::PackedFormat::ggml) {
        fail(ExitCode::usage,
             "{} of the GGUF file is {}, which is computed on the CPU alone so far: give no card "
             "(--device cpu)",
             part.tensor, part.packing->block_type().name);
      }
}

}  // namespace

std::vector<engine::StageView> ResolvedLaunch::stage_views() const {
  std::vector<engine::StageView> views;
  for (const shard::StageModel& stage : stages) views.push_back({&stage.spec, stage.first_layer});
  return views;
}

ResolvedLaunch resolve(ModelSource& model, const Arguments& arguments,
                       const backend::Footprint& footprint) {
  const EngineArgs& args = arguments.args;
  ResolvedLaunch launch;
  launch.spec = model.spec(args);
  refuse_blocks_on_cards(launch.spec, footprint);
  launch.dtype = run_dtype(launch.spec, args);
  launch.stages = shard::stage_models(launch.spec, {.tensor_parallel = args.tensor_parallel,
                                                    .pipeline_parallel = args.pipeline_parallel,
                                                    .dtype = launch.dtype,
                                                    .pipeline_partition = args.pipeline_partition});
  launch.engine = engine_options(arguments, launch.dtype, footprint);
  launch.engine.images = image_options(launch.spec, arguments, footprint);
  launch.notes = dtype_notes(launch.spec, args, footprint);
  add_widths_note(arguments, footprint, launch);
  add_draft(arguments, footprint, launch);
  return launch;
}

}  // namespace plimsoll::launch
