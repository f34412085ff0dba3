// What SGLang settles on for a launch, flag by flag and card by card.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engines/engine.h"

using namespace plimsoll;
using namespace plimsoll::engines;

namespace {

using Words = std::vector<std::string>;

Answer settle_llama(Words words, const Json& changes = Json::object(), const char* card = "h100",
                    const std::map<std::string, std::string>& variables = {}) {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                               "/tests/data/engines/configs/meta-llama__Meta-Llama-3.1-8B.json");
  config.merge_patch(changes);
  Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.gpu = &hardware::find_gpu(card);
  question.variables = {variables.begin(), variables.end()};
  return find_engine("sglang")->ask(question);
}

std::string refused_words(const Answer& answer) {
  return answer.refused ? answer.refused->words : "";
}

Json quantized_by(const Json& settings) {
  return {{"quantization_config", settings}};
}

}  // namespace

TEST_CASE("SGLang settles types and methods by flag, config and card") {
  struct Row {
    Words words;
    Json changes;
    const char* card;
    const char* key;
    Json value;
  };
  const Json plain = Json::object();
  const auto gptq = [](int bits, bool sym) {
    return quantized_by({{"quant_method", "gptq"}, {"bits", bits}, {"sym", sym}});
  };
  const auto modelopt = [](const char* algorithm) {
    return quantized_by({{"quant_method", "modelopt"}, {"quant_algo", algorithm}});
  };
  const Row rows[] = {
      {{}, plain, "h100", "dtype", "bfloat16"},
      {{}, plain, "t4", "dtype", "float16"},
      {{}, {{"torch_dtype", "float32"}}, "h100", "dtype", "float16"},
      {{"--dtype", "half"}, plain, "h100", "dtype", "float16"},
      {{"--dtype", "float"}, plain, "h100", "dtype", "float32"},
      {{}, plain, "h100", "quantization", nullptr},
      {{}, gptq(4, true), "h100", "quantization", "gptq_marlin"},
      {{}, gptq(8, true), "h100", "quantization", "gptq_marlin"},
      {{}, gptq(3, true), "h100", "quantization", "gptq"},
      {{}, gptq(4, false), "h100", "quantization", "gptq"},
      {{}, quantized_by({{"quant_method", "awq"}}), "h100", "quantization", "awq_marlin"},
      {{}, quantized_by({{"quant_method", "fp8"}}), "h100", "quantization", "fp8"},
      {{}, modelopt("NVFP4"), "h100", "quantization", "modelopt_fp4"},
      {{}, modelopt("FP8"), "h100", "quantization", "modelopt_fp8"},
      {{}, modelopt("MIXED_PRECISION"), "h100", "quantization", "modelopt_mixed"},
      {{"--quantization", "fp8"}, plain, "h100", "quantization", "fp8"},
      {{"--kv-cache-dtype", "bf16"}, plain, "h100", "kv_dtype", "bfloat16"},
      {{"--kv-cache-dtype", "fp8_e4m3"}, plain, "h100", "kv_dtype", "float8_e4m3fn"},
      {{"--kv-cache-dtype", "fp8_e5m2"}, plain, "h100", "kv_dtype", "float8_e5m2"},
      {{"--context-length", "4096"}, plain, "h100", "context_length", 4096},
      {{"--chunked-prefill-size", "0"}, plain, "h100", "chunked_prefill_size", -1},
      {{"--chunked-prefill-size", "512"}, plain, "h100", "chunked_prefill_size", 512},
      {{"--tp", "4", "--dp-size", "2", "--enable-dp-attention"},
       plain,
       "h100",
       "chunked_prefill_size",
       4096},
      {{"--tp", "4", "--dp-size", "2"}, plain, "h100", "chunked_prefill_size", 8192},
      {{"--disable-radix-cache"}, plain, "h100", "disable_radix_cache", true},
      {{}, plain, "h100", "disable_overlap_schedule", false},
      {{"--pp-size", "2"}, plain, "h100", "disable_overlap_schedule", true},
  };
  for (const Row& row : rows) {
    INFO(row.key << " " << Json(row.words).dump() << " " << row.changes.dump() << row.card);
    const Answer answer = settle_llama(row.words, row.changes, row.card);
    CHECK(Json(answer.resolved[row.key]) == row.value);
  }
}

TEST_CASE("SGLang chooses attention and pages by card and flag") {
  struct Row {
    const char* card;
    Words words;
    const char* prefill;
    const char* decode;
    int64_t page;
  };
  const Row rows[] = {
      {"h100", {}, "fa3", "fa3", 1},
      {"a100-80gb", {}, "flashinfer", "flashinfer", 1},
      {"b200", {}, "trtllm_mha", "trtllm_mha", 64},
      {"b200", {"--page-size", "32"}, "trtllm_mha", "trtllm_mha", 32},
      {"b200", {"--page-size", "8"}, "trtllm_mha", "trtllm_mha", 64},
      {"b200", {"--speculative-algorithm", "EAGLE"}, "flashinfer", "flashinfer", 1},
      {"h100", {"--speculative-algorithm", "EAGLE"}, "fa3", "fa3", 1},
      {"h100", {"--speculative-eagle-topk", "1"}, "fa3", "fa3", 1},
      {"h100", {"--speculative-eagle-topk", "2"}, "flashinfer", "flashinfer", 1},
      {"h100",
       {"--speculative-eagle-topk", "1", "--page-size", "2"},
       "flashinfer",
       "flashinfer",
       2},
      {"h100", {"--kv-cache-dtype", "fp8_e5m2"}, "triton", "triton", 1},
      {"h100", {"--attention-backend", "flashmla"}, "flashmla", "flashmla", 64},
      {"h100", {"--decode-attention-backend", "flashmla"}, "fa3", "flashmla", 64},
      {"h100", {"--prefill-attention-backend", "triton"}, "triton", "fa3", 1},
      {"b200", {"--attention-backend", "fa4"}, "fa4", "fa4", 128},
  };
  for (const Row& row : rows) {
    INFO(row.card << " " << Json(row.words).dump());
    const OrderedJson resolved = settle_llama(row.words, Json::object(), row.card).resolved;
    CHECK(Json(resolved["attention_backends"]) == Json{row.prefill, row.decode});
    CHECK(resolved["page_size"] == row.page);
  }
  for (const char* card : {"h100", "a100-80gb"}) {
    CHECK_THAT(
        refused_words(settle_llama({"--attention-backend", "trtllm_mha"}, Json::object(), card)),
        Catch::Contains("TRTLLM MHA"));
    CHECK_THAT(
        refused_words(settle_llama({"--attention-backend", "trtllm_mla"}, Json::object(), card)),
        Catch::Contains("TRTLLM MLA"));
  }
  CHECK(refused_words(
            settle_llama({"--attention-backend", "trtllm_mla"}, Json::object(), "b200")) == "");
}

TEST_CASE("SGLang captures graphs up to a size, or none") {
  const auto graphs = [](const Words& words, const char* key) {
    return Json(settle_llama(words).resolved[key]);
  };
  const std::vector<Words> no_prefill = {{"--disable-cuda-graph"},
                                         {"--disable-prefill-cuda-graph"},
                                         {"--cuda-graph-backend-prefill", "disabled"},
                                         {"--pp-size", "2"},
                                         {"--enable-two-batch-overlap"},
                                         {"--decode-context-parallel-size", "2"},
                                         {"--moe-a2a-backend", "mooncake"}};
  for (const Words& words : no_prefill) {
    INFO(Json(words).dump());
    CHECK(graphs(words, "prefill_graphs").is_null());
  }
  for (const Words& words : {Words{}, Words{"--moe-a2a-backend", "deepep"},
                             Words{"--decode-context-parallel-size", "1"}}) {
    INFO(Json(words).dump());
    CHECK(graphs(words, "prefill_graphs").back() == 8192);
  }
  CHECK(graphs({"--cuda-graph-max-bs-prefill", "512"}, "prefill_graphs").back() == 512);
  CHECK(graphs({"--max-total-tokens", "256"}, "prefill_graphs").back() == 256);
  CHECK(graphs({"--cuda-graph-bs-prefill", "4", "9"}, "prefill_graphs") == Json{4, 9});
  CHECK(graphs({"--tp", "4", "--dp-size", "2", "--enable-dp-attention"}, "prefill_graphs").back() ==
        4096);

  const std::vector<Words> no_decode = {{"--disable-cuda-graph"},
                                        {"--disable-decode-cuda-graph"},
                                        {"--cuda-graph-backend-decode", "disabled"}};
  for (const Words& words : no_decode) {
    INFO(Json(words).dump());
    CHECK(graphs(words, "decode_graphs").is_null());
  }
  CHECK(graphs({}, "decode_graphs").back() == 256);
  CHECK(graphs({"--tp", "2"}, "decode_graphs").back() == 256);
  CHECK(graphs({"--tp", "4"}, "decode_graphs").back() == 512);
  CHECK(graphs({"--max-running-requests", "24"}, "decode_graphs").back() == 24);
  CHECK(graphs({"--max-running-requests", "257"}, "decode_graphs").back() == 256);
  CHECK(graphs({"--cuda-graph-max-bs-decode", "300"}, "decode_graphs").back() == 300);
  CHECK(graphs({"--cuda-graph-bs-decode", "1", "3"}, "decode_graphs") == Json{1, 3});
}

TEST_CASE("SGLang counts GPUs and graphs of a launch") {
  const auto figures = [](const Words& words) { return settle_llama(words).figures; };
  CHECK(figures({"--tp", "2", "--pp-size", "2", "--dp-size", "2"}).ranks == 8);
  CHECK(figures({"--tp", "4", "--dp-size", "2", "--enable-dp-attention"}).ranks == 4);
  CHECK(figures({"--cuda-graph-bs-decode", "1", "3", "--cuda-graph-bs-prefill", "4"}).graphs == 3);
  CHECK(figures({"--disable-cuda-graph"}).graphs == 0);
  CHECK(figures({"--chunked-prefill-size", "-1", "--max-prefill-tokens", "999"}).step_tokens ==
        999);
  CHECK(figures({"--mem-fraction-static", "0.5"}).share == 0.5);
}

TEST_CASE("SGLang refuses a launch in its own words") {
  CHECK_THAT(refused_words(settle_llama({"--tp", "3", "--dp-size", "2", "--enable-dp-attention"})),
             Catch::Contains("AssertionError"));
  CHECK_THAT(refused_words(settle_llama({"--chunked-prefill-size", "100", "--page-size", "16"})),
             Catch::Contains("must be divisible by page_size"));
  CHECK_THAT(refused_words(settle_llama({"--language-model-only"})),
             Catch::Contains("does not support ['LlamaForCausalLM']"));
  const auto longer = [](const char* said) {
    return settle_llama({"--context-length", "131073"}, Json::object(), "h100",
                        {{"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", said}});
  };
  CHECK(longer("True").resolved["context_length"] == 131073);
  CHECK(longer("1").resolved["context_length"] == 131073);
  CHECK_THAT(refused_words(longer("0")), Catch::Contains("context_length (131073) is greater"));
  CHECK(refused_words(settle_llama({"--context-length", "131072"})) == "");
}
