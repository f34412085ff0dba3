// Plans of launches of other engines than vLLM and ours, by what the room declares.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "batch/scratch.h"
#include "plan/configs.h"
#include "plan/engines/buffers_plan.h"
#include "plan/engines/engine_plan.h"
#include "plan/engines/free_memory.h"
#include "plan/pooled_configs.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

const std::string kEngineData = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/engines/";

PlanResult plan_sglang(const Json& config, const char* card, std::vector<std::string> words,
                       const std::string& version = "") {
  engines::Question question;
  question.config = &config;
  question.config_path = "config.json";
  question.words = std::move(words);
  question.version = version;
  question.gpu = &hardware::find_gpu(card);
  return plan_engine(*engines::find_engine("sglang"), question, {config, "config.json"}, true);
}

constexpr int64_t kMiB = int64_t{1} << 20;

PlanResult plan_llamacpp(const checkpoint::gguf::Model& model, std::vector<std::string> words,
                         int64_t total_mib, int64_t free_mib, const std::string& version = "") {
  engines::Question question;
  question.gguf = &model;
  question.words = std::move(words);
  question.version = version;
  question.cards.push_back({"CUDA0", total_mib * kMiB, free_mib * kMiB});
  return plan_buffers(*engines::find_engine("llamacpp"), question, true);
}

}  // namespace

TEST_CASE("a plan of SGLang says the release, the launch, and what a change brings") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  const PlanResult plan =
      plan_sglang(llama, "h100", {"--context-length", "8192", "--dp-size", "1"});
  CHECK(plan.engine == "sglang");
  CHECK(plan.architecture == "LlamaForCausalLM");
  CHECK(plan.planned_as == "");
  CHECK(plan.dtype == "bfloat16");
  CHECK(plan.gpus == 1);
  CHECK(plan.max_model_len == 8192);
  CHECK(plan.kv_bytes_per_token == 2 * 32 * 8 * 128 * 2);
  CHECK(plan.fits == true);
  REQUIRE(!plan.advice.empty());
  for (const Suggestion& suggestion : plan.advice) {
    CHECK(suggestion.length == 8192);
    CHECK(suggestion.requests > suggestion.requests_before);
    CHECK(suggestion.longest == 0);
  }
  // A release that is not known is planned as the nearest one before it.
  const PlanResult unknown = plan_sglang(llama, "h100", {}, "99.1.0");
  CHECK(unknown.version == "99.1.0");
  CHECK(unknown.planned_as == plan.version);
}

TEST_CASE("advice for a launch of SGLang that does not fit says the longest request") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  const PlanResult tight =
      plan_sglang(llama, "4090", {"--context-length", "131072", "--mem-fraction-static", "0.62"});
  REQUIRE(tight.fits == false);
  REQUIRE(!tight.advice.empty());
  for (const Suggestion& suggestion : tight.advice) {
    CHECK(suggestion.longest > suggestion.longest_before);
  }
}

TEST_CASE("bounds of predicted free memory are the root of the parts' squares") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  engines::Figures figures;
  figures.dtype = "bfloat16";
  const FreePrediction free =
      predict_free({llama, "config.json"}, hardware::find_gpu("h100"), figures);
  double less = 0, more = 0;
  for (const PlanPart& part : free.parts) {
    less += std::pow(static_cast<double>(part.less) / 0x1p30, 2);
    more += std::pow(static_cast<double>(part.more) / 0x1p30, 2);
  }
  CHECK(std::max(less, more) > 0);
  // Parts that take more leave less.
  CHECK(free.less == Approx(std::sqrt(more)));
  CHECK(free.more == Approx(std::sqrt(less)));
}

TEST_CASE("the longest request of another engine is its context, or what its cache holds") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  const PlanResult held = plan_sglang(llama, "4090", {});
  REQUIRE(held.kv_tokens > 0);
  REQUIRE(held.kv_tokens < held.max_model_len);
  CHECK(held.estimated_max_model_len == held.kv_tokens);
  const PlanResult whole = plan_sglang(llama, "h100", {"--context-length", "8192"});
  CHECK(whole.estimated_max_model_len == 8192);
}

TEST_CASE("the edges of another engine's cache are its own answers at the edges of free memory") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  const PlanResult plan = plan_sglang(llama, "h100", {});
  REQUIRE(plan.bounds);
  const FreePrediction free =
      predict_free({llama, "config.json"}, hardware::find_gpu("h100"), plan.other_engine->figures);
  REQUIRE(free.less != free.more);
  const auto tokens_with = [&](double after) {
    engines::Question question;
    question.config = &llama;
    question.config_path = "config.json";
    question.gpu = &hardware::find_gpu("h100");
    question.free = engines::FreeMemory{free.middle.before, after};
    return engines::find_engine("sglang")->ask(question).figures.kv_tokens;
  };
  CHECK(plan.bounds->low.kv_tokens == tokens_with(free.middle.after - free.less));
  CHECK(plan.bounds->middle.kv_tokens == tokens_with(free.middle.after));
  CHECK(plan.bounds->high.kv_tokens == tokens_with(free.middle.after + free.more));
}

TEST_CASE("ranks of experts alone talk to each other too") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  const auto joined = [&](int64_t ranks, int64_t experts) {
    engines::Figures figures;
    figures.dtype = "bfloat16";
    figures.ranks = ranks;
    figures.weight_ranks = 1;
    figures.expert_ranks = experts;
    const FreePrediction free =
        predict_free({llama, "config.json"}, hardware::find_gpu("h100"), figures);
    return std::ranges::count(free.parts, "nccl and all-reduce", &PlanPart::name);
  };
  CHECK(joined(1, 1) == 0);
  CHECK(joined(2, 2) == 1);
}

TEST_CASE("the parts of a plan of another engine are the whole card") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  for (const char* engine : {"sglang", "lmdeploy", "transformers"}) {
    INFO(engine);
    engines::Question question;
    question.config = &llama;
    question.config_path = "config.json";
    question.gpu = &hardware::find_gpu("h100");
    const auto sum = [&] {
      const PlanResult plan =
          plan_engine(*engines::find_engine(engine), question, {llama, "config.json"}, false);
      REQUIRE(plan.fits == true);
      int64_t bytes = 0;
      for (const PlanPart& part : plan.parts) bytes += part.bytes;
      return bytes - plan.total_bytes;
    };
    CHECK(std::abs(sum()) <= 2);  // free memory is a number of GiB in floating point
    question.free = engines::FreeMemory{78.5, 62.25};
    CHECK(std::abs(sum()) <= 2);
    if (engine == std::string("sglang")) continue;  // goes by both
    question.free = engines::FreeMemory{0, 62.25};
    CHECK(std::abs(sum()) <= 2);
  }
}

TEST_CASE("a plan of llama.cpp takes the free memory that is stated, and says the release") {
  const test::Scratch scratch;
  const std::string file = scratch.path("model.gguf");
  testing::write_gguf_header(read_json_file(kEngineData + "headers/qwen25_05b.Q4_K_M.json"), file);
  const auto model = checkpoint::gguf::Model::open(file);
  const PlanResult fits = plan_llamacpp(model, {"-c", "4096"}, 24564, 24100);
  CHECK(fits.fits == true);
  CHECK(fits.version != "");
  CHECK(fits.planned_as == "");
  CHECK(fits.total_bytes == int64_t{24564} << 20);
  CHECK(fits.budget_bytes == int64_t{24100} << 20);
  int64_t parts = 0;
  for (const PlanPart& part : fits.parts) parts += part.bytes;
  CHECK(parts == fits.total_bytes);
  // The card has as much, and less of it is free.
  const PlanResult taken = plan_llamacpp(model, {"-c", "4096", "-fit", "off"}, 24564, 8);
  CHECK(taken.fits == false);
  // Free memory may be taken to the last byte.
  const std::vector<std::string> fixed = {"-c", "4096", "-fit", "off"};
  const auto with_free = [&](int64_t bytes) {
    engines::Question question;
    question.gguf = &model;
    question.words = fixed;
    question.cards.push_back({"CUDA0", int64_t{24564} << 20, bytes});
    return plan_buffers(*engines::find_engine("llamacpp"), question, false);
  };
  const PlanResult ample = with_free(int64_t{24100} << 20);
  const int64_t needed = ample.budget_bytes - part_bytes(ample, "left over");
  REQUIRE(needed > 0);
  CHECK(with_free(needed).fits == true);
  CHECK(with_free(needed - 1).fits == false);
  const PlanResult named = plan_llamacpp(model, {"-c", "4096"}, 24564, 24100, "99.0.0");
  CHECK(named.version == "99.0.0");
  CHECK(named.planned_as == fits.version);
}

TEST_CASE("embeddings of n-grams lie in the host's memory by SGLang's default, on the card else") {
  Json config = qwen_flash();
  config["architectures"] = {"Qwen4ExpForConditionalGeneration"};
  config["model_type"] = "qwen4_exp";
  const auto weights = [&](const char* engine) {
    engines::Question question;
    question.config = &config;
    question.config_path = "config.json";
    question.gpu = &hardware::find_gpu("h200");
    return plan_engine(*engines::find_engine(engine), question, {config, "config.json"}, true)
        .weights_bytes;
  };
  constexpr int64_t kRows = 321280;  // 16 primes from 20011 on, padded to 128
  CHECK(weights("transformers") - weights("sglang") == kRows * 160 * 2);
}

TEST_CASE("a copy of SGLang's weights is divided among its tensor-parallel ranks alone") {
  const Json llama = read_json_file(kEngineData + "configs/meta-llama__Meta-Llama-3.1-8B.json");
  const PlanResult one = plan_sglang(llama, "h100", {});
  const PlanResult copies = plan_sglang(llama, "h100", {"--dp-size", "2"});
  CHECK(copies.gpus == 2);
  CHECK(copies.weights_bytes == one.weights_bytes);
  CHECK(copies.kv_tokens == one.kv_tokens);
  CHECK(plan_sglang(llama, "h100", {"--tp-size", "2", "--dp-size", "2"}).weights_bytes ==
        plan_sglang(llama, "h100", {"--tp-size", "2"}).weights_bytes);

  // With data parallelism of attention each rank holds all of it and of the embedding. Layers of
  // 4096 by 2 x 4096 + 2 x 1024 and a table of 128256 x 4096, in 16 bits.
  constexpr int64_t kAttention = int64_t{32} * 4096 * (2 * 4096 + 2 * 1024) * 2;
  constexpr int64_t kTable = int64_t{128256} * 4096 * 2;
  const PlanResult cut = plan_sglang(llama, "h100", {"--tp-size", "4"});
  const PlanResult whole =
      plan_sglang(llama, "h100", {"--tp-size", "4", "--dp-size", "4", "--enable-dp-attention"});
  CHECK(whole.gpus == 4);
  CHECK(whole.weights_bytes - cut.weights_bytes == (kAttention + kTable) / 4 * 3);
}

TEST_CASE("SGLang's expert parallelism is checked, and divides experts as tensors do") {
  const Json mixture = read_json_file(kEngineData + "configs/zai-org__GLM-4.5.json");
  const auto plan = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--tp-size", "8"});
    return plan_sglang(mixture, "h200", std::move(words));
  };
  CHECK(plan({"--ep-size", "8"}).weights_bytes == plan({}).weights_bytes);
  CHECK_THAT(plan({"--ep-size", "3"}).reason, Catch::Contains("--expert-parallel-size 3"));
  CHECK(plan({"--ep-size", "3"}).refused);
  CHECK_THAT(plan({"--tp-size", "96", "--ep-size", "96"}).reason, Catch::Contains("160 experts"));
  // 160 experts and 32 copies of some, among 96 ranks that exchange tokens.
  Json divisible = mixture;
  divisible["vocab_size"] = 153600;
  std::vector<std::string> exchange = {"--tp-size", "96", "--moe-a2a-backend", "deepep"};
  CHECK_THAT(
      plan_sglang(divisible, "h200", exchange).reason,
      Catch::Contains("160 experts are not divisible by the ranks of --moe-a2a-backend, 96"));
  exchange.insert(exchange.end(), {"--ep-num-redundant-experts", "32"});
  CHECK_FALSE(plan_sglang(divisible, "h200", exchange).refused);
  // 1536 columns of an expert in slices of 192, which blocks of 128 scales do not divide.
  Json blocks = mixture;
  blocks["quantization_config"] = {
      {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  blocks["moe_intermediate_size"] = 1536;
  blocks["n_shared_experts"] = 0;
  CHECK_THAT(plan_sglang(blocks, "h200", {"--tp-size", "8"}).reason,
             Catch::Contains("weight = 192 is not divisible"));
  CHECK(plan_sglang(blocks, "h200", {"--tp-size", "8", "--ep-size", "2"}).fits == true);
}

TEST_CASE("LMDeploy divides attention, experts and the rest each among ranks of their own") {
  const Json mixture = read_json_file(kEngineData + "configs/zai-org__GLM-4.5.json");
  const auto plan = [&](std::vector<std::string> words) {
    engines::Question question;
    question.config = &mixture;
    question.config_path = "config.json";
    question.words = std::move(words);
    question.gpu = &hardware::find_gpu("h200");
    return plan_engine(*engines::find_engine("lmdeploy"), question, {mixture, "config.json"}, true);
  };
  const PlanResult cut = plan({"--tp", "8"});
  const PlanResult apart = plan({"--tp", "8", "--dp", "8", "--ep", "8"});
  CHECK(apart.gpus == 8);
  CHECK(apart.weights_bytes > cut.weights_bytes);      // attention and embedding are whole
  CHECK(apart.weights_bytes < cut.weights_bytes * 2);  // experts are not
  CHECK(plan({"--tp", "8", "--ep", "8"}).weights_bytes == cut.weights_bytes);
  const PlanResult copies = plan({"--dp", "8", "--ep", "8"});  // dense layers are whole, too
  CHECK(copies.gpus == 8);
  CHECK(copies.weights_bytes > apart.weights_bytes);
}
