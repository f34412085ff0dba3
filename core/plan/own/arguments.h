// What a launch of our own engine is asked, by `plan` and by `run` alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/settle_model.h"
#include "engine/ranks/stage_layouts.h"
#include "model/model_spec.h"
#include "vllm/engine_args.h"

namespace plimsoll::plan::own {

using vllm::EngineArgs;

/// The weights beside a config, looked at once for all plans of it.
struct StoredWeights {
  checkpoint::Checkpoint tensors;
  model::ModelSpec spec;  // of the config, as the tensors have it (checkpoint::settle_stored)
};

/// Arguments under vLLM's names, and what our engine has beside them.
struct Arguments {
  EngineArgs args;
  int64_t ceiling = 0;                     // of the process on a card, bytes; 0: the utilisation's
  std::optional<uint64_t> host_cache;      // bytes of the KV cache without a card; absent: default
  bool deterministic = false;              // on cards
  int threads = 1;                         // of a run on this machine's processor
  int64_t processes = 1;                   // that a launcher of MPI spreads its ranks over
  std::filesystem::path folder;            // the model's; empty: a config alone
  const Json* lone_config = nullptr;       // a config alone; null: a folder's
  Json processor_kwargs = Json::object();  // --mm-processor-kwargs
  std::shared_ptr<const StoredWeights> weights;  // null: none to look at
  bool has_prompts = false;                      // whose pictures are judged
  bool on_host = false;  // this machine's processor is meant: the verdict is about its memory
};

/// The dtype of weights and activations: --dtype, else the model's (float32 for one of float64).
DType run_dtype(const model::ModelSpec& spec, const EngineArgs& args);

/// Says where weights or cache are not of the dtype that is asked for.
std::vector<std::string> dtype_notes(const model::ModelSpec& spec, const EngineArgs& args,
                                     const backend::Footprint& footprint);

/// How weights are kept.
checkpoint::Keeping keeping(const EngineArgs& args);

/// Share of a card where none is given.
inline constexpr double kUtilization = 0.90;

/// Threads of the processor that each copy of the model computes with.
int threads_of_copy(int threads, int64_t copies);

/// What the process may have of a card of `total` bytes: the ceiling, but no more than other
/// processes leave (--reserved-memory).
int64_t budget_bytes(const Arguments& arguments, int64_t total);

/// Throws Error(usage) for values that no launch of our engine has, whatever the model.
void check_values(const EngineArgs& args);

/// Throws Error(usage) for what our engine does not have.
void check_supported(const EngineArgs& args, const model::ModelSpec& spec);

/// Has ranks divide experts as --enable-expert-parallel says. Throws Error(usage) where there are
/// none.
void divide_experts(const EngineArgs& args, model::ModelSpec& spec);

/// What the engine is asked, with a cache of any size. Throws Error(usage) for what it does not
/// have.
engine::EngineOptions engine_options(const Arguments& arguments, DType dtype,
                                     const backend::Footprint& footprint);

/// The most sequences of the whole context that the cache of each stage of `spec` holds at once; at
/// least 1. Throws Error(does_not_fit) where not even one fits.
int64_t most_sequences(const model::ModelSpec& spec, const std::vector<engine::StageView>& stages,
                       engine::EngineOptions options, const backend::Footprint& footprint);

}  // namespace plimsoll::plan::own
