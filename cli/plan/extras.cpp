#include "cli/plan/extras.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/config_json.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/find_model.h"
#include "checkpoint/resolve_model.h"
#include "cli/backend_variable.h"
#include "cli/own_arguments.h"
#include "launch/images.h"
#include "launch/model_source.h"
#include "model/class_defaults.h"
#include "model/config.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/runner.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

/// Sums of the headers; nothing where the folder holds no readable safetensors.
std::optional<vllm::CheckpointTensors> tensors_of(const fs::path& folder) {
  bool any = false;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    any |= entry.path().extension() == ".safetensors";
  if (!any) return std::nullopt;
  const auto checkpoint = checkpoint::Checkpoint::open(folder);
  Amount elements = 0;
  Amount others = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto bytes = static_cast<int64_t>(tensor.bytes);
    switch (tensor.dtype) {
      case DType::f16:
      case DType::bf16:
      case DType::f32:
      case DType::f64:
        elements += bytes / static_cast<int64_t>(dtype_size(tensor.dtype));
        break;
      default:
        others += bytes;
    }
  }
  return vllm::CheckpointTensors{elements.value(), others.value()};
}

/// Reads the sizes in the processors' files beside a model's config; changes nothing where there
/// are none.
void read_processors(const fs::path& folder, vllm::EngineArgs& args) {
  const std::pair<const char*, const char*> files[] = {
      {"preprocessor_config.json", ""}, {"video_preprocessor_config.json", "videos_kwargs."}};
  for (const auto& [name, prefix] : files) {
    std::error_code ignored;
    if (!fs::is_regular_file(folder / name, ignored)) continue;
    const Json settings = read_config_json(folder / name);
    vllm::read_processor_settings(ConfigView(settings, (folder / name).string()), prefix,
                                  args.processor_file);
  }
}

/// Reads how vectors are made by sentence-transformers' files beside a model's config
/// (vllm/transformers_utils/config.py: get_pooling_config); changes nothing where there are none.
void read_sentences(const fs::path& folder, vllm::PoolingArgs& args) {
  const fs::path file = folder / "modules.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return;
  const Json modules = read_config_json(file);
  const auto pools = [](const Json& module) {
    const std::string type = module.is_object() ? module.value("type", Json()).dump() : "";
    return type == "\"sentence_transformers.models.Pooling\"" ||
           type == "\"sentence_transformers.sentence_transformer.modules.pooling.Pooling\"";
  };
  const auto module = std::ranges::find_if(modules, pools);
  if (module == modules.end()) return;
  args.sentences = true;
  const Json path = module->value("path", Json());
  if (!args.type.empty() || !path.is_string()) return;
  const fs::path within = fs::path(path.get<std::string>()).lexically_normal();
  if (within.is_absolute() || within.string().starts_with("..")) return;
  const fs::path settings = folder / within / "config.json";
  if (fs::is_regular_file(settings, ignored))
    args.type = vllm::stated_pooling(read_config_json(settings));
}

/// The config of the draft model, where it is on this machine; plans without it say so.
void read_draft(const Environment& environment, vllm::EngineArgs& args) {
  if (args.draft_model.empty() || args.draft_model == "ngram") return;
  fs::path file = args.draft_model;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    try {
      file = checkpoint::find_model(args.draft_model, environment.stores) / "config.json";
    } catch (const Error&) {
      return;
    }
  }
  if (!fs::is_regular_file(file, ignored)) return;
  auto config = std::make_shared<Json>(read_config_json(file));
  model::complete_config(*config, model::ConfigClasses::vllm);
  args.draft_config = std::move(config);
}

/// Mistral's own format is read by names of its own.
bool is_in_mistral_format(const fs::path& config_file) {
  const fs::directory_iterator files(config_file.parent_path());
  return config_file.filename() == "params.json" ||
         std::ranges::any_of(files, [](const auto& file) {
           return file.path().filename().string().starts_with("consolidated");
         });
}

}  // namespace

bool has_plain_weights(const Json& config, const fs::path& config_file,
                       const vllm::EngineArgs& args) {
  const fs::path folder = config_file.parent_path();
  if (is_in_mistral_format(config_file) || !launch::holds_weights(folder)) return false;
  auto tensors = checkpoint::Checkpoint::open(folder);
  model::ModelSpec spec;
  try {
    spec = model::make_model_spec(config);
    checkpoint::resolve_stored(tensors, spec);
    checkpoint::resolve_kept(config, &tensors, {}, spec);
  } catch (const Error&) {
    return false;  // vLLM's alone
  }
  const bool plain = spec.quantization.empty() &&
                     std::ranges::none_of(spec.weights, &model::WeightSpec::is_packed);
  if (plain) checkpoint::check_present(tensors, spec, launch::wanted_towers(args));
  return plain;
}

PlanOptions completed(PlanOptions options, const Environment& environment, const ConfigView& config,
                      const fs::path& config_file) {
  Environment heard = environment;
  const bool flag_alone = options.launch.args.version >= vllm::VllmVersion{0, 10, 0};
  if (options.engine == "vllm" && flag_alone) heard.mm_input_cache.reset();
  options.launch.args = with_variables(options.launch, heard);
  if (options.engine == "vllm" && config_file.filename() == "config.json") {
    read_processors(config_file.parent_path(), options.launch.args);
    read_sentences(config_file.parent_path(), options.launch.args.pooling);
  }
  if (options.engine == "vllm") {
    read_draft(environment, options.launch.args);
    options.left_out.insert(options.left_out.end(), environment.unknown.begin(),
                            environment.unknown.end());
    std::erase(options.left_out, kBackendVariable);
    const std::optional<std::string>& backend = environment.attention_backend;
    if (backend && vllm::stated_backend(*backend, options.launch.args.version).empty())
      options.left_out.push_back(fmt::format("{} (vLLM reads it up to 0.14)", kBackendVariable));
  }
  if (options.engine == "vllm" && !vllm::is_known_architecture(config)) {
    options.launch.args.tensors = tensors_of(config_file.parent_path());
  }
  return options;
}

}  // namespace plimsoll::cli
