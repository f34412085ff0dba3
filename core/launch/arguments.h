// What our own engine is asked for a launch, by `plan` and by `run` alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/json.h"
#include "checkpoint/resolve_model.h"
#include "engine/ranks/stage_layouts.h"
#include "model/model_spec.h"
#include "vllm/engine_args.h"

namespace plimsoll::launch {

using vllm::EngineArgs;
class DraftSource;

/// Arguments under vLLM's names, and what our engine has beside them.
struct Arguments {
  EngineArgs args;
  int64_t ceiling = 0;                     // of the process on a card, bytes; 0: by the utilization
  std::optional<uint64_t> host_cache;      // bytes of the KV cache without a card; absent: default
  bool deterministic = false;              // on cards
  int threads = 1;                         // of a run on this machine's processor
  int64_t processes = 1;                   // among which an MPI launcher divides its ranks
  std::filesystem::path folder;            // the model's; empty: a config alone
  const Json* lone_config = nullptr;       // a config alone; null: a folder's
  std::shared_ptr<DraftSource> draft;      // null: --speculative-config asks for no draft model
  Json processor_kwargs = Json::object();  // --mm-processor-kwargs
  bool has_prompts = false;                // whose images are judged
  bool on_host = false;  // this machine's processor is meant: the verdict is about its memory
};

/// The dtype of weights and activations: --dtype, else the model's (float32 for one of float64).
DType run_dtype(const model::ModelSpec& spec, const EngineArgs& args);

/// Notes where weights or cache do not have the dtype that is asked for.
std::vector<std::string> dtype_notes(const model::ModelSpec& spec, const EngineArgs& args,
                                     const backend::Footprint& footprint);

/// The method of --speculative-config that another model proposes by.
inline constexpr std::string_view kDraftModel = "draft_model";

/// How weights are kept.
checkpoint::Keeping keeping(const EngineArgs& args);

/// Share of a card where none is given.
inline constexpr double kUtilization = 0.90;

/// Threads of the processor that each replica of the model computes with.
int threads_of_replica(int threads, int64_t replicas);

/// Bytes of a card of `total` bytes that the process may use: the ceiling, but no more than other
/// processes leave (--reserved-memory).
int64_t budget_bytes(const Arguments& arguments, int64_t total);

/// Throws Error(usage) for values that no launch of our engine can have, whatever the model.
void check_values(const EngineArgs& args);

/// Throws Error(usage) for features of vLLM that our engine lacks.
void check_supported(const EngineArgs& args, const model::ModelSpec& spec);

/// Divides experts over ranks if --enable-expert-parallel asks for it. Throws Error(usage) where
/// there are no experts.
void divide_experts(const EngineArgs& args, model::ModelSpec& spec);

/// What the engine is asked, without the memory budget of cards. Throws Error(usage) for what it
/// does not have.
engine::EngineOptions engine_options(const Arguments& arguments, DType dtype,
                                     const backend::Footprint& footprint);

}  // namespace plimsoll::launch
