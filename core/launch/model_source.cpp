#include "launch/model_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "checkpoint/gguf/model.h"
#include "launch/images.h"
#include "quantization/online.h"
#include "shard/shard_files.h"

namespace plimsoll::launch {
namespace {

/// Whether two parts differ in nothing but the tensor that they are rows of.
bool are_alike(const model::Part& a, const model::Part& b) {
  return a.rows() == b.rows() && a.stored_shape == b.stored_shape && a.transposed == b.transposed &&
         a.every_rank == b.every_rank && a.packing == b.packing;
}

/// Leaves stacks of experts the parts of their first matrix, where the others' are alike.
void keep_first_experts(model::ModelSpec& spec) {
  for (model::WeightSpec& weight : spec.weights) {
    const size_t each = weight.parts_in_matrix();
    if (weight.parts.size() == each) continue;  // one matrix
    bool alike = true;
    for (size_t i = each; i < weight.parts.size(); ++i)
      alike = alike && are_alike(weight.parts[i], weight.parts[i % each]);
    if (!alike) continue;
    weight.parts.resize(each);
    weight.parts.shrink_to_fit();
    weight.parts_of_first = true;
  }
}

}  // namespace

ModelSource::ModelSource(model::ModelSpec spec, const Json& config, ModelFolder folder,
                         Experts experts)
    : spec_(std::move(spec)), config_(config), folder_(std::move(folder)), experts_(experts) {
  const bool is_file = checkpoint::gguf::is_gguf_path(folder_.path);
  const bool elsewhere =
      folder_.weights == Weights::sharded_state || folder_.weights == Weights::none;
  if (is_file && elsewhere) {
    fail(ExitCode::usage,
         "--load-format: the GGUF file {} says how its own weights are stored; leave the flag out",
         folder_.path.string());
  }
  if (elsewhere) return;
  if (folder_.weights == Weights::if_present && !holds_weights(folder_.path)) return;
  if (!is_file && shard::looks_sharded(folder_.path)) {
    fail(ExitCode::checkpoint_unusable, "{} holds shards; give --load-format sharded_state",
         folder_.path.string());
  }
  tensors_.emplace(checkpoint::Checkpoint::open(folder_.path));
  checkpoint::resolve_stored(*tensors_, spec_);
}

bool ModelSource::has_weights() const {
  return tensors_ || folder_.weights == Weights::sharded_state;
}

void ModelSource::open_shards(quantization::Activations activations, model::ModelSpec& spec) {
  shard::resolve_tied_head(folder_.path, folder_.file_pattern, spec);
  shards_.emplace(folder_.path, config_, shard::ShardHints{.file_pattern = folder_.file_pattern},
                  activations, spec);
}

void ModelSource::open_checkpoint(const EngineArgs& args, model::ModelSpec& spec) {
  checkpoint::Keeping keeping = launch::keeping(args);
  keeping.online.clear();
  checkpoint::resolve_kept(config_, tensors_ ? &*tensors_ : nullptr, keeping, spec);
  if (tensors_ && spec.quantization.empty())  // else spec() refuses the method
    checkpoint::WeightReader(*tensors_, spec, wanted_towers(args)).require_zero_biases();
}

const model::ModelSpec& ModelSource::stored(const EngineArgs& args) {
  const quantization::Activations activations = launch::keeping(args).activations;
  if (stored_ && stored_->activations == activations) return stored_->spec;
  model::ModelSpec spec = spec_;
  if (folder_.weights == Weights::sharded_state) {
    open_shards(activations, spec);
  } else {
    open_checkpoint(args, spec);
  }
  if (experts_ == Experts::first_alone) keep_first_experts(spec);
  return stored_.emplace(Stored{activations, std::move(spec)}).spec;
}

model::ModelSpec ModelSource::spec(const EngineArgs& args) {
  check_supported(args, spec_);
  divide_experts(args, spec_);
  model::ModelSpec spec = stored(args);
  spec.whole_experts = spec_.whole_experts;
  if (!spec.quantization.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "the checkpoint is quantized ({}), which run does not have; use the unquantized model "
         "(plan --engine vllm plans it for vLLM)",
         spec.quantization);
  }
  if (spec_.quantization.empty() && quantization::is_online(args.quantization) &&
      std::ranges::any_of(spec.weights, &model::WeightSpec::is_packed)) {
    fail(ExitCode::usage,
         "--quantization {}: the file's weights are quantized already, and are run as they are; "
         "leave the flag out",
         args.quantization);
  }
  quantization::assign_online(args.quantization, stored_->activations, spec);
  return spec;
}

const checkpoint::WeightSource* ModelSource::reader(const model::ModelSpec& spec,
                                                    const EngineArgs& args) {
  if (shards_) return &*shards_;
  if (!tensors_) return nullptr;
  return &reader_.emplace(*tensors_, spec, wanted_towers(args));
}

bool holds_weights(const std::filesystem::path& folder) {
  if (checkpoint::gguf::is_gguf_path(folder)) return true;
  // Shards are read by --load-format sharded_state alone.
  if (shard::looks_sharded(folder)) return false;
  if (std::filesystem::exists(folder / "model.safetensors.index.json")) return true;
  const std::filesystem::directory_iterator files(folder);
  return std::ranges::any_of(
      files, [](const auto& file) { return file.path().extension() == ".safetensors"; });
}

}  // namespace plimsoll::launch
