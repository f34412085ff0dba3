// How SGLang shares out what is free: bounds, refusals and log lines with sums by hand.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engines/engine.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

using Lines = std::vector<std::string>;

/// Of 80 GiB half is SGLang's: 10 GiB are left of 50, and Llama 3.1 8B stores 81920 tokens there.
Answer size_half(const std::string& name, Lines words, const Json& changes = Json::object(),
                 double after_gib = 50) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/configs/" +
                               name + ".json");
  config.merge_patch(changes);
  words.insert(words.end(), {"--mem-fraction-static", "0.5"});
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.gpu = &hardware::find_gpu("h100");
  question.free = FreeMemory{80, after_gib};
  return find_engine("sglang")->ask(question);
}

const std::string kLlama = "meta-llama__Meta-Llama-3.1-8B", kGptOss = "openai__gpt-oss-20b";

Answer size_llama(Lines words, double after_gib = 50, const Json& changes = Json::object()) {
  return size_half(kLlama, std::move(words), changes, after_gib);
}

std::string memory_words(const Answer& answer) {
  return answer.refused ? answer.refused->stage + ": " + answer.refused->words : "";
}

/// A layer's convolution of 4096 x 2 values in 16 bits, beside one attention layer.
const Json kConvolutions = {{"architectures", {"Lfm2ForCausalLM"}},
                            {"num_hidden_layers", 3},
                            {"layer_types", {"conv", "conv", "full_attention"}},
                            {"conv_L_cache", 3}};

}  // namespace

TEST_CASE("SGLang says which share would hold the weights") {
  const char* const kSays =
      "memory: ValueError: Loaded weights leave no GPU memory for the KV cache under "
      "--mem-fraction-static=0.5. Raise --mem-fraction-static above ";
  CHECK_THAT(memory_words(size_llama({}, 40)),
             Catch::StartsWith(std::string(kSays) +
                               "0.500 (minimum viable = 1 - available/pre = 0.5000)."));
  CHECK_THAT(memory_words(size_llama({}, 39.99)),
             Catch::StartsWith(std::string(kSays) +
                               "0.501 (minimum viable = 1 - available/pre = 0.5001)."));
  const double token = 131072 / 0x1p30;
  CHECK(memory_words(size_llama({}, 40 + token / 2)) ==
        "memory: RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.");
  CHECK(size_llama({}, 40 + token).figures.kv_tokens == 1);
}

TEST_CASE("SGLang holds no more tokens than are asked for, in whole pages") {
  struct Row {
    Lines words;
    int64_t tokens;
    Lines says;
  };
  const Row rows[] = {
      {{}, 81920, {}},
      {{"--max-total-tokens", "81919"}, 81919, {}},
      {{"--max-total-tokens", "81920"}, 81920, {}},
      {{"--max-total-tokens", "81921"},
       81920,
       {"max_total_tokens=81921 is larger than the profiled value 81920. Use the profiled value "
        "instead."}},
      {{"--max-total-tokens", "111", "--page-size", "16"}, 96, {}},
      {{"--max-total-tokens", "112", "--page-size", "16"}, 112, {}},
      {{"--max-total-tokens", "100", "--max-running-requests", "50"}, 100, {}},
      {{"--max-total-tokens", "100", "--max-running-requests", "51"},
       100,
       {"max_running_requests was reduced from the requested 51 to 50 (per dp worker) due to the "
        "available KV cache capacity."}},
  };
  for (const Row& row : rows) {
    INFO(Json(row.words).dump());
    const Answer answer = size_llama(row.words);
    CHECK(answer.figures.kv_tokens == row.tokens);
    CHECK(answer.says == row.says);
  }
}

TEST_CASE("SGLang runs as many requests as the cache holds contexts, within bounds") {
  const auto running = [](Lines words) { return size_llama(std::move(words)).figures.running; };
  CHECK(running({}) == 2048);
  CHECK(running({"--context-length", "16384"}) == 2560);  // 512 x 81920 / 16384
  CHECK(running({"--context-length", "4096"}) == 4096);
  CHECK(running({"--max-total-tokens", "4095"}) == 2047);  // half the tokens
  CHECK(running({"--max-running-requests", "5"}) == 5);
}

TEST_CASE("SGLang's log of its memory names every part") {
  const Answer answer = size_llama({});
  // A page more than 10 GiB, and (2048 + 1) x (131072 + 4) x 4 bytes.
  CHECK(answer.log ==
        Lines{"Load weight begin. avail mem=80.00 GB",
              "Load weight end. type=LlamaForCausalLM, avail mem=50.00 GB, mem usage=30.00 GB.",
              "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 81920, K size: 5.00 GB, V "
              "size: 5.00 GB",
              "Memory pool end. avail mem=39.00 GB",
              "max_total_num_tokens=81920, chunked_prefill_size=8192, max_prefill_tokens=16384, "
              "max_running_requests=2048, context_len=131072"});
  for (const char* key : {"state_layers", "state_slots", "full_bytes_per_layer"})
    CHECK(!answer.sizing.contains(key));
  const Answer narrow = size_llama({}, 50, {{"v_head_dim", 64}});  // 98304 bytes a token
  REQUIRE(narrow.log.size() == 5);
  CHECK(narrow.log[2] ==
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 109226, K size: 6.67 GB, V size: "
        "3.33 GB");
  const Answer latent = size_llama({}, 50,
                                   {{"architectures", {"DeepseekV3ForCausalLM"}},
                                    {"kv_lora_rank", 512},
                                    {"qk_rope_head_dim", 64}});
  REQUIRE(latent.log.size() == 5);  // 32 x 576 x 2 bytes a token
  CHECK(latent.log[2] ==
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 291271, KV size: 10.00 GB");
  const Answer states = size_llama({"--max-mamba-cache-size", "65535"}, 50, kConvolutions);
  REQUIRE(states.log.size() >= 2);
  // 65536 states of 2 x 16384 bytes are 2 GiB, and all is taken but for the table.
  CHECK(states.figures.state_bytes == int64_t{2} << 30);
  CHECK(states.figures.kv_tokens == (int64_t{8} << 30) / 4096);
  // 50 - 10 - (4096 + 1) x (131072 + 4) x 4 bytes.
  CHECK(states.log[states.log.size() - 2] == "Memory pool end. avail mem=38.00 GB");
}

TEST_CASE("SGLang refuses states that are too few, and says what caps requests") {
  const auto asked = [](Lines words) { return size_llama(std::move(words), 50, kConvolutions); };
  CHECK_THAT(memory_words(asked({"--max-mamba-cache-size", "0"})),
             Catch::Contains("Computed max_mamba_cache_size=0 (total_rest_memory=10.00 GB, "
                             "mamba_cache_per_req=0.03 MB)"));
  // Three slots a request.
  CHECK_THAT(memory_words(asked({"--max-mamba-cache-size", "2"})),
             Catch::Contains("max_mamba_cache_size=2, mamba_ratio=3, resulting max_num_reqs=0"));
  const Answer one = asked({"--max-mamba-cache-size", "5"});
  CHECK(memory_words(one) == "");
  CHECK(one.figures.running == 1);
  REQUIRE(one.says.size() == 1);
  CHECK_THAT(one.says[0],
             Catch::StartsWith("max_running_requests is capped to 1 by the mamba state cache "
                               "(max_mamba_cache_size=5, 3 state slots per request)."));
  const auto says = [&](const char* requests) {
    return asked({"--max-mamba-cache-size", "300", "--max-running-requests", requests}).says.size();
  };
  CHECK(says("100") == 0);
  CHECK(says("101") == 1);
  // budget = 10 GiB x 0.9 / 1.9; a state is kept beside the slots.
  const auto budget = 0x1p30 * 10 * 0.9 / 1.9;
  CHECK(asked({}).sizing["state_slots"] == static_cast<int64_t>((budget - 32768) / 32768));
}

TEST_CASE("SGLang's windows hold a request at least, and leave room for full layers") {
  const auto asked = [](const char* tokens) {
    return memory_words(size_half(kGptOss, {"--max-total-tokens", tokens}));
  };
  // 0.8 of 161 are 128 whole tokens: the window of 127 and a page.
  CHECK_THAT(asked("161"), Catch::Contains("SWA pool (128 tokens) cannot hold even one request") &&
                               Catch::Contains("sliding_window_size (127) + page_size (1)"));
  CHECK(asked("162") == "");
  // Ten requests: 10 x (127 + 128 + 2) + 2 x 8192 + 1; twelve layers of 8 heads of 64.
  constexpr int64_t kTokens = 10 * 257 + 16385, kLayers = 12 * 2 * 8 * 64 * 2;
  const Lines ten = {"--disable-radix-cache", "--max-running-requests", "10"};
  CHECK(size_half(kGptOss, ten).sizing["sliding_tokens"] == kTokens);
  CHECK(size_half(kGptOss, ten).sizing["full_tokens"] == (int64_t{10} << 30) / kLayers - kTokens);
  const auto left = [&](int64_t bytes) {
    return memory_words(
        size_half(kGptOss, ten, Json::object(), 40 + static_cast<double>(bytes) / 0x1p30));
  };
  CHECK(
      left(kTokens * kLayers) ==
      "memory: RuntimeError: SWA pool cap (18955 tokens, 0.43 GiB) leaves no room for the full KV "
      "pool");
  CHECK_THAT(left(kTokens * kLayers + 1), Catch::Contains("Not enough memory"));
  CHECK(left(kTokens * kLayers + kLayers) == "");
  // Pages of 16: windows are rounded up to them.
  const Answer pages = size_half(
      kGptOss, {"--disable-radix-cache", "--max-running-requests", "3", "--page-size", "16"});
  CHECK(pages.sizing["sliding_tokens"] == 17264);  // 3 x (127 + 128 + 32) + 16384 + 16 = 17261
}

TEST_CASE("SGLang keeps room for images, by class and by requests") {
  const Json images = {{"vision_config", {{"num_hidden_layers", 24}, {"hidden_size", 1024}}}};
  Json qwen = images;
  qwen["architectures"] = {"Qwen3VLForConditionalGeneration"};
  const auto tokens = [](Lines words, const Json& changes) {
    return size_llama(std::move(words), 50, changes).figures.kv_tokens;
  };
  // A GiB holds 8192 tokens.
  CHECK(tokens({}, qwen) == 9 * 8192);
  CHECK(tokens({"--max-running-requests", "399"}, qwen) == 9 * 8192);
  CHECK(tokens({"--max-running-requests", "400"}, qwen) == 7 * 8192);
  CHECK(tokens({}, images) == 10 * 8192 - 800);
  CHECK(tokens({"--mm-feature-transport", "cuda_ipc"}, images) == 9 * 8192 - 800);
  CHECK(tokens({"--mm-feature-transport", "auto"}, images) == 10 * 8192 - 800);
  Json muse = images;
  muse["architectures"] = {"MuseGlimmerForConditionalGeneration"};
  muse["sliding_window"] = nullptr;
  muse["layer_types"] = nullptr;
  CHECK(tokens({"--language-model-only", "--disable-hybrid-swa-memory"}, muse) == 10 * 8192);
  CHECK(tokens({"--disable-hybrid-swa-memory"}, muse) == 10 * 8192 - 800);
  const auto graphs = [&](Lines words) {
    return size_llama(std::move(words), 50, qwen).resolved["decode_graphs"].back();
  };
  CHECK(graphs({"--max-running-requests", "255"}) == 255);
  CHECK(graphs({"--max-running-requests", "300"}) == 300);
  CHECK(graphs({"--max-running-requests", "600"}) == 512);
  CHECK(Json(size_llama({}, 50, qwen).resolved["attention_backends"]) == Json{"fa3", "flashinfer"});
}

TEST_CASE("what SGLang does not size is said") {
  const auto last_note = [](const Answer& answer) {
    return answer.notes.empty() ? "" : answer.notes.back();
  };
  CHECK(memory_words(size_llama({}, 50, {{"architectures", {"BloomForCausalLM"}}})) ==
        "model: not among SGLang's own models; at best served through its Transformers backend");
  const Answer stages = size_llama({"--pp-size", "2"});
  CHECK_THAT(last_note(stages), Catch::StartsWith("pipeline stages of SGLang are not sized"));
  CHECK(stages.sizing.is_null());
  CHECK(!stages.resolved.contains("kv_dtype"));
  for (const char* method : {"fp8", "w8a8_fp8"}) {
    const Answer answer = size_llama({"--quantization", method});
    CHECK(answer.figures.quantization == "fp8");
    CHECK(answer.notes.empty());
  }
  const Answer awq = size_llama({"--quantization", "awq"});
  CHECK(awq.figures.quantization.empty());
  CHECK(last_note(awq) == "--quantization awq: weights are counted as the checkpoint stores them");
  CHECK(size_llama({"--quantization", "awq"}, 50,
                   {{"quantization_config", {{"quant_method", "awq"}}}})
            .notes.empty());
  CHECK_THAT(last_note(size_llama({"--port", "80"})), Catch::StartsWith("--port: taken"));
}
