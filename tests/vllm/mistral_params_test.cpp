// Mistral's own params.json, key by key, as vLLM 0.32 renames it.
#include "vllm/shapes/mistral_params.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/json.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

/// The smallest params.json with `more` in it, as vLLM makes a config of it.
Json adapted(const Json& more) {
  Json params = {{"dim", 64}, {"n_layers", 4}, {"norm_eps", 1e-5}, {"hidden_dim", 96}};
  params.update(more);
  adapt_mistral_params(params, "model/params.json");
  return params;
}

const Json kSmall = adapted(Json::object());

/// Keys that `more` adds to the smallest config, or changes in it.
Json added(const Json& more) {
  Json config = adapted(more);
  for (const auto& [key, value] : kSmall.items()) {
    if (config.value(key, Json()) == value) config.erase(key);
  }
  return config;
}

}  // namespace

TEST_CASE("params.json has a config's keys under other names") {
  CHECK(kSmall == Json{{"hidden_size", 64},
                       {"num_hidden_layers", 4},
                       {"rms_norm_eps", 1e-5},
                       {"intermediate_size", 96},
                       {"max_position_embeddings", 128000},
                       {"model_type", "transformer"},
                       {"architectures", {"MistralForCausalLM"}}});
  CHECK(added({{"n_kv_heads", 2},
               {"n_heads", 8},
               {"activation", "silu"},
               {"tied_embeddings", true},
               {"max_position_embeddings", 512}}) == Json{{"num_key_value_heads", 2},
                                                          {"num_attention_heads", 8},
                                                          {"hidden_act", "silu"},
                                                          {"tie_word_embeddings", true},
                                                          {"max_position_embeddings", 512}});
}

TEST_CASE("what lacks a key of Mistral's, or has one of a config, is left alone") {
  const Json whole = {{"dim", 64}, {"n_layers", 4}, {"norm_eps", 1e-5}, {"hidden_dim", 96}};
  const auto is_left = [](Json config, const char* path) {
    const Json before = config;
    adapt_mistral_params(config, path);
    return config == before;
  };
  CHECK(!is_left(whole, "params.json"));
  CHECK(is_left(whole, "config.json"));
  CHECK(is_left(Json::array({1}), "params.json"));
  for (const char* key : {"dim", "n_layers", "norm_eps", "hidden_dim"}) {
    INFO(key);
    Json without = whole;
    without.erase(key);
    CHECK(is_left(without, "params.json"));
  }
  for (const char* key : {"architectures", "model_type"}) {
    INFO(key);
    Json with = whole;
    with[key] = "x";
    CHECK(is_left(with, "params.json"));
  }
}

TEST_CASE("params.json's quantization is fp8 by its own word, else by vLLM's") {
  const auto quantization = [](const Json& stated) {
    return added({{"quantization", stated}}).value("quantization_config", Json());
  };
  const Json fp8 = {{"qformat_weight", "fp8_e4m3"}};
  CHECK(quantization({{"qformat_weight", "fp8_e4m3"}, {"qscheme_act", "NO_SCALES"}}) ==
        Json{{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}});
  CHECK(quantization({{"qformat_weight", "fp8_e4m3"}, {"qscheme_act", "TENSOR"}}) ==
        Json{{"quant_method", "fp8"}, {"activation_scheme", "static"}});
  CHECK(quantization({{"quant_method", "compressed-tensors"}, {"x", 1}}) ==
        Json{{"quant_method", "compressed-tensors"}, {"x", 1}});
  CHECK(quantization(Json::object()).is_null());
  CHECK_THROWS_AS(adapted({{"quantization", {{"qformat_weight", "int4"}}}}), Error);
  const Json seeing = adapted({{"quantization", fp8}, {"vision_encoder", {{"hidden_size", 32}}}});
  CHECK(seeing["architectures"] == Json{"PixtralForConditionalGeneration"});
  CHECK(seeing["vision_config"] == Json{{"hidden_size", 32}});
  CHECK(seeing["quantization_config"]["quant_method"] == "fp8");
  CHECK(seeing["text_config"]["hidden_size"] == 64);
}

TEST_CASE("windows of params.json are repeated over the layers") {
  const auto windows = [](const Json& list) { return added({{"sliding_window", list}}); };
  const std::string full = "full_attention", sliding = "sliding_attention";
  CHECK(windows({nullptr, 32, 32}) ==
        Json{{"sliding_window", 32}, {"layer_types", {full, sliding, sliding, full}}});
  CHECK(windows({nullptr}) ==
        Json{{"sliding_window", nullptr}, {"layer_types", {full, full, full, full}}});
  CHECK(windows(16) == Json{{"sliding_window", 16}});
}

TEST_CASE("params.json's mixtures are DeepSeek's, and latent attention alone is one expert") {
  const Json shared = {{"moe",
                        {{"num_experts", 8},
                         {"num_experts_per_tok", 2},
                         {"num_shared_experts", 1},
                         {"first_k_dense_replace", 3},
                         {"route_every_n", 1},
                         {"expert_hidden_dim", 48},
                         {"num_expert_groups", 4},
                         {"num_expert_groups_per_tok", 2}}}};
  CHECK(added(shared) == Json{{"n_routed_experts", 8},
                              {"num_experts_per_tok", 2},
                              {"n_shared_experts", 1},
                              {"first_k_dense_replace", 3},
                              {"moe_layer_freq", 1},
                              {"moe_intermediate_size", 48},
                              {"n_group", 4},
                              {"topk_group", 2},
                              {"model_type", "deepseek_v3"},
                              {"architectures", {"MistralLarge3ForCausalLM"}}});
  CHECK(added({{"qk_nope_head_dim", 16}}) == Json{{"qk_nope_head_dim", 16},
                                                  {"n_routed_experts", 1},
                                                  {"num_experts_per_tok", 1},
                                                  {"n_shared_experts", 1},
                                                  {"first_k_dense_replace", 4},
                                                  {"moe_intermediate_size", 96},
                                                  {"model_type", "deepseek_v3"},
                                                  {"architectures", {"MistralLarge3ForCausalLM"}}});
  CHECK(added({{"qk_nope_head_dim", 0}}) == Json{{"qk_nope_head_dim", 0}});
  CHECK_THROWS_AS(adapted({{"moe", {{"num_experts", 8}, {"num_shared_experts", 0}}}}), Error);
  CHECK_THROWS_AS(adapted({{"moe", {{"num_experts", 8}}}}), Error);
}

TEST_CASE("params.json's longer positions are yarn's") {
  CHECK(added({{"rope_theta", 1e6},
               {"yarn",
                {{"factor", 16},
                 {"original_max_position_embeddings", 8192},
                 {"beta", 32},
                 {"alpha", 1}}}})["rope_parameters"] ==
        Json{{"rope_type", "yarn"},
             {"mscale_all_dim", 1},
             {"rope_theta", 1e6},
             {"factor", 16},
             {"original_max_position_embeddings", 8192},
             {"beta_fast", 32},
             {"beta_slow", 1}});
  CHECK(!added({{"yarn", Json::object()}}).contains("rope_parameters"));
}

TEST_CASE("params.json's hearing models stand in Whisper's words") {
  const auto hearing = [](bool causal) {
    return adapted({{"multimodal",
                     {{"whisper_model_args",
                       {{"encoder_args",
                         {{"dim", 32},
                          {"n_layers", 2},
                          {"hidden_dim", 64},
                          {"n_heads", 4},
                          {"causal", causal},
                          {"max_source_positions", nullptr},
                          {"audio_encoding_args", {{"num_mel_bins", 80}, {"window_size", 400}}}}},
                        {"downsample_args", {{"downsample_factor", 4}}}}}}}});
  };
  CHECK(hearing(false)["architectures"] == Json{"VoxtralForConditionalGeneration"});
  CHECK(hearing(true)["architectures"] == Json{"VoxtralRealtimeGeneration"});
  CHECK(hearing(false)["text_config"]["num_hidden_layers"] == 4);
  CHECK(hearing(false)["audio_config"] == Json{{"d_model", 32},
                                               {"encoder_layers", 2},
                                               {"encoder_ffn_dim", 64},
                                               {"encoder_attention_heads", 4},
                                               {"num_mel_bins", 80},
                                               {"window_size", 400},
                                               {"downsample_factor", 4}});
}
