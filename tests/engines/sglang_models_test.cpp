// What SGLang's classes decide beside a config: tables of architectures, name by name.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "engines/sglang/graphs.h"
#include "engines/sglang/models.h"
#include "engines/sglang/states.h"

using namespace plimsoll;
using namespace plimsoll::engines;
using sglang::facts_of;

namespace {

Json config_of(const std::string& architecture, const Json& changes = Json::object()) {
  Json config = {
      {"architectures", {architecture}}, {"num_hidden_layers", 8},         {"hidden_size", 1024},
      {"num_attention_heads", 8},        {"num_key_value_heads", 8},       {"vocab_size", 1000},
      {"torch_dtype", "bfloat16"},       {"max_position_embeddings", 4096}};
  config.merge_patch(changes);
  return config;
}

ModelConfig class_of(const std::string& architecture, const Json& changes = Json::object()) {
  return {config_of(architecture, changes), "config.json"};
}

sglang::ModelFacts facts(const std::string& architecture, const Json& changes = Json::object()) {
  return facts_of(class_of(architecture, changes), false);
}

/// Attention of prefill on a card, or the words of a refusal.
std::string attention(const std::string& architecture, const char* card,
                      std::vector<std::string> words = {}) {
  const Json config = config_of(architecture);
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.gpu = &hardware::find_gpu(card);
  const Answer answer = find_engine("sglang")->ask(question);
  return answer.refused ? answer.refused->words
                        : answer.resolved["attention_backends"][0].get<std::string>();
}

}  // namespace

TEST_CASE("attention of each family of SGLang's models follows the card") {
  struct Row {
    const char *architecture, *hopper, *blackwell, *others;
  };
  const Row rows[] = {
      {"GptOssForCausalLM", "fa3", "trtllm_mha", "triton"},
      {"Llama4ForConditionalGeneration", "fa3", "trtllm_mha", "triton"},
      {"Gemma4ForCausalLM", "triton", "trtllm_mha", "triton"},
      {"MiMoV2FlashForCausalLM", "fa3", "fa4", "triton"},
      {"NemotronHForCausalLM", "fa3", "trtllm_mha", "flashinfer"},
      {"Olmo2ForCausalLM", "fa3", "trtllm_mha", "fa3"},
      {"Olmo3ForCausalLM", "fa3", "trtllm_mha", "fa3"},
      {"Exaone4ForCausalLM", "fa3", "trtllm_mha", "fa3"},
      {"Qwen3NextForCausalLM", "fa3", "triton", "flashinfer"},
      {"Qwen3_5ForCausalLM", "fa3", "triton", "flashinfer"},
      {"DeepseekV3ForCausalLM", "fa3", "trtllm_mla", "triton"},
      {"KimiK25ForConditionalGeneration", "fa3", "trtllm_mla", "triton"},
      {"LlamaForCausalLM", "fa3", "trtllm_mha", "flashinfer"},
  };
  for (const Row& row : rows) {
    INFO(row.architecture);
    CHECK(attention(row.architecture, "h100") == row.hopper);
    CHECK(attention(row.architecture, "b200") == row.blackwell);
    CHECK(attention(row.architecture, "a100-80gb") == row.others);
  }
  // Blackwell's hybrids keep pages of 64 where states are not kept by request.
  for (const char* architecture : {"Qwen3NextForCausalLM", "Qwen3_5ForCausalLM"}) {
    INFO(architecture);
    const auto on = [&](std::vector<std::string> words, const char* card = "b200") {
      return attention(architecture, card, std::move(words));
    };
    CHECK(on({"--disable-radix-cache"}) == "trtllm_mha");
    CHECK(on({"--disable-radix-cache"}, "h100") == "fa3");
    CHECK(on({"--mamba-radix-cache-strategy", "extra_buffer"}) == "trtllm_mha");
    CHECK(on({"--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "1"}) ==
          "trtllm_mha");
    CHECK(on({"--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "2"}) == "triton");
    CHECK(on({"--speculative-eagle-topk", "1"}) == "triton");
  }
  CHECK(attention("LlamaForCausalLM", "b200", {"--disable-radix-cache"}) == "trtllm_mha");
  // Drafts of a model with sinks are Triton's.
  CHECK(attention("GptOssForCausalLM", "h100", {"--speculative-eagle-topk", "2"}) == "triton");
}

TEST_CASE("the window of a model of SGLang is what its class states") {
  for (const char* name :
       {"Gemma2", "Gemma3", "Gemma4", "GptOss", "Exaone4", "Olmo2", "Olmo3", "MuseGlimmer"}) {
    INFO(name);
    CHECK(facts(std::string(name) + "ForCausalLM", {{"sliding_window", 100}}).window == 99);
  }
  for (const char* name : {"MiMoV2Flash", "Laguna", "Step3p5", "DeepseekV4", "Mellum"}) {
    INFO(name);
    CHECK(facts(std::string(name) + "ForCausalLM", {{"sliding_window", 100}}).window == 100);
  }
  CHECK(!facts("LlamaForCausalLM", {{"sliding_window", 100}}).window);
  CHECK(!facts("Gemma2ForCausalLM", {{"sliding_window", 0}}).window);
  CHECK(facts("Gemma2ForCausalLM", {{"sliding_window", 1}}).window == 0);
  const char* const kLlama4 = "Llama4ForConditionalGeneration";
  CHECK(facts(kLlama4, {{"attention_chunk_size", 64}, {"sliding_window", 100}}).window == 64);
  CHECK(!facts(kLlama4, {{"attention_chunk_size", 0}}).window);
}

TEST_CASE("kinds of SGLang's models are told by their names and their configs") {
  const Json latent = {{"kv_lora_rank", 512}};
  for (const char* name : {"DeepseekV2", "DeepseekV3", "Glm4MoeLite", "GlmMoeDsa", "KimiK25",
                           "KimiVL", "KimiLinear", "KimiK3", "LongcatFlash", "MiniCPM3",
                           "MistralLarge3", "AXK1", "SarvamMLA", "BailingMoeV2_5"}) {
    INFO(name);
    CHECK(facts(std::string(name) + "ForCausalLM", latent).latent);
    CHECK(!facts(std::string(name) + "ForCausalLM").latent);
  }
  CHECK(!facts("LlamaForCausalLM", latent).latent);
  CHECK(facts("DeepseekV32ForCausalLM").sparse);
  CHECK(facts("GlmMoeDsaForCausalLM").sparse);
  const Json topk = {{"kv_lora_rank", 512}, {"index_topk", 8}};
  Json indexed = topk;
  indexed["index_head_dim"] = 64;
  CHECK(facts("DeepseekV3ForCausalLM", indexed).sparse);
  CHECK(!facts("DeepseekV3ForCausalLM", topk).sparse);
  CHECK(!facts("LlamaForCausalLM", indexed).sparse);
  for (const char* name :
       {"Qwen3Next", "Qwen3_5", "NemotronH", "KimiLinear", "KimiK3", "FalconH1", "GraniteMoeHybrid",
        "Bamba", "Lfm2", "JetNemotron", "BailingMoeLinear"}) {
    INFO(name);
    CHECK(facts(std::string(name) + "ForCausalLM").hybrid);
  }
  CHECK(!facts("LlamaForCausalLM").hybrid);
  for (const char* name : {"Qwen3Next", "Qwen3_5", "NemotronH", "KimiLinear", "KimiK3", "FalconH1",
                           "GraniteMoeHybrid", "BailingMoe", "Inkling"})
    CHECK(sglang::takes_extra_buffer(std::string(name) + "ForCausalLM"));
  for (const char* name : {"Bamba", "Lfm2", "JetNemotron"})
    CHECK(!sglang::takes_extra_buffer(std::string(name) + "ForCausalLM"));
  CHECK(facts("GptOssForCausalLM").two_pools);
  CHECK(facts("LlamaForCausalLM", {{"is_hybrid_swa", true}}).two_pools);
  CHECK(!facts("LlamaForCausalLM").two_pools);
  CHECK(facts("LagunaForCausalLM", {{"sliding_window", 100}}).two_pools);
  CHECK(!facts("LagunaForCausalLM").two_pools);
  CHECK(facts("GptOssForCausalLM").sinks);
  CHECK(facts("MiMoV2FlashForCausalLM").sinks);
  CHECK(!facts("Gemma2ForCausalLM").sinks);
  CHECK(facts("DeepseekV4ForCausalLM").deepseek_v4);
  CHECK(!facts("DeepseekV3ForCausalLM").deepseek_v4);
  CHECK(!sglang::has_class("BloomForCausalLM"));
  CHECK(!sglang::has_class("Qwen4ExpForCausalLM"));  // with images alone
  CHECK(sglang::has_class("Qwen4ExpForConditionalGeneration"));
  CHECK(sglang::has_class("LlamaForCausalLM"));
}

TEST_CASE("images of SGLang's models are told by a part of the config or by name") {
  for (const char* part : {"vision_config", "audio_config"}) {
    INFO(part);
    CHECK(facts("LlamaForCausalLM", {{part, {{"hidden_size", 8}}}}).multimodal);
  }
  CHECK(facts("MiniCPMV").multimodal);
  CHECK(!facts("LlamaForCausalLM").multimodal);
  CHECK(facts("DeepseekOCR2ForCausalLM").architecture == "DeepseekOCRForCausalLM");
  CHECK(facts("DeepseekOCR2ForCausalLM").multimodal);
  const Json images = {{"vision_config", {{"hidden_size", 8}}}};
  for (const char* name : {"Gemma3ForConditionalGeneration", "Llama4ForConditionalGeneration",
                           "Step3VLForConditionalGeneration", "InklingForConditionalGeneration"}) {
    INFO(name);
    CHECK(!facts(name, images).multimodal);
    CHECK(facts_of(class_of(name, images), true).multimodal);
  }
  const auto without_graphs = [&](const char* name, const Json& changes = Json::object()) {
    return sglang::without_prefill_graphs(facts(name, changes));
  };
  CHECK(!without_graphs("LlamaForCausalLM"));
  CHECK(without_graphs("LlamaForCausalLM", images));
  CHECK(!without_graphs("Qwen3_5ForConditionalGeneration", images));
  CHECK(without_graphs("DeepseekV4ForCausalLM"));
  CHECK(without_graphs("KimiLinearForCausalLM"));
  CHECK(without_graphs("KimiK3ForConditionalGeneration"));
}

TEST_CASE("layers with windows of SGLang's models are counted as the class has them") {
  const auto windows = [](const char* name, const Json& changes) {
    const ModelConfig config = class_of(name, changes);
    const sglang::Windows found = sglang::windows_of(config, facts_of(config, false));
    return std::pair(found.window_layers, found.full_layers);
  };
  const auto is = [](int64_t window, int64_t full) { return std::pair(window, full); };
  CHECK(windows("Llama4ForConditionalGeneration", {{"num_hidden_layers", 50}}) == is(38, 12));
  CHECK(windows("MiMoV2FlashForCausalLM", {{"hybrid_layer_pattern", {0, 1, 1, 0, 1, 1, 1, 0}}}) ==
        is(5, 3));
  CHECK(windows("GptOssForCausalLM",
                {{"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}}) ==
        is(2, 6));
  CHECK(windows("MiMoV2FlashForCausalLM",
                {{"num_hidden_layers", 2}, {"hybrid_layer_pattern", {1, 1, 1}}}) == is(2, 0));
}

TEST_CASE("the context that SGLang derives is stated, or lengthened by a rope's factor") {
  const auto context = [](const Json& changes, const char* name = "LlamaForCausalLM") {
    return sglang::derived_context(class_of(name, changes));
  };
  const auto rope = [](const Json& settings) { return Json{{"rope_scaling", settings}}; };
  CHECK(context(Json::object()) == 4096);
  CHECK(context({{"max_position_embeddings", nullptr}}) == 2048);
  CHECK(context({{"max_position_embeddings", nullptr}, {"n_positions", 99}}) == 99);
  CHECK(context({{"seq_length", 77}}) == 77);
  CHECK(context({{"seq_length", 77}, {"max_sequence_length", 66}}) == 66);
  CHECK(context(rope({{"type", "linear"}, {"factor", 2.5}})) == 10240);
  CHECK(context(rope({{"type", "linear"}, {"factor", 2.5}}), "Gemma3ForCausalLM") == 4096);
  CHECK(context(rope({{"rope_type", "llama3"}, {"factor", 8.0}})) == 4096);
  CHECK(context(rope({{"rope_type", "yarn"},
                      {"factor", 4.0},
                      {"original_max_position_embeddings", 1024}})) == 4096);
  CHECK(context(rope({{"type", "linear"}})) == 4096);
  CHECK(context(rope({{"type", "linear"}, {"factor", 1 / 8192.0}})) == 4096);
  CHECK(context(rope({{"type", "linear"}, {"factor", 1 / 4096.0}})) == 1);
}

TEST_CASE("sizes of SGLang's graphs are close where batches are small") {
  using Sizes = std::vector<int64_t>;
  CHECK(sglang::decode_sizes(24, false, true) == Sizes{1, 2, 4, 8, 12, 16, 24});
  CHECK(sglang::decode_sizes(27, false, true) == Sizes{1, 2, 4, 8, 12, 16, 24, 27});
  CHECK(sglang::decode_sizes(3, false, true) == Sizes{1, 2, 3});
  CHECK(sglang::decode_sizes(3, false, false) == Sizes{1, 2, 3});
  CHECK(sglang::decode_sizes(0, false, true).empty());
  CHECK(sglang::decode_sizes(544, false, true).size() == 2 + 3 + 31 + 15 + 2);
  CHECK(sglang::decode_sizes(12, true, true) == Sizes{1, 2, 3, 4, 5, 6, 7, 8, 10, 12});
  CHECK(sglang::prefill_sizes(48) == Sizes{4, 8, 12, 16, 20, 24, 28, 32, 48});
  CHECK(sglang::prefill_sizes(47).back() == 32);
  CHECK(sglang::prefill_sizes(3).empty());
  CHECK(sglang::prefill_sizes(4608).size() == 8 + 14 + 8 + 8 + 12 + 1);
}

TEST_CASE("a rank of SGLang keeps its share of a state, and of groups one at least") {
  const auto bytes = [](int64_t tp, int64_t groups) {
    sglang::Launch launch;
    launch.attention_tp = tp;
    const ModelConfig config =
        class_of("NemotronHForCausalLM", {{"hybrid_override_pattern", "MM*-"},
                                          {"mamba_num_heads", 8},
                                          {"mamba_head_dim", 64},
                                          {"ssm_state_size", 128},
                                          {"conv_kernel", 4},
                                          {"n_groups", groups}});
    return sglang::states_of(launch, config).bytes_per_request;
  };
  const auto state = [](int64_t tp, int64_t groups) {  // of two layers
    return 2 * ((8 * 64 + 2 * groups * 128) / tp * 3 * 2 + 8 / tp * 64 * 128 * 4);
  };
  CHECK(bytes(1, 2) == state(1, 2));
  CHECK(bytes(2, 2) == state(2, 2));
  CHECK(bytes(4, 2) == state(4, 4));
  CHECK(bytes(4, 8) == state(4, 8));
  const auto slots = [](const char* strategy, bool radix) {
    sglang::Launch launch;
    launch.radix = radix;
    launch.state_strategy = strategy;
    return sglang::slots_per_request(launch);
  };
  CHECK(slots("extra_buffer", true) == 5);
  CHECK(slots("extra_buffer_lazy", true) == 4);
  CHECK(slots("no_buffer", true) == 3);
  CHECK(slots("extra_buffer", false) == 1);
  const auto layers = [](const char* name, const Json& changes) {
    sglang::Launch launch;
    Json states = {{"mamba_num_heads", 8}, {"mamba_head_dim", 64}, {"ssm_state_size", 128}};
    states.merge_patch(changes);
    const sglang::States found = sglang::states_of(launch, class_of(name, states));
    return std::pair(found.layers, found.attention_layers);
  };
  CHECK(layers("JetNemotronForCausalLM", {{"layers_block_type", {"mamba", "attention", "moe"}}}) ==
        std::pair<int64_t, int64_t>(1, 1));
  CHECK(layers("GraniteMoeHybridForCausalLM",
               {{"layer_types", {"mamba", "attention", "full_attention"}}}) ==
        std::pair<int64_t, int64_t>(6, 2));
  CHECK(layers("BambaForCausalLM", Json::object()) == std::pair<int64_t, int64_t>(6, 2));
  CHECK(layers("BambaForCausalLM", {{"full_attention_interval", 3}}) ==
        std::pair<int64_t, int64_t>(6, 2));
  CHECK(layers("BambaForCausalLM", {{"full_attention_interval", 8}}) ==
        std::pair<int64_t, int64_t>(7, 1));
}
