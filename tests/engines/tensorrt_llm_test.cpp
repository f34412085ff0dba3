// TensorRT-LLM's cache by hand. Its code is read and never run: no rows of its own answers stand
// beside these sums.
#include <catch2/catch.hpp>
#include <string>

#include <fmt/format.h>

#include "engines/engine.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

constexpr double kFreeGib = 40;

/// Llama 3.1 8B: 32 layers, 32 heads and 8 KV heads of 128, 4096 wide, MLP 14336, 128256 tokens.
Answer ask_trtllm(std::vector<std::string> words, Json fields = Json::object(),
                  double free_gib = kFreeGib, Json changes = Json::object()) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                               "/tests/data/engines/configs/meta-llama__Meta-Llama-3.1-8B.json");
  config.merge_patch(changes);
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.fields = std::move(fields);
  question.gpu = &hardware::find_gpu("h100");
  question.free = FreeMemory{78, free_gib};
  return find_engine("tensorrt-llm")->ask(question);
}

std::string words_of(const Answer& answer) {
  return answer.refused ? answer.refused->words : "";
}

}  // namespace

TEST_CASE("TensorRT-LLM's cache takes the share of what a step's peak leaves") {
  constexpr int64_t kToken = 32 * 2 * 2 * 128;  // K and V of a head in all layers, 16 bits
  constexpr int64_t kLogits = int64_t{128256} * 4;
  struct Row {
    std::string flags;
    int64_t token, step, logits;  // bytes
    double share;
  };
  const Row rows[] = {
      {"", 8 * kToken, 8192 * 2 * (3 * 14336 + 6 * 4096), 2048 * kLogits, 0.9},
      {"--tp-size 2", 4 * kToken, 8192 * 2 * (3 * 7168 + 6 * 4096), 2048 * kLogits, 0.9},
      {"--tp-size 16", kToken, 8192 * 2 * (3 * 896 + 6 * 4096), 2048 * kLogits, 0.9},
      {"--kv-cache-dtype fp8", 4 * kToken, 8192 * 2 * (3 * 14336 + 6 * 4096), 2048 * kLogits, 0.9},
      {"--max-batch-size 16", 8 * kToken, 8192 * 2 * (3 * 14336 + 6 * 4096), 16 * kLogits, 0.9},
      {"--max-num-tokens 64", 8 * kToken, 64 * 2 * (3 * 14336 + 6 * 4096), 64 * kLogits, 0.9},
      {"--free-gpu-memory-fraction 0.5", 8 * kToken, 8192 * 2 * (3 * 14336 + 6 * 4096),
       2048 * kLogits, 0.5},
  };
  for (const Row& row : rows) {
    INFO(row.flags);
    const size_t space = row.flags.find(' ');
    const Answer answer = ask_trtllm(
        row.flags.empty() ? std::vector<std::string>{}
                          : std::vector{row.flags.substr(0, space), row.flags.substr(space + 1)});
    const auto left = (kFreeGib * 0x1p30 - static_cast<double>(row.step + row.logits)) * row.share;
    const int64_t fit = static_cast<int64_t>(left) / row.token;
    CHECK(answer.figures.bytes_per_token == static_cast<double>(row.token));
    CHECK(answer.figures.runtime_bytes == row.step + row.logits);
    CHECK(answer.figures.kv_tokens == (fit + 31) / 32 * 32);  // whole blocks
    CHECK(answer.figures.kv_bytes == answer.figures.kv_tokens * row.token);
    CHECK(answer.sizing["available_bytes"] == static_cast<int64_t>(left));
    CHECK(answer.figures.share == row.share);
  }
}

TEST_CASE("TensorRT-LLM keeps a latent for a token where the config has one") {
  const Answer answer =
      ask_trtllm({}, Json::object(), kFreeGib, {{"kv_lora_rank", 512}, {"qk_rope_head_dim", 64}});
  CHECK(answer.figures.bytes_per_token == 32 * (512 + 64) * 2);
}

TEST_CASE("TensorRT-LLM's own limits of the cache count") {
  const auto tokens = [](const Json& cache) {
    return ask_trtllm({}, {{"kv_cache_config", cache}}).figures.kv_tokens;
  };
  CHECK(tokens({{"max_tokens", 1000}}) == 1024);
  CHECK(tokens({{"max_tokens", 1024}}) == 1024);
  CHECK(tokens({{"max_tokens", 1000}, {"tokens_per_block", 64}}) == 1024);
  CHECK(tokens({{"max_tokens", 1000}, {"tokens_per_block", 128}}) == 1024);
  CHECK(tokens({{"max_tokens", int64_t{1} << 39}}) == tokens(Json::object()));
}

TEST_CASE("TensorRT-LLM refuses a share that is none, and a card that is full") {
  for (const char* share : {"0", "1.01", "-0.5"}) {
    INFO(share);
    CHECK_THAT(words_of(ask_trtllm({"--free-gpu-memory-fraction", share})),
               Catch::Contains("must be a float between 0 and 1"));
  }
  CHECK(words_of(ask_trtllm({"--free-gpu-memory-fraction", "1"})) == "");
  CHECK_THAT(words_of(ask_trtllm({}, Json::object(), 2)), Catch::Contains("no memory is left"));
  CHECK(words_of(ask_trtllm({}, Json::object(), 2.02)) == "");  // a step takes 2.01 GiB
}

TEST_CASE("stages of TensorRT-LLM are GPUs, and are not sized") {
  const Answer answer = ask_trtllm({"--tp-size", "2", "--pp-size", "2", "--max-seq-len", "4096",
                                    "--max-batch-size", "64", "--max-num-tokens", "1024"});
  CHECK(answer.figures.ranks == 4);
  CHECK(answer.figures.context == 4096);
  CHECK(answer.figures.running == 64);
  CHECK(answer.figures.step_tokens == 1024);
  CHECK(answer.figures.block_tokens == 32);
  CHECK(answer.sizing.is_null());
  CHECK_THAT(answer.notes.back(), Catch::Contains("are not sized"));
}

TEST_CASE("fields of TensorRT-LLM that are not counted are named, where they ask for something") {
  const auto notes = [](const Json& fields) {
    std::string text;
    for (const std::string& note : ask_trtllm({}, fields).notes) text += note + "\n";
    return text;
  };
  CHECK_THAT(notes({{"lora_config", {{"max_lora_rank", 8}}}}),
             Catch::Contains("lora_config: LoRA adapters are not counted"));
  CHECK_THAT(notes({{"enable_attention_dp", true}}), Catch::Contains("enable_attention_dp"));
  CHECK_THAT(notes({{"enable_attention_dp", false}}), !Catch::Contains("enable_attention_dp"));
  CHECK_THAT(notes({{"context_parallel_size", 1}}), !Catch::Contains("context_parallel_size"));
  CHECK_THAT(notes({{"context_parallel_size", 2}}), Catch::Contains("context_parallel_size"));
  CHECK_THAT(notes({{"kv_cache_config", {{"dtype", "nvfp4"}}}}),
             Catch::Contains("nvfp4: counted as 16 bits"));
}

TEST_CASE("TensorRT-LLM logs what its profile leaves") {
  constexpr double kStep = 8192.0 * 2 * (3 * 14336 + 6 * 4096) + 2048.0 * 128256 * 4;
  const Answer answer = ask_trtllm({});
  const double total = static_cast<double>(hardware::find_gpu("h100").visible_bytes()) / 0x1p30;
  REQUIRE(answer.says.size() == 2);
  CHECK(answer.says[0] ==
        fmt::format("Peak memory during memory usage profiling (torch + non-torch): {:.2f} GiB, "
                    "available KV cache memory when calculating max tokens: {:.2f} GiB, fraction "
                    "is set 0.9, kv size per token is 131072. device total memory {:.2f} GiB",
                    total - kFreeGib + kStep / 0x1p30, 0.9 * (kFreeGib - kStep / 0x1p30), total));
  const int64_t tokens = answer.figures.kv_tokens;
  CHECK(answer.says[1] ==
        fmt::format("[MemUsageChange] Allocated {:.2f} GiB for max tokens in paged KV cache ({}).",
                    static_cast<double>(tokens) * 131072 / 0x1p30, tokens));
}

TEST_CASE("flags of TensorRT-LLM win over fields, which keep what they do not name") {
  const Json cache = {{"kv_cache_config", {{"tokens_per_block", 64}, {"dtype", "fp8"}}}};
  const Answer answer = ask_trtllm({"--free-gpu-memory-fraction", "0.5"}, cache);
  CHECK(answer.figures.share == 0.5);
  CHECK(answer.figures.block_tokens == 64);
  CHECK(answer.figures.kv_dtype == "fp8");
  CHECK(ask_trtllm({"--kv-cache-dtype", "auto"}, cache).figures.kv_dtype == "bfloat16");
  CHECK(ask_trtllm({"--max-batch-size", "4"}, {{"max_batch_size", 9}}).figures.running == 4);
  for (const char* dtype : {"auto", "fp8", "float16", "bfloat16"}) {
    INFO(dtype);
    CHECK(ask_trtllm({}, {{"kv_cache_config", {{"dtype", dtype}}}}).notes.size() == 1);
  }
}

TEST_CASE("TensorRT-LLM's experts are shared by as many ranks as divide its tensor parallelism") {
  const auto are_whole = [](const char* ranks, const Json& changes) {
    return ask_trtllm({"--tp-size", "8", "--ep-size", ranks}, Json::object(), kFreeGib, changes)
        .figures.whole_experts;
  };
  const Json mixture = {{"num_experts", 128}};
  CHECK(are_whole("4", mixture));
  CHECK_FALSE(are_whole("1", mixture));
  CHECK_FALSE(are_whole("4", Json::object()));  // a dense model has none
  const Answer refused = ask_trtllm({"--tp-size", "8", "--ep-size", "3"});
  REQUIRE(refused.refused.has_value());
  CHECK_THAT(refused.refused->words, Catch::Contains("moe_expert_parallel_size 3"));
}
