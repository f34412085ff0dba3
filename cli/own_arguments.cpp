#include "cli/own_arguments.h"

#include "checkpoint/find_model.h"
#include "cli/host_limits.h"
#include "model/pipeline.h"
#include "vllm/launch/machine.h"

namespace plimsoll::cli {

vllm::EngineArgs with_variables(const launch::LaunchRequest& flags,
                                const Environment& environment) {
  vllm::EngineArgs args = flags.args;
  if (environment.layer_partition) {
    args.pipeline_partition = model::parse_partition(*environment.layer_partition);
  }
  if (environment.mm_input_cache && !flags.processor_cache_gib) {
    args.processor_cache_gib = *environment.mm_input_cache;
  }
  args.allow_long_length = environment.allow_long.value_or(0) != 0;
  if (environment.estimate_graphs) args.estimate_graphs = *environment.estimate_graphs != 0;
  if (environment.flashinfer_sampler && !args.flashinfer_sampler)
    args.flashinfer_sampler = *environment.flashinfer_sampler != 0;
  if (environment.attention_backend && args.attention_backend.empty())
    args.attention_backend = vllm::stated_backend(*environment.attention_backend, args.version);
  if (environment.second_engine) args.use_v1 = *environment.second_engine != 0;
  if (environment.second_runner) args.second_runner = *environment.second_runner != 0;
  return args;
}

launch::Arguments own_arguments(const launch::LaunchRequest& flags,
                                const Environment& environment) {
  launch::Arguments arguments;
  arguments.args = with_variables(flags, environment);
  arguments.ceiling = flags.gpu_memory.value_or(0);
  arguments.deterministic = flags.deterministic;
  arguments.host_cache = host_cache_bytes(flags.host_cache, environment);
  arguments.processor_kwargs = Json(flags.processor_kwargs);
  arguments.threads = host_threads(flags.threads, environment);
  if (environment.mpi) arguments.processes = environment.mpi->count;
  return arguments;
}

std::shared_ptr<launch::DraftSource> draft_source(const vllm::EngineArgs& args,
                                                  const Environment& environment,
                                                  launch::Weights weights) {
  if (args.draft_method != launch::kDraftModel || args.draft_model.empty()) return nullptr;
  std::filesystem::path path = args.draft_model;
  const bool is_plan = weights == launch::Weights::if_present;
  if (!is_plan || !launch::is_lone_config(path)) {
    path = checkpoint::find_model(args.draft_model, environment.stores);
  }
  return std::make_shared<launch::DraftSource>(std::move(path), weights);
}

}  // namespace plimsoll::cli
