// SGLang's drafts and recurrent states by hand, where its own functions answered no row.
#include <catch2/catch.hpp>
#include <string>

#include "engines/engine.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

constexpr int64_t kLlamaLayer = 2 * 8 * 128 * 2;  // K and V of a token in a layer of Llama 8B

Json published(const std::string& name, const Json& changes = Json::object()) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/configs/" +
                               name + ".json");
  config.merge_patch(changes);
  return config;
}

Json llama(const Json& changes = Json::object()) {
  return published("meta-llama__Meta-Llama-3.1-8B", changes);
}

Answer ask_sglang(const Json& config, std::vector<std::string> words, const char* card = "h200") {
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.gpu = &hardware::find_gpu(card);
  question.free = FreeMemory{138, 110};
  const Answer answer = find_engine("sglang")->ask(question);
  INFO((answer.refused ? answer.refused->words : ""));
  REQUIRE(!answer.refused);
  return answer;
}

const std::vector<std::string> kDrafting = {"--speculative-algorithm", "NEXTN",
                                            "--speculative-eagle-topk", "1"};

}  // namespace

TEST_CASE("layers of SGLang's drafts keep what the target's full layers keep") {
  const auto cell = [](const Json& config, std::vector<std::string> words) {
    return ask_sglang(config, std::move(words)).sizing["cell_bytes"].get<double>();
  };
  const Json two = {{"num_nextn_predict_layers", 2}};
  CHECK(cell(llama(two), {}) == 32 * kLlamaLayer);
  CHECK(cell(llama(two), kDrafting) == 34 * kLlamaLayer);
  CHECK(cell(llama(), kDrafting) == 32 * kLlamaLayer);
  CHECK(cell(llama(two), {"--speculative-algorithm", "NGRAM"}) == 32 * kLlamaLayer);
  // Beside 61 layers that all select tokens.
  const Json sparse = published("deepseek-ai__DeepSeek-V3.2", two);
  std::vector<std::string> eight = kDrafting;
  eight.insert(eight.end(), {"--tp", "8"});
  CHECK(cell(sparse, eight) * 61 == cell(sparse, {"--tp", "8"}) * 63);
  // Beside recurrent layers: what one of the 16 layers of 64 takes that have a cache.
  const Json hybrid = published("Qwen__Qwen3.5-27B", {{"text_config", two}});
  CHECK(cell(hybrid, {}) == 65536);
  CHECK(cell(hybrid, kDrafting) == 65536 + 2 * (65536 / 16));
  // Windows of 12 of 24 layers: K and V of 8 heads of 64.
  const Json windows = published("openai__gpt-oss-20b", two);
  CHECK(cell(windows, kDrafting) - cell(windows, {}) == 2 * (2 * 8 * 64 * 2));
}

TEST_CASE("SGLang's table of requests has room for drafts behind a context") {
  struct Row {
    std::vector<std::string> words;
    int64_t beyond;
  };
  const Row rows[] = {
      {{}, 4},
      {{"--speculative-algorithm", "EAGLE"}, 4 + 8},
      {{"--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "1",
        "--speculative-num-steps", "3", "--page-size", "16"},
       2 * 4 + 15},
      {{"--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "1",
        "--speculative-num-steps", "60", "--page-size", "2"},
       2 * 61 + 1},
  };
  for (const Row& row : rows) {
    const Answer answer = ask_sglang(llama(), row.words);
    CHECK(answer.figures.beside_bytes == (answer.figures.running + 1) * (131072 + row.beyond) * 4);
  }
}

TEST_CASE("drafts keep a state for each of their tokens beside SGLang's pool of states") {
  const Json qwen = published("Qwen__Qwen3.5-27B");
  const auto states = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"--max-mamba-cache-size", "60"};
    words.insert(words.end(), more.begin(), more.end());
    const Answer answer = ask_sglang(qwen, words);
    return answer.figures.state_bytes / answer.sizing["state_bytes_per_request"].get<int64_t>();
  };
  // 60 slots and one; five slots a request, four tokens a step.
  CHECK(states({}) == 61);
  CHECK(states({"--speculative-algorithm", "NEXTN"}) == 61 + (12 + 1) * 4);
  CHECK(states({"--speculative-algorithm", "NEXTN", "--max-running-requests", "6"}) ==
        61 + (6 + 1) * 4);
  CHECK(states({"--speculative-algorithm", "NEXTN", "--speculative-num-steps", "1"}) ==
        61 + (12 + 1) * 2);
}

TEST_CASE("SGLang's states have the sizes of each kind of recurrent layer") {
  struct Row {
    const char* name;
    Json changes;
    int64_t states, attention;  // layers
    int64_t bytes;              // of a layer's state
  };
  const Row rows[] = {
      {"LFM2: a convolution",
       {{"architectures", {"Lfm2ForCausalLM"}},
        {"num_hidden_layers", 3},
        {"layer_types", {"conv", "conv", "full_attention"}},
        {"conv_L_cache", 3}},
       2,
       1,
       4096 * 2 * 2},
      {"Falcon H1: both in every layer",
       {{"architectures", {"FalconH1ForCausalLM"}},
        {"num_hidden_layers", 3},
        {"mamba_n_heads", 24},
        {"mamba_d_head", 64},
        {"mamba_d_state", 128},
        {"mamba_d_conv", 4},
        {"mamba_n_groups", 2}},
       3,
       3,
       (24 * 64 + 2 * 2 * 128) * 3 * 2 + 24 * 64 * 128 * 4},
      {"Nemotron H: by its pattern",
       {{"architectures", {"NemotronHForCausalLM"}},
        {"num_hidden_layers", 6},
        {"hybrid_override_pattern", "M-M*ME"},
        {"mamba_num_heads", 8},
        {"mamba_head_dim", 64},
        {"ssm_state_size", 128},
        {"conv_kernel", 4},
        {"n_groups", 8},
        {"mamba_ssm_dtype", "bfloat16"}},
       3,
       1,
       (8 * 64 + 2 * 8 * 128) * 3 * 2 + 8 * 64 * 128 * 2},
      {"Kimi Linear: delta attention",
       {{"architectures", {"KimiLinearForCausalLM"}},
        {"num_hidden_layers", 4},
        {"kv_lora_rank", 512},
        {"qk_rope_head_dim", 64},
        {"qk_nope_head_dim", 128},
        {"v_head_dim", 128},
        {"linear_attn_config",
         {{"kda_layers", {1, 2, 3}},
          {"full_attn_layers", {4}},
          {"num_heads", 4},
          {"head_dim", 128},
          {"short_conv_kernel_size", 4}}}},
       3,
       1,
       3 * 4 * 128 * 3 * 2 + 4 * 128 * 128 * 4},
      {"Qwen3-Next: gated delta",
       {{"architectures", {"Qwen3NextForCausalLM"}},
        {"num_hidden_layers", 8},
        {"full_attention_interval", 4},
        {"linear_num_value_heads", 32},
        {"linear_num_key_heads", 16},
        {"linear_value_head_dim", 128},
        {"linear_key_head_dim", 64},
        {"linear_conv_kernel_dim", 4}},
       6,
       2,
       (32 * 128 + 2 * 16 * 64) * 3 * 2 + 32 * 128 * 64 * 4},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const OrderedJson sizing = ask_sglang(llama(row.changes), {}).sizing;
    CHECK(sizing["state_layers"] == row.states);
    CHECK(sizing["kv_layers"] == row.attention);
    CHECK(sizing["state_bytes_per_request"] == row.states * row.bytes);
  }
}

TEST_CASE("SGLang's attention ranks share slots and requests") {
  const std::vector<std::string> two = {"--tp", "2", "--dp-size", "2", "--enable-dp-attention"};
  const auto sizing = [&](const Json& config, std::vector<std::string> more) {
    more.insert(more.end(), two.begin(), two.end());
    return ask_sglang(config, more).sizing;
  };
  const Json qwen = published("Qwen__Qwen3.5-27B");
  CHECK(sizing(qwen, {"--max-mamba-cache-size", "60"})["state_slots"] == 30);
  CHECK(sizing(qwen, {"--disable-radix-cache", "--max-running-requests", "64"})["state_slots"] ==
        32);
  CHECK(sizing(llama(), {"--max-running-requests", "100"})["max_running_requests"] == 50);
  CHECK(sizing(llama(), {})["attn_dp_size"] == 2);
  CHECK(sizing(llama(), {})["attn_tp_size"] == 1);
}
