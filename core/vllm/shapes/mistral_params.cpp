// Mistral's own params.json under the names of a config.json, as vLLM reads it
// (vllm/transformers_utils/configs/mistral.py, 0.32).
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "vllm/shapes/mistral_params.h"

namespace plimsoll::vllm {
namespace {

using NamePair = std::pair<const char*, const char*>;  // Mistral's, and that of a config.json

template <size_t N>
void rename(Json& from, Json& into, const std::array<NamePair, N>& names) {
  for (const auto& [old_name, name] : names) {
    const auto at = from.find(old_name);
    if (at == from.end()) continue;
    Json value = *at;
    from.erase(old_name);
    into[name] = std::move(value);
  }
}

Json taken(Json& config, const char* key) {
  const auto at = config.find(key);
  if (at == config.end()) return {};
  Json value = *at;
  config.erase(key);
  return value;
}

void rename_layers(Json& config) {
  rename(config, config,
         std::to_array<NamePair>({{"dim", "hidden_size"},
                                  {"norm_eps", "rms_norm_eps"},
                                  {"n_kv_heads", "num_key_value_heads"},
                                  {"n_layers", "num_hidden_layers"},
                                  {"n_heads", "num_attention_heads"},
                                  {"hidden_dim", "intermediate_size"},
                                  {"activation", "hidden_act"},
                                  {"tied_embeddings", "tie_word_embeddings"}}));
  constexpr int64_t kPositions = 128'000;
  if (!config.contains("max_position_embeddings")) config["max_position_embeddings"] = kPositions;
  config["model_type"] = "transformer";
  config["architectures"] = {"MistralForCausalLM"};
}

/// A list of windows, null for none, repeated over the layers.
void spread_windows(Json& config) {
  const Json windows = config.value("sliding_window", Json());
  if (!windows.is_array() || windows.empty()) return;
  config["sliding_window"] = nullptr;
  Json types = Json::array();
  const Json& count = config["num_hidden_layers"];
  constexpr int64_t kMost = 1 << 16;
  const int64_t layers = count.is_number_integer() ? std::min(count.get<int64_t>(), kMost) : 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const Json& window = windows[static_cast<size_t>(layer) % windows.size()];
    types.push_back(window.is_null() ? "full_attention" : "sliding_attention");
    if (!window.is_null()) config["sliding_window"] = window;
  }
  config["layer_types"] = std::move(types);
}

void name_quantization(Json& config, const std::string& path) {
  const Json stated = taken(config, "quantization");
  if (!stated.is_object() || stated.empty()) return;
  if (stated.value("qformat_weight", Json()) == "fp8_e4m3") {
    const bool dynamic = stated.value("qscheme_act", Json()) == "NO_SCALES";
    config["quantization_config"] = {{"quant_method", "fp8"},
                                     {"activation_scheme", dynamic ? "dynamic" : "static"}};
    return;
  }
  if (!stated.contains("quant_method"))
    fail(ExitCode::checkpoint_unusable, "{}: \"quantization\" has no format that vLLM knows", path);
  config["quantization_config"] = stated;
}

/// Mistral Large 3: DeepSeek's layers. Dense models with latent attention have one expert's place.
void name_experts(Json& config, const std::string& path) {
  Json experts = taken(config, "moe");
  const bool latent = config.contains("qk_nope_head_dim") && config["qk_nope_head_dim"] != 0;
  if (!experts.is_object() && !latent) return;
  if (!experts.is_object()) {
    experts = {{"num_experts", 1},
               {"first_k_dense_replace", config["num_hidden_layers"]},
               {"num_shared_experts", 1},
               {"expert_hidden_dim", config["intermediate_size"]},
               {"num_experts_per_tok", 1}};
  }
  if (!experts.contains("num_shared_experts") || experts["num_shared_experts"] == 0) {
    fail(ExitCode::checkpoint_unusable,
         "{}: a mixture without shared experts, of which vLLM's class does not find the experts",
         path);
  }
  rename(experts, config,
         std::to_array<NamePair>({{"route_every_n", "moe_layer_freq"},
                                  {"first_k_dense_replace", "first_k_dense_replace"},
                                  {"num_experts_per_tok", "num_experts_per_tok"},
                                  {"num_experts", "n_routed_experts"},
                                  {"expert_hidden_dim", "moe_intermediate_size"},
                                  {"num_shared_experts", "n_shared_experts"},
                                  {"num_expert_groups", "n_group"},
                                  {"num_expert_groups_per_tok", "topk_group"}}));
  config["model_type"] = "deepseek_v3";
  config["architectures"] = {"MistralLarge3ForCausalLM"};
}

void name_positions(Json& config) {
  Json yarn = taken(config, "yarn");
  if (!yarn.is_object() || yarn.empty()) return;
  Json rope = {{"rope_type", "yarn"}, {"mscale_all_dim", 1}};
  if (config.contains("rope_theta")) rope["rope_theta"] = config["rope_theta"];
  rename(yarn, rope,
         std::to_array<NamePair>(
             {{"factor", "factor"},
              {"original_max_position_embeddings", "original_max_position_embeddings"},
              {"beta", "beta_fast"},
              {"alpha", "beta_slow"}}));
  config["rope_parameters"] = std::move(rope);
}

/// Puts the model within a wrapper with a tower for images or sound.
void wrap(Json& config, const char* architecture, const char* key, Json tower) {
  Json outer = {{"architectures", {architecture}}, {key, std::move(tower)}};
  if (config.contains("quantization_config"))
    outer["quantization_config"] = config["quantization_config"];
  outer["text_config"] = std::move(config);
  config = std::move(outer);
}

void name_hearing(Json& config, const Json& whisper) {
  Json encoder = whisper.value("encoder_args", Json::object());
  const Json spectrum = encoder.value("audio_encoding_args", Json::object());
  const Json pooled = whisper.value("downsample_args", Json::object());
  const bool causal = encoder.value("causal", Json()) == true;
  Json tower;
  rename(encoder, tower,
         std::to_array<NamePair>({{"dim", "d_model"},
                                  {"n_layers", "encoder_layers"},
                                  {"hidden_dim", "encoder_ffn_dim"},
                                  {"n_heads", "encoder_attention_heads"},
                                  {"max_source_positions", "max_source_positions"}}));
  if (tower.value("max_source_positions", Json()).is_null()) tower.erase("max_source_positions");
  for (const char* key : {"num_mel_bins", "window_size"}) {
    if (spectrum.contains(key)) tower[key] = spectrum[key];
  }
  if (pooled.contains("downsample_factor"))
    tower["downsample_factor"] = pooled["downsample_factor"];
  wrap(config, causal ? "VoxtralRealtimeGeneration" : "VoxtralForConditionalGeneration",
       "audio_config", std::move(tower));
}

}  // namespace

void adapt_mistral_params(Json& config, const std::string& path) {
  if (std::filesystem::path(path).filename() == "config.json" || !config.is_object()) return;
  const auto states = [&](const char* key) { return config.contains(key); };
  if (states("architectures") || states("model_type") || !states("dim") || !states("n_layers") ||
      !states("norm_eps") || !states("hidden_dim"))
    return;
  rename_layers(config);
  spread_windows(config);
  name_quantization(config, path);
  name_experts(config, path);
  name_positions(config);
  const Json senses = taken(config, "multimodal");
  const Json sight = taken(config, "vision_encoder");
  if (sight.is_object()) {
    wrap(config, "PixtralForConditionalGeneration", "vision_config", sight);
  } else if (senses.is_object() && senses.value("whisper_model_args", Json()).is_object()) {
    name_hearing(config, senses["whisper_model_args"]);
  }
}

}  // namespace plimsoll::vllm
