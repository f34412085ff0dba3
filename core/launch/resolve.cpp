#include "launch/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "backend/cuda/packed_layout.h"
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
        "--deterministic: {} is stored in a way that is not cut into slices, so answers at "
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

/// Refuses what a card cannot compute of a GGUF file's plain matrices: experts, factors, and types
/// other than float32 and the launch's. Notes which are slow there.
void check_plain_blocks(const DType dtype, const backend::Footprint& footprint,
                        ResolvedLaunch& launch) {
  if (footprint.name() == "cpu") return;
  const model::ModelSpec& spec = launch.spec;
  int64_t slow = 0;
  for (size_t i = 0; i < spec.weights.size(); ++i) {
    const auto id = static_cast<model::WeightId>(i);
    const model::WeightSpec& weight = spec.weights[i];
    const bool is_table = (id == spec.embedding && id != spec.head) ||
                          id == spec.position_embedding || id == spec.layer_inputs.table;
    const bool is_ggml = std::ranges::any_of(weight.parts, [](const model::Part& part) {
      return part.packing && part.packing->format == model::PackedFormat::ggml;
    });
    if (!is_ggml) continue;
    for (const model::Part& part : weight.parts) {
      const std::optional<DType> type = backend::cuda::row_type(part, dtype);
      if (!type) continue;
      const std::string_view name =
          part.packing ? part.packing->block_type().name : torch_name(*type);
      if (part.packing && part.packing->factors) {
        fail(ExitCode::usage,
             "{} of the GGUF file is {} with a scale beside it, which the CUDA backend does not "
             "apply to plain types: give no card (--device cpu)",
             part.tensor, name);
      }
      if (is_table) continue;
      if (weight.is_stack()) {
        fail(ExitCode::usage,
             "{} of the GGUF file is {}: the CUDA backend multiplies the experts of a GGUF file "
             "where they are packed alone: give no card (--device cpu)",
             part.tensor, name);
      }
      if (*type != dtype && *type != DType::f32) {
        fail(ExitCode::usage,
             "{} of the GGUF file is {}, with which the CUDA backend has no product in {}: "
             "--dtype {} or --device cpu",
             part.tensor, name, torch_name(dtype), torch_name(*type));
      }
      slow += *type == dtype ? 0 : 1;
    }
  }
  if (slow == 0) return;
  launch.notes.push_back(fmt::format(
      "F32 matrices of the GGUF file ({}): their products in {} are slow in steps of many rows",
      slow, torch_name(dtype)));
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
  launch.dtype = run_dtype(launch.spec, args);
  launch.stages = shard::stage_models(launch.spec, {.tensor_parallel = args.tensor_parallel,
                                                    .pipeline_parallel = args.pipeline_parallel,
                                                    .dtype = launch.dtype,
                                                    .pipeline_partition = args.pipeline_partition});
  launch.engine = engine_options(arguments, launch.dtype, footprint);
  launch.engine.images = image_options(launch.spec, arguments, footprint);
  launch.notes = dtype_notes(launch.spec, args, footprint);
  check_plain_blocks(footprint.activation_dtype(launch.dtype), footprint, launch);
  add_widths_note(arguments, footprint, launch);
  add_draft(arguments, footprint, launch);
  return launch;
}

}  // namespace plimsoll::launch
