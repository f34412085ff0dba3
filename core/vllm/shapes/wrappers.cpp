// The language model within a config: its architecture, and what a multimodal wrapper knows of it.
#include <string_view>

#include "base/json.h"
#include "model/families/multimodal/languages.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {

namespace {

constexpr Keys kTextKeys = {"text_config", "llm_config", "language_config",
                            "language_model_config"};

std::string first_architecture(const ConfigView& config) {
  const std::vector<std::string> names = config.texts({"architectures"});
  return names.empty() ? std::string() : names.front();
}

}  // namespace

const Wrapper* find_wrapper(const std::string& architecture) {
  const model::Family* const row = model::find_architecture(architecture);
  return row == nullptr || row->kind != model::FamilyKind::multimodal ? nullptr : &row->wrapper;
}

std::string language_architecture(const ConfigView& config, const std::string& outer) {
  if (const Wrapper* wrapper = find_wrapper(outer)) {
    if (wrapper->language_of != nullptr) return std::string(wrapper->language_of(config));
    if (!wrapper->language.empty()) return std::string(wrapper->language);
  }
  if (is_language_model(outer)) return outer;
  const ConfigView text = text_config(config);
  std::string own = first_architecture(text);
  const std::string_view other = model::described_language(own, text);
  if (!other.empty()) return std::string(other);
  if (is_language_model(own)) return own;
  std::string by_type = model::architecture_of_type(text.text({"model_type"}, ""));
  if (!by_type.empty()) return by_type;
  return model::architecture_of_type(config.text({"model_type"}, ""));
}

bool has_unknown_tower(const ConfigView& config, const std::string& architecture) {
  const bool encoder =
      config.has_child({"vision_config", "audio_config", "encoder_config", "sound_config",
                        "vision_tower", "thinker_config", "vlm_config"});
  return encoder && !is_language_model(architecture) && !is_known_tower(architecture);
}

ConfigView text_config(const ConfigView& config) {
  if (config.has_child({"thinker_config"})) return text_config(config.child({"thinker_config"}));
  if (config.has_child(kTextKeys)) return config.child(kTextKeys);
  return config;
}

std::string architecture_name(const ConfigView& config) {
  std::string named = first_architecture(config);
  if (!named.empty()) return named;
  return model::architecture_of_type(config.text({"model_type"}, ""));
}

const model::Family* language_family(const ConfigView& config) {
  return model::find_architecture(language_architecture(config, architecture_name(config)));
}

bool reads_whole_prompts(const ConfigView& config) {
  const model::Family* const row = language_family(config);
  if (row != nullptr && row->transformer != model::Transformer::decoder) return true;
  return classifies_steps(architecture_name(config));
}

bool is_known_architecture(const ConfigView& config) {
  const std::string name = architecture_name(config);
  return is_language_model(language_architecture(config, name)) && !has_unknown_tower(config, name);
}

std::optional<bool> tied_by_wrapper(const ConfigView& config, const std::string& name, bool usual) {
  const Wrapper* wrapper = find_wrapper(name);
  if (wrapper != nullptr && wrapper->tied == Tied::never) return false;
  const bool within = &text_config(config).json() != &config.json();
  if (!within || (wrapper == nullptr && is_language_model(name))) return std::nullopt;
  if (wrapper != nullptr && wrapper->tied == Tied::by_text) return std::nullopt;
  if (wrapper != nullptr && wrapper->tied == Tied::either) {
    return usual || config.flag({"tie_word_embeddings"}, false);
  }
  usual |= wrapper != nullptr && wrapper->tied == Tied::usually;
  return config.flag({"tie_word_embeddings"}, usual);
}

namespace {

/// Has RoPE turn sections, of half the head's numbers together.
void divide_positions(nlohmann::json& text, int64_t head_size) {
  nlohmann::json& rope = text[text.contains("rope_scaling") ? "rope_scaling" : "rope_parameters"];
  if (!rope.is_object()) rope = nlohmann::json::object();
  rope["mrope_section"] = {head_size / 4, head_size / 8, head_size / 8};
}

}  // namespace

nlohmann::json wrapped_text(const ConfigView& config, const std::string& name) {
  const ConfigView text = text_config(config);
  nlohmann::json inner = nlohmann::json::object();
  for (const auto& [key, value] : text.json().items()) {
    if (key != "quantization_config") inner[key] = value;  // it may be long, and says nothing here
  }
  const Wrapper* wrapper = find_wrapper(name);
  if (wrapper != nullptr && wrapper->both_widths) {
    inner["intermediate_size"] = text.required({"intermediate_size"}) / 2;
  }
  if (wrapper != nullptr && wrapper->in_sections) {
    divide_positions(inner, text.integer({"head_dim"}, 128, {8, 1 << 20}));
  }
  constexpr const char* kTied = "tie_word_embeddings";
  const bool own = text.has(kTied);
  const auto tied = tied_by_wrapper(config, name, own && text.flag({kTied}, false));
  const bool never = wrapper != nullptr && wrapper->tied == Tied::never;
  if (tied && (*tied || own || config.has(kTied) || never)) inner[kTied] = *tied;
  return inner;
}

}  // namespace plimsoll::vllm
