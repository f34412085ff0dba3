// A model as launches of our own engine have it: a config, and the headers of its weights.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/resolve_model.h"
#include "launch/arguments.h"
#include "model/model_spec.h"
#include "shard/shard_reader.h"

namespace plimsoll::launch {

/// Where the weights of a launch come from.
enum class Weights {
  checkpoint,     // safetensors files, which have to be there
  if_present,     // safetensors files; without them a plan goes by the config alone
  sharded_state,  // files of vLLM's save_sharded_state, or of `shard`
  none,           // random values, or a config alone
};

/// A model's folder, and which of its files are the weights.
struct ModelFolder {
  std::filesystem::path path;  // unused where `weights` is none
  Weights weights = Weights::none;
  std::string file_pattern = {};  // of sharded_state files; empty: vLLM's own
};

/// Which tensors a spec names of experts that are alike.
enum class Experts {
  all,         // to read them
  first_alone  // to plan: a large mixture has a hundred thousand tensors
};

/// One model for all launches of a command: a plan's advice tries dozens of them. The config is
/// settled by the headers of the weights once.
class ModelSource {
 public:
  /// `spec` is `config`'s (model::make_model_spec); `config` must outlive the source.
  ModelSource(model::ModelSpec spec, const Json& config, ModelFolder folder, Experts experts);

  /// The model as a launch with these arguments has it. Throws Error(usage) for arguments that our
  /// engine refuses, Error(checkpoint_unusable) for weights that it would not load.
  model::ModelSpec spec(const EngineArgs& args);

  /// Whether there are weights beside the config.
  [[nodiscard]] bool has_weights() const;

  /// Reads the weights of `spec`, which `spec()` gave; null where there are none. Valid as long as
  /// the source and `spec`. Throws Error(checkpoint_unusable).
  const checkpoint::WeightSource* reader(const model::ModelSpec& spec, const EngineArgs& args);

 private:
  /// The model as it is stored: nothing is quantized while it is loaded.
  struct Stored {
    quantization::Activations activations;
    model::ModelSpec spec;
  };
  const model::ModelSpec& stored(const EngineArgs& args);
  void open_shards(quantization::Activations activations, model::ModelSpec& spec);
  void open_checkpoint(const EngineArgs& args, model::ModelSpec& spec);

  model::ModelSpec spec_;
  const Json& config_;
  ModelFolder folder_;
  Experts experts_;
  std::optional<checkpoint::Checkpoint> tensors_;
  std::optional<shard::ShardReader> shards_;
  std::optional<checkpoint::WeightReader> reader_;
  std::optional<Stored> stored_;
};

/// Whether `folder` holds weights as safetensors, other than shards.
bool holds_weights(const std::filesystem::path& folder);

}  // namespace plimsoll::launch
