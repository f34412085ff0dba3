// LMDeploy beside the rows that its own functions answered: bounds, refusals, flags and blocks with
// sums by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "engines/engine.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

constexpr int64_t kLogits = 128256 * 2;       // of a token, in 16 bits
constexpr int64_t kBlock = int64_t{8} << 20;  // 64 tokens of Llama 3.1 8B

struct Asked {
  Json fields = Json::object();
  Json changes = Json::object();
  const char* card = "h100";
  std::vector<std::string> words = {};
  int64_t free = int64_t{40} << 30;  // bytes
  const char* name = "meta-llama__Meta-Llama-3.1-8B";
};

Answer ask_lmdeploy(const Asked& asked) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/configs/" +
                               asked.name + ".json");
  config.merge_patch(asked.changes);
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = asked.words;
  question.fields = asked.fields;
  question.gpu = &hardware::find_gpu(asked.card);
  question.free = FreeMemory{78, static_cast<double>(asked.free) / 0x1p30};
  return find_engine("lmdeploy")->ask(question);
}

std::string lmdeploy_says(const Asked& asked) {
  const Answer answer = ask_lmdeploy(asked);
  return answer.refused ? answer.refused->stage + ": " + answer.refused->words : "";
}

}  // namespace

TEST_CASE("LMDeploy halves a step's tokens until sixteen blocks fit, where three did at first") {
  const auto ask = [](int64_t batch, int64_t prefill, int64_t blocks, int64_t more) {
    const int64_t steps = (prefill + 2 * batch) * kLogits;
    return Asked{.fields = {{"max_batch_size", batch},
                            {"max_prefill_token_num", prefill},
                            {"cache_max_entry_count", 0.5}},
                 .free = steps + 2 * blocks * kBlock + more};
  };
  const Answer enough = ask_lmdeploy(ask(8, 8192, 16, 0));
  CHECK(enough.sizing["num_gpu_blocks"] == 16);
  CHECK(enough.says.empty());
  CHECK(enough.figures.step_tokens == 8192);
  CHECK(enough.figures.runtime_bytes == (8192 + 16) * kLogits);
  const Answer halved = ask_lmdeploy(ask(8, 8192, 16, -2));
  CHECK(halved.sizing["num_gpu_blocks"] == (4096 * kLogits + 32 * kBlock - 2) / 2 / kBlock);
  CHECK(halved.says ==
        std::vector<std::string>{"No enough memory. Update max_prefill_token_num=4096"});
  CHECK(halved.figures.step_tokens == 4096);
  CHECK(halved.figures.runtime_bytes == (4096 + 16) * kLogits);
  CHECK(lmdeploy_says(ask(8, 8192, 3, 0)) == "");
  CHECK(lmdeploy_says(ask(8, 8192, 3, -2)) ==
        "memory: RuntimeError: No enough gpu memory for kv cache.");
  CHECK(lmdeploy_says(ask(1, 1, 16, 0)) == "");
  CHECK(lmdeploy_says(ask(1, 1, 16, -2)) ==
        "memory: RuntimeError: No enough gpu memory for runtime.");
}

TEST_CASE("LMDeploy's states are taken before its blocks") {
  Asked asked{.fields = {{"max_batch_size", 4}, {"prefix_cache_state_budget", 3}},
              .name = "Qwen__Qwen3.5-27B"};
  const Answer answer = ask_lmdeploy(asked);
  CHECK(answer.sizing["state_slots"] == 4 + 2 + 3);
  const int64_t states = answer.sizing["state_bytes"];
  asked.free = states;
  CHECK(lmdeploy_says(asked) ==
        "memory: AssertionError: No enough gpu memory for state cache. Please reduce "
        "max_batch_size.");
  asked.free = states + 1;
  CHECK(lmdeploy_says(asked) == "memory: RuntimeError: No enough gpu memory for kv cache.");
}

TEST_CASE("LMDeploy's longest session ends two blocks before the cache, but for windows") {
  const auto longest = [](Json fields, Json changes = Json::object()) {
    fields["num_gpu_blocks"] = 1000;
    return ask_lmdeploy({.fields = fields, .changes = changes});
  };
  const Answer plain = longest(Json::object());
  CHECK(plain.sizing["max_session_len"] == 998 * 64);
  CHECK(plain.figures.context == 998 * 64);
  CHECK(plain.figures.kv_bytes == 1000 * kBlock);
  CHECK(longest({{"session_len", 998 * 64 + 1}}).sizing["max_session_len"] == 998 * 64);
  CHECK(longest({{"session_len", 998 * 64 - 1}}).sizing["max_session_len"] == 998 * 64 - 1);
  const Json window = {{"sliding_window", 100}};
  CHECK(longest(Json::object(), window).sizing["max_session_len"].is_null());
  CHECK(longest(Json::object(), window).figures.context == 131072);
  CHECK(longest({{"session_len", 99999}}, window).sizing["max_session_len"] == 99999);
  CHECK(longest(Json::object(), window).sizing["window_size"] == 100);
  const Json unused = {{"sliding_window", 100}, {"use_sliding_window", false}};
  CHECK(longest(Json::object(), unused).sizing["window_size"] == -1);
  CHECK(longest(Json::object(), {{"sliding_window", 0}}).sizing["max_session_len"] == 998 * 64);
  // No number of blocks is what is there.
  CHECK(ask_lmdeploy({.fields = {{"num_gpu_blocks", 0}}}).sizing ==
        ask_lmdeploy({.fields = Json::object()}).sizing);
}

TEST_CASE("LMDeploy refuses fields outside their bounds in its words") {
  struct Row {
    Json fields, changes;
    const char* says;
  };
  const Json none = Json::object();
  const auto quantized = [](const char* method) {
    return Json{{"quantization_config", {{"quant_method", method}}}};
  };
  const Row rows[] = {
      {{{"max_batch_size", 0}}, none, "AssertionError: invalid max_batch_size"},
      {{{"max_batch_size", 1}}, none, ""},
      {{{"cache_max_entry_count", 0}}, none, "AssertionError: invalid cache_max_entry_count"},
      {{{"cache_max_entry_count", 1}}, none, "AssertionError: invalid cache_max_entry_count"},
      {{{"cache_max_entry_count", 0.99}}, none, ""},
      {{{"max_prefill_token_num", 0}}, none, "AssertionError: invalid max_prefill_token_num"},
      {{{"max_prefill_token_num", 1}}, none, ""},
      {{{"quant_policy", 5}}, none, "AssertionError: invalid quant_policy"},
      {{{"quant_policy", 17}}, none, ""},
      {{{"kernel_block_size", 15}}, none, "AssertionError: invalid kernel_block_size"},
      {{{"block_size", 60}, {"kernel_block_size", 15}},
       none,
       "AssertionError: invalid kernel_block_size"},
      {{{"kernel_block_size", 48}}, none, "AssertionError: invalid kernel_block_size"},
      {{{"kernel_block_size", 16}}, none, ""},
      {{{"tp", 3}}, none, "AssertionError: "},
      {{{"tp", 16}}, none, ""},
      {{{"tp", 64}}, none, "AssertionError: "},
      {{{"tp", 8}},
       {{"num_attention_heads", 48}, {"num_key_value_heads", 12}, {"head_dim", 128}},
       "AssertionError: "},
      {none,
       {{"architectures", {"OPTForCausalLM"}}},
       "NotImplementedError: OPTForCausalLM is not in the engine's module map"},
      {none,
       {{"architectures", {"Qwen4ExpForCausalLM"}}},
       "NotImplementedError: Qwen4ExpForCausalLM is not in the engine's module map"},
      {none, quantized("gptq"), "TypeError: Unsupported quant method: gptq"},
      {none, quantized("awq"), ""},
      {none, quantized("compressed-tensors"), ""},
  };
  for (const Row& row : rows) {
    INFO(row.fields.dump() << " " << row.changes.dump());
    const std::string wanted = row.says[0] == 0 ? "" : "arguments: " + std::string(row.says);
    CHECK(lmdeploy_says({.fields = row.fields, .changes = row.changes}) == wanted);
  }
}

TEST_CASE("LMDeploy settles batches, types and ranks by card and config") {
  struct Row {
    const char* card;
    Json fields, changes;
    const char* key;
    Json value;
  };
  const Json none = Json::object();
  const Row rows[] = {
      {"a100-80gb", none, none, "max_batch_size", 384},
      {"h100", none, none, "max_batch_size", 1024},
      {"h200", none, none, "max_batch_size", 1024},
      {"l40s", none, none, "max_batch_size", 128},
      {"b200", none, none, "max_batch_size", 128},
      {"h100", none, none, "dtype", "bfloat16"},
      {"h100", none, {{"torch_dtype", "float32"}}, "dtype", "float16"},
      {"h100", {{"dtype", "float32"}}, none, "dtype", "float32"},
      {"h100", none, {{"quantization_config", {{"quant_method", "awq"}}}}, "dtype", "float16"},
      {"h100", none, {{"quantization_config", {{"quant_method", "fp8"}}}}, "dtype", "bfloat16"},
      {"h100", {{"tp", 8}, {"dp", 2}}, none, "attn_tp", 4},
      {"h100", {{"tp", 8}, {"dp", 2}, {"attn_tp_size", 2}}, none, "attn_tp", 2},
      {"h100", {{"tp", 2}, {"dp", 4}}, none, "attn_tp", 1},
      {"h100", {{"tp", 4}}, none, "kv_heads", 8},
      {"h100", {{"tp", 16}}, none, "kv_heads", 16},
  };
  for (const Row& row : rows) {
    INFO(row.card << " " << row.fields.dump() << " " << row.changes.dump());
    const Answer answer =
        ask_lmdeploy({.fields = row.fields, .changes = row.changes, .card = row.card});
    CHECK(Json(answer.resolved[row.key]) == row.value);
  }
}

TEST_CASE("LMDeploy's blocks have the bytes of each policy, each part aligned to 256") {
  struct Row {
    int64_t policy, bytes;  // of a kernel's block: 16 tokens of a head of 128
  };
  // Scales of 16 tokens: 64 bytes or 32, which take 256.
  const Row rows[] = {
      {0, 2 * 16 * 128 * 2}, {4, 2 * 16 * 64 + 2 * 256}, {8, 2 * 16 * 128 + 2 * 256},
      {16, 2 * 16 * 128},    {17, 2 * 16 * 128},         {42, 16 * 64 + 16 * 32 + 2 * 256},
  };
  for (const Row& row : rows) {
    INFO(row.policy);
    const Answer answer = ask_lmdeploy(
        {.fields = {{"quant_policy", row.policy}, {"kernel_block_size", 16}, {"tp", 8}}});
    CHECK(answer.sizing["block_bytes"] == 32 * 4 * row.bytes);
  }
}

TEST_CASE("wide heads of LMDeploy lie in blocks of 32 but for FlashMLA, which has 64") {
  const auto block = [](const Json& changes, const char* card) {
    return ask_lmdeploy({.changes = changes, .card = card}).figures.block_tokens;
  };
  const Json latent = {{"architectures", {"DeepseekV3ForCausalLM"}},
                       {"kv_lora_rank", 512},
                       {"qk_rope_head_dim", 64}};
  CHECK(block({{"head_dim", 512}}, "h100") == 32);
  CHECK(block({{"head_dim", 511}}, "h100") == 64);
  CHECK(block(latent, "h100") == 64);
  CHECK(block(latent, "a100-80gb") == 32);
  CHECK(lmdeploy_says({.fields = {{"block_size", 32}}, .changes = latent}) ==
        "memory: ValueError: Please set block_size to 64 for flash_mla.");
  CHECK(lmdeploy_says({.fields = {{"block_size", 64}}, .changes = latent}) == "");
  CHECK(ask_lmdeploy({.fields = {{"flash_mla", false}}, .changes = latent}).figures.block_tokens ==
        32);
}

TEST_CASE("LMDeploy's flags are its fields, and win over them") {
  using Words = std::vector<std::string>;
  const auto resolved = [](const Words& words, const char* key) {
    return Json(ask_lmdeploy({.words = words}).resolved[key]);
  };
  for (const auto& [name, policy] : {std::pair{"none", 0},
                                     {"int4", 4},
                                     {"INT8", 8},
                                     {"fp8", 16},
                                     {"fp8_e4m3", 16},
                                     {"fp8_e5m2", 17},
                                     {"turbo_quant", 42},
                                     {"8", 8}}) {
    INFO(name);
    CHECK(resolved({"--quant-policy", name}, "quant_policy") == policy);
  }
  CHECK(lmdeploy_says({.words = {"--quant-policy", "int3"}}) ==
        "arguments: AssertionError: invalid quant_policy");
  CHECK(ask_lmdeploy({.fields = {{"max_batch_size", 9}}, .words = {"--max-batch-size", "7"}})
            .figures.running == 7);
  const auto sized = [](const Words& words, const Json& changes = Json::object()) {
    return ask_lmdeploy({.changes = changes, .words = words}).sizing;
  };
  CHECK(sized({"--kernel-block-size", "-1"}) == sized({}));
  CHECK(sized({"--kernel-block-size", "16"})["kernel_block_size"] == 16);
  const auto drafts = [&](const char* method, const Json& changes = Json::object()) {
    return Json(sized({"--speculative-algorithm", method}, changes)["draft_block_bytes"]);
  };
  constexpr int64_t kLayer = kBlock / 32;
  CHECK(drafts("eagle").is_null());
  CHECK(drafts("deepseek_mtp") == kLayer);
  CHECK(drafts("deepseek_mtp", {{"num_nextn_predict_layers", 3}}) == 3 * kLayer);
  CHECK(drafts("qwen3_5_mtp", {{"mtp_num_hidden_layers", 2}}) == 2 * kLayer);
  const Answer drafted = ask_lmdeploy({.words = {"--speculative-algorithm", "deepseek_mtp"}});
  CHECK(drafted.figures.kv_bytes ==
        drafted.sizing["num_gpu_blocks"].get<int64_t>() * (kBlock + kLayer));
  CHECK(drafted.figures.kv_bytes == std::llround(drafted.figures.bytes_per_token *
                                                 static_cast<double>(drafted.figures.kv_tokens)));
  const auto notes = [](const Words& words) { return ask_lmdeploy({.words = words}).notes; };
  REQUIRE(notes({}).size() == 1);
  CHECK_THAT(notes({})[0], Catch::Contains("--backend turbomind: TurboMind"));
  CHECK(notes({"--backend", "pytorch"}).empty());
}
