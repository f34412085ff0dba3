// Turns flags into an engine that is ready.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "batch/fields/request_fields.h"
#include "batch/images/image_loader.h"
#include "batch/order/step_limits.h"
#include "checkpoint/counted_source.h"
#include "cli/environment.h"
#include "cli/run/device.h"
#include "cli/run/options.h"
#include "cli/run/prompt_setup.h"
#include "engine/engine.h"
#include "engine/ranks/rank_server.h"
#include "launch/arguments.h"
#include "launch/resolve.h"
#include "model/config.h"

namespace plimsoll::cli {

/// Parts of a launch, in the order in which they are built; they are destroyed in reverse.
struct Launch {
  launch::ResolvedLaunch resolved;
  DeviceChoice device;
  DeviceSetup setup;
  PromptSetup prompts;
  batch::ImageRules images;
  std::string limits;  // why limits of a step that flags leave open are what they are; else empty
  std::unique_ptr<backend::Backend> backend;              // of the first rank of this process
  std::vector<std::unique_ptr<backend::Backend>> others;  // of those after it
  /// Weights of each rank, by number; null for ranks in other processes, empty with random weights.
  std::vector<std::unique_ptr<checkpoint::CountedSource>> sources;
  std::unique_ptr<engine::Engine> engine;      // null in other processes than 0
  std::unique_ptr<engine::RankServer> server;  // null in process 0

  /// Ranks of each stage.
  [[nodiscard]] int64_t tensor_ranks() const { return resolved.engine.tensor_ranks; }
  /// Ranks of all stages of a replica.
  [[nodiscard]] int64_t ranks_of_replica() const {
    return std::ssize(resolved.stages) * tensor_ranks();
  }
  /// Backends of the ranks that this process has.
  [[nodiscard]] RankBackends backends() const;
};

/// Chooses the cards, if any, of a process at this place, and instruction set and threads. Throws
/// Error(usage).
DeviceChoice choose_device(const RunOptions& options, const Environment& environment,
                           const CardPlace& place);

/// What the flags say of the weights in a model's folder; where they say nothing these are `usual`.
launch::ModelFolder model_folder(const RunOptions& options, const std::filesystem::path& path,
                                 launch::Weights usual);

/// The weights of a run's draft model.
launch::Weights draft_weights(const RunOptions& options);

/// What a launch in the making asks of the run's input; a process that has no input has null.
struct InputQuestions {
  /// Called when all but backends and engine are there.
  std::function<void(const Launch&)> before_weights;
  /// Asked for the lengths of the lines, where limits of a step hang on them.
  std::function<batch::InputLengths(const Launch&, int64_t context)> lengths;
};

/// Loads the model. Each of several processes loads its own ranks. Throws
/// Error(checkpoint_unusable, does_not_fit).
std::unique_ptr<Launch> launch(const RunOptions& options, const Environment& environment,
                               DeviceChoice device, const InputQuestions& input,
                               engine::Processes* processes = nullptr);

/// Defaults of request fields for lines without them: vLLM's defaults, the model's
/// generation_config, the flags. Throws Error(usage) for a flag out of range,
/// Error(checkpoint_unusable) for the model's.
batch::RequestFields default_fields(const RunOptions& options,
                                    const model::GenerationConfig& generation);

/// Rules for lines with images, for `run` and for `plan -i`. Throws Error(usage).
batch::ImageRules image_rules(const RunOptions& options, const model::ModelSpec& spec,
                              const launch::Arguments& arguments,
                              const backend::Footprint& footprint);

/// The limit of answers' tokens: --max-tokens, or the model's own limit, which vLLM applies too.
std::optional<int64_t> max_tokens_cap(const RunOptions& options,
                                      const model::GenerationConfig& generation);

}  // namespace plimsoll::cli
