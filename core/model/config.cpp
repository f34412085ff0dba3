#include "model/config.h"

#include <strings.h>

#include <algorithm>
#include <iterator>

#include "base/config_json.h"
#include "base/error.h"
#include "model/class_defaults.h"
#include "model/config_reader.h"
#include "model/families/family.h"
#include "model/input_norm.h"
#include "model/slices.h"
#include "model/tied_head.h"

namespace plimsoll::model {
namespace {

namespace fs = std::filesystem;

template <typename Wanted>
std::string architectures(const Wanted& wanted) {
  std::string names;
  for (const Family& family : families()) {
    if (!family.is_served() || !wanted(family.architecture)) continue;
    names += (names.empty() ? "" : ", ") + std::string(family.architecture);
  }
  return names;
}

bool begin_alike(std::string_view a, std::string_view b) {
  constexpr size_t kAlike = 4;
  return a.size() >= kAlike && b.size() >= kAlike && strncasecmp(a.data(), b.data(), kAlike) == 0;
}

/// The architectures whose names begin as `name` does; without any, how many are served.
std::string known_architectures(std::string_view name) {
  const std::string kin =
      architectures([&](std::string_view known) { return begin_alike(name, known); });
  if (!kin.empty()) return "its kin that are: " + kin;
  return fmt::format("none of the {} that are served has a name like it",
                     supported_architectures().size());
}

/// A family that `run` serves, text or multimodal.
const Family* find_served_type(std::string_view type) {
  const auto family = std::ranges::find_if(families(), [&](const Family& row) {
    return row.is_served() && !type.empty() && row.model_type == type;
  });
  return family != families().end() ? &*family : nullptr;
}

// The whole model's architecture, not that of a part such as text_config.
const Family& find_family(const Json& root) {
  const ConfigReader config = ConfigReader::plain(root);
  const auto names = config.texts("architectures");
  if (names && !names->empty()) {
    const Family* const family = find_architecture(names->front());
    if (family != nullptr && family->is_served()) return *family;
    fail(ExitCode::checkpoint_unusable, "architecture {} is not supported; {}",
         names->front().substr(0, 80), known_architectures(names->front()));
  }
  const Family* const family = find_served_type(config.text({"model_type"}, ""));
  if (family != nullptr) return *family;
  config.refuse("architectures", "a list of one name, such as [\"LlamaForCausalLM\"]");
}

// Keys of other architectures' attention and layers that a family would silently compute without:
// MLA, norms, biases by distance, chunks; Solar's sums across layers, Mistral's growth of queries,
// blocks that differ.
void refuse_foreign_features(const Family& family, const ConfigReader& config) {
  for (const char* key : {"kv_lora_rank", "q_lora_rank", "qk_layernorm", "use_qk_norm", "alibi",
                          "attention_chunk_size", "no_rope_layers", "bskcn_1", "bskcn_2",
                          "llama_4_scaling", "block_configs"}) {
    const Json* value = config.find({key});
    if (family.features.find(fmt::format(" {} ", key)) != std::string_view::npos) continue;
    if (value == nullptr || *value == false || *value == 0 || value->empty()) continue;
    config.refuse(key, "no such key: attention or layers of this kind are not supported");
  }
}

// The part of the config that states the dtype, as in vLLM: the whole model, else its text, else
// its vision tower.
ConfigReader find_dtype(const ConfigReader& config) {
  const auto states = [](const ConfigReader& part) {
    return part.find({"dtype", "torch_dtype"}) != nullptr;
  };
  if (states(config.whole())) return config.whole();
  if (states(config)) return config;
  return config.whole().object_or_empty("vision_config");
}

void read_dtype(const ConfigReader& whole, ModelSpec& spec) {
  const ConfigReader config = find_dtype(whole);
  const Json* value = config.find({"dtype", "torch_dtype"});
  spec.dtype_stated = value != nullptr;
  if (!spec.dtype_stated) return;
  const auto dtype = dtype_from_torch(config.text({"dtype", "torch_dtype"}, ""));
  if (dtype != DType::bf16 && dtype != DType::f16 && dtype != DType::f32 && dtype != DType::f64) {
    config.refuse(config.has("dtype") ? "dtype" : "torch_dtype",
                  "bfloat16, float16, float32 or float64");
  }
  spec.dtype = *dtype;
}

std::string read_quantization(const ConfigReader& config) {
  if (std::string name = mlx_quantization(config.whole().json()); !name.empty()) return name;
  for (const char* key : {"quantization_config", "quantization"}) {
    if (const auto quantization = config.object(key)) {
      return quantization->text({"quant_method", "quant_type"}, "of an unnamed method");
    }
  }
  return "";
}

// Sums must stay far from overflow wherever sizes are added up later.
void check_total(const ModelSpec& spec) {
  constexpr double kMostParameters = 0x1p53;
  double total = 0;
  for (const auto* table : {&spec.towers, &spec.weights}) {
    for (const WeightSpec& weight : *table) total += static_cast<double>(weight.elements());
  }
  if (total <= kMostParameters) return;
  fail(ExitCode::checkpoint_unusable,
       "config.json describes a model of {:.3g} parameters; expected at most {:.3g}", total,
       kMostParameters);
}

/// Some checkpoints keep their quantization in a file beside the config.
void add_separate_quantization(const fs::path& folder, Json& config) {
  if (!config.is_object() || config.contains("quantization_config")) return;
  for (const QuantizationFile& file : kQuantizationFiles) {
    if (!fs::is_regular_file(folder / file.name)) continue;
    Json quantization = read_config_json(folder / file.name);
    if (!quantization.is_object()) continue;
    if (!quantization.contains("quant_method")) quantization["quant_method"] = file.method;
    config["quantization_config"] = std::move(quantization);
    return;
  }
}

/// True when vLLM's class has a head beside the token table where the whole config has none.
bool never_ties(const Family& family, const Json& config) {
  if (family.tying != Tying::text_config) return family.tying == Tying::never;
  const auto text = config.find("text_config");
  if (text == config.end() || !text->is_object()) return false;
  const auto tied = text->find("tie_word_embeddings");
  return tied == text->end() || *tied != true;
}

fs::path config_file(const fs::path& folder_or_file) {
  return fs::is_directory(folder_or_file) ? folder_or_file / "config.json" : folder_or_file;
}

}  // namespace

std::string missing_config(const fs::path& folder) {
  const fs::path adapter = folder / "adapter_config.json";
  if (fs::is_directory(folder / "snapshots"))
    return fmt::format(
        "{} is a repository of the Hugging Face cache: give its id (org/name), or the folder of a "
        "revision below {}/snapshots",
        folder.string(), folder.string());
  if (!fs::is_regular_file(adapter))
    return fmt::format("{} has no config.json: not a Hugging Face model folder", folder.string());
  const Json config = read_config_json(adapter);
  const auto base = config.find("base_model_name_or_path");
  const std::string name =
      base != config.end() && base->is_string() ? base->get<std::string>() : "its base model";
  return fmt::format(
      "{} holds an adapter (LoRA) and no model: give {}, or the adapter merged into it (PEFT's "
      "merge_and_unload)",
      folder.string(), name);
}

std::string mlx_quantization(const Json& config) {
  std::string name;
  for (const char* key : {"quantization_config", "quantization"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    for (const char* method : {"quant_method", "quant_type", "quant_algo", "config_groups"}) {
      if (found->contains(method)) return "";
    }
    const auto bits = found->find("bits");
    if (bits == found->end() || !bits->is_number_integer() || !found->contains("group_size"))
      continue;
    name = fmt::format("MLX, {} bits", bits->get<int64_t>());
  }
  return name;
}

Json read_config(const fs::path& folder_or_file) {
  const fs::path file = config_file(folder_or_file);
  if (file != folder_or_file && !fs::exists(file)) {
    fail(ExitCode::checkpoint_unusable, "{}", missing_config(folder_or_file));
  }
  Json config = read_config_json(file);
  add_separate_quantization(file.parent_path(), config);
  return config;
}

ModelSpec make_model_spec(const Json& stated) {
  const Family& family = find_family(stated);
  Json config = stated;
  complete_config(config, ConfigClasses::transformers, family.model_type);
  const ConfigReader reader = ConfigReader::root(config);
  refuse_foreign_features(family, reader);
  ModelSpec spec = family.make(reader);
  spec.architecture = family.architecture;
  spec.vllm.never_ties = never_ties(family, stated);
  spec.vllm.model_type = reader.text({"model_type"}, std::string(family.model_type));
  spec.quantization = read_quantization(reader);
  read_dtype(reader, spec);
  for (const char* name : {"rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached",
                           "rotary_pos_emb.inv_freq"}) {
    spec.ignored_suffixes.emplace_back(name);
  }
  check_total(spec);
  slice_sums(spec);
  return spec;
}

std::optional<ModelSpec> describe_language_model(std::string_view architecture,
                                                 const Json& config) {
  const Family* const family = find_architecture(architecture);
  if (family == nullptr || family->kind != FamilyKind::text || family->make == nullptr)
    return std::nullopt;
  ModelSpec spec = family->make(ConfigReader::describing(config));
  spec.architecture = family->architecture;
  if (family->tying == Tying::never && spec.tied_head) untie_head(spec);
  return spec;
}

std::string architecture_of_type(std::string_view model_type) {
  const Family* const family = find_type(model_type);
  return family == nullptr ? "" : std::string(family->architecture);
}

bool is_language_model(std::string_view architecture) {
  const Family* const family = find_architecture(architecture);
  return family != nullptr && family->kind == FamilyKind::text && family->make != nullptr;
}

ModelFolder read_model_folder(const fs::path& folder) {
  ModelFolder model{.config = read_config(folder), .spec = {}};
  ModelSpec& spec = model.spec =
      naming_config(config_file(folder), [&] { return make_model_spec(model.config); });
  if (spec.input_norm.empty()) return model;
  std::vector<WeightSpec> buffers = read_input_norm(folder, spec.input_norm);
  spec.towers.insert(spec.towers.begin() + 1, std::make_move_iterator(buffers.begin()),
                     std::make_move_iterator(buffers.end()));
  return model;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Family& family : families()) {
    if (family.is_served()) names.emplace_back(family.architecture);
  }
  return names;
}

}  // namespace plimsoll::model
