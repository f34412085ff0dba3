// Advice of `plan` when a launch does not fit, and the quantizations that cards take.
#include <catch2/catch.hpp>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "plan/configs.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"
#include "vllm_config.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

std::vector<Suggestion> advice_for(const char* config, const char* card, const EngineArgs& args) {
  const Json json = test::vllm_config(kConfigs + config + ".json");
  const hardware::Gpu& gpu = hardware::find_gpu(card);
  const auto plan = [&](const EngineArgs& changed, const hardware::Gpu* on) {
    return plan_vllm({json, "config.json"}, changed, on);
  };
  return advise(plan, args, &gpu, plan(args, &gpu));
}

const Suggestion* with_flag(const std::vector<Suggestion>& advice, const std::string& flag) {
  const auto found = std::find_if(advice.begin(), advice.end(),
                                  [&](const Suggestion& s) { return s.flag == flag; });
  return found == advice.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("the advised number of ranks is the fewest that fits") {
  struct Row {
    const char* card;
    int64_t asked;
    const char* advised;
  };
  for (const Row& row : {Row{"a100-40gb", 1, "--tensor-parallel-size 4"},
                         Row{"a100-80gb", 1, "--tensor-parallel-size 2"},
                         Row{"a100-80gb", 2, "--tensor-parallel-size 4"},
                         Row{"a100-80gb", 4, "--tensor-parallel-size 8"}}) {
    INFO(row.card << ", " << row.asked << " asked for");
    EngineArgs args;
    args.tensor_parallel = row.asked;
    const auto advice = advice_for("llama-2-70b", row.card, args);
    REQUIRE(with_flag(advice, row.advised) != nullptr);
    CHECK(with_flag(advice, row.advised)->fits);
  }
}

TEST_CASE("the advised length is the longest that fits") {
  const auto advice = advice_for("llama-3.1-8b", "3090", {});
  const auto found = std::ranges::find_if(
      advice, [](const Suggestion& s) { return s.flag.starts_with("--max-model-len "); });
  REQUIRE(found != advice.end());
  CHECK(found->fits);
  CHECK(found->change == "the longest context that fits");
  const auto fits = [](int64_t length) {
    EngineArgs args;
    args.max_model_len = length;
    const Json json = test::vllm_config(kConfigs + "llama-3.1-8b.json");
    return plan_vllm({json, "config.json"}, args, &hardware::find_gpu("3090")).fits;
  };
  const int64_t length = std::stoll(found->flag.substr(std::string("--max-model-len ").size()));
  CHECK(fits(length) == true);
  CHECK(fits(length + 16) == false);  // a block more
}

TEST_CASE("a larger share of the card saves what the budget grows by") {
  EngineArgs args;
  args.gpu_memory_utilization = 0.8;
  const auto advice = advice_for("llama-3.1-8b", "a100-80gb", args);
  const Suggestion* larger = with_flag(advice, "--gpu-memory-utilization 0.95");
  REQUIRE(larger != nullptr);
  const int64_t budget = plan_of(llama_8b(), args, "a100-80gb").budget_bytes;
  args.gpu_memory_utilization = 0.95;
  CHECK(larger->saves == plan_of(llama_8b(), args, "a100-80gb").budget_bytes - budget);
}

TEST_CASE("four bits are advised as the version has them") {
  EngineArgs args;
  const auto four_bits = [](const std::vector<Suggestion>& advice) {
    return std::find_if(advice.begin(), advice.end(), [](const Suggestion& s) {
      return s.change.find("4-bit") != std::string::npos && s.measures == 1;
    });
  };
  const auto recent = advice_for("llama-2-70b", "a100-40gb", args);
  REQUIRE(four_bits(recent) != recent.end());
  CHECK(four_bits(recent)->flag.empty());  // another checkpoint, not a flag
  // 0.5 B and its share of scales and zero points, of 2 B.
  CHECK(static_cast<double>(four_bits(recent)->saves) == Approx(0.73 * 137.9e9).epsilon(0.03));
  args.version = {0, 27, 0};
  const auto earlier = advice_for("llama-2-70b", "a100-40gb", args);
  CHECK(with_flag(earlier, "--quantization bitsandbytes") != nullptr);
}

TEST_CASE("a card that a quantization method does not take is refused as vLLM refuses it") {
  const Json json = test::vllm_config(kConfigs + "llama-2-7b.json");
  EngineArgs args;
  args.quantization = "fp8";
  const auto plan_on = [&](const char* card) {
    return plan_vllm({json, "config.json"}, args, &hardware::find_gpu(card));
  };
  CHECK_NOTHROW(plan_on("t4"));
  CHECK_THROWS_WITH(plan_on("v100-32gb"),
                    "The quantization method fp8 is not supported for the current GPU. Minimum "
                    "capability: 75. Current capability: 70.");
  args.version = {0, 11, 0};
  CHECK_THROWS_AS(plan_on("t4"), Error);
}

TEST_CASE("of models that see, images are advised smaller by their own settings, with tokens") {
  const auto qwen = advice_for("qwen2.5-vl-3b", "t4", {});
  const Suggestion* pixels = with_flag(qwen, R"(--mm-processor-kwargs '{"max_pixels": 1003520}')");
  REQUIRE(pixels != nullptr);
  CHECK(pixels->saves > int64_t{64} << 20);
  CHECK(pixels->change.find("at most 1280 tokens, not 16384") != std::string::npos);
  CHECK(with_flag(qwen, R"(--mm-processor-kwargs '{"max_dynamic_patch": 4}')") == nullptr);
  const auto intern = advice_for("internvl2-2b", "t4", {});
  const Suggestion* tiles =
      with_flag(intern, R"(--mm-processor-kwargs '{"max_dynamic_patch": 4}')");
  REQUIRE(tiles != nullptr);
  CHECK(tiles->saves > 0);
  CHECK(tiles->change.find("at most 1280 tokens, not 3328") != std::string::npos);
  EngineArgs small;
  small.processor["max_pixels"] = 50176;
  CHECK(with_flag(advice_for("qwen2.5-vl-3b", "t4", small), pixels->flag) == nullptr);
}

TEST_CASE("weights that are kept on the host are no part of what is loaded") {
  Json llama_13b = test::vllm_config(kConfigs + "llama-2-7b.json");
  llama_13b["hidden_size"] = 5120;
  llama_13b["intermediate_size"] = 13824;
  llama_13b["num_hidden_layers"] = llama_13b["num_attention_heads"] = 40;
  llama_13b["num_key_value_heads"] = 40;
  const auto plan = [&](const EngineArgs& args) {
    return plan_vllm({llama_13b, "config.json"}, args, &hardware::find_gpu("3090"));
  };
  // vLLM's own help has this launch as its example: "virtually a 34 GB GPU".
  for (const VllmVersion version : {VllmVersion{0, 6, 3}, VllmVersion{0, 32, 0}}) {
    EngineArgs args;
    args.version = version;
    CHECK_THAT(plan(args).reason, Catch::StartsWith("CUDA out of memory while loading") &&
                                      Catch::Contains(" per GPU on a card of "));
    CHECK(plan(args).kv_cache_bytes == 0);
    args.cpu_offload = 10 * kGib;
    CHECK(*plan(args).fits);
    CHECK(plan(args).offloaded_bytes == 10 * kGib);
  }
  EngineArgs args;
  args.cpu_offload = 1000 * kGib;  // at most the layers: embedding and head stay
  const PlanResult most = plan(args);
  CHECK(most.parameter_bytes - most.offloaded_bytes == 2 * int64_t{32000} * 5120 * 2);
  args.cpu_offload = most.offloaded_bytes;  // all that there is
  CHECK(plan(args).kv_cache_bytes == most.kv_cache_bytes);
  CHECK(most.kv_cache_bytes < most.budget_bytes);
  const std::vector<Suggestion> advice = advice_for("opt-13b", "3090", {});
  CHECK(std::any_of(advice.begin(), advice.end(), [](const Suggestion& suggestion) {
    return suggestion.flag.starts_with("--cpu-offload-gb") && suggestion.fits &&
           suggestion.saves > 0;
  }));
}

TEST_CASE("where no measure suffices alone, the least combinations are advised that do") {
  EngineArgs args;
  args.tensor_parallel = 2;
  args.max_model_len = 131072;
  const std::vector<Suggestion> advice = advice_for("gemma-3-27b-it", "4090", args);
  const auto pair = std::find_if(advice.begin(), advice.end(), [](const Suggestion& suggestion) {
    return suggestion.measures > 1 && suggestion.flag.find("tensor-parallel") == std::string::npos;
  });
  REQUIRE(pair != advice.end());
  CHECK(pair->fits);
  CHECK(pair->flag.find("--quantization fp8") != std::string::npos);
}

TEST_CASE("advice says what was asked for, before and after") {
  const auto advice = advice_for("llama-3.1-8b", "a100-80gb", {});
  const Suggestion* fp8 = with_flag(advice, "--kv-cache-dtype fp8");
  REQUIRE(fp8 != nullptr);
  // FlashInfer reads fp8 caches on this card, and takes 394 MiB and 8 MiB for each of 35 graphs.
  CHECK(fp8->requests == Approx(2 * fp8->requests_before).epsilon(0.015));
  for (const Suggestion& suggestion : advice) {
    CHECK(suggestion.change.find("at most 0 tokens") == std::string::npos);
  }
}

TEST_CASE("a refusal that hangs on the first boot's peak is met by a cache of a fixed size first") {
  Json config = llama_8b();
  config["max_position_embeddings"] = 32768;
  const hardware::Gpu& gpu = hardware::find_gpu("5090");
  const auto plan = [&](const EngineArgs& changed, const hardware::Gpu* on) {
    return plan_vllm({config, "config.json"}, changed, on);
  };
  EngineArgs args = at({0, 28, 0});
  args.assume = Assume::worst;
  const PlanResult room = plan(args, &gpu);
  const int64_t needed = 32768 * room.kv_bytes_per_token;
  const int64_t spare = room.bounds->low.kv_cache_bytes - needed - 300 * (int64_t{1} << 20);
  args.gpu_memory_utilization =
      0.92 - static_cast<double>(spare) / static_cast<double>(room.total_bytes);
  const PlanResult refused = plan(args, &gpu);
  REQUIRE_FALSE(*refused.fits);
  CHECK(refused.bounds->low.fits);
  CHECK_THAT(refused.reason, Catch::StartsWith("The first boot, with an empty compile cache: "));
  const std::vector<Suggestion> advice = advise(plan, args, &gpu, refused);
  REQUIRE(refused.bounds->middle.kv_cache_bytes > refused.kv_cache_bytes);
  CHECK(advice.front().flag ==
        "--kv-cache-memory-bytes " + std::to_string(refused.bounds->middle.kv_cache_bytes));
  CHECK(advice.front().fits);
}

TEST_CASE("where a step's peak takes much of a small card, smaller steps are advised first") {
  Json config = llama_8b();
  config.update({{"hidden_size", 2048},
                 {"intermediate_size", 8192},
                 {"num_hidden_layers", 16},
                 {"vocab_size", 256000},
                 {"max_position_embeddings", 32768}});
  const hardware::Gpu& gpu = hardware::find_gpu("3070");
  const auto plan = [&](const EngineArgs& changed, const hardware::Gpu* on) {
    return plan_vllm({config, "config.json"}, changed, on);
  };
  const EngineArgs args = at({0, 33, 0});
  const PlanResult base = plan(args, &gpu);
  REQUIRE(base.activation_peak_bytes + base.persistent_bytes > base.budget_bytes / 16);
  const std::vector<Suggestion> advice = advise(plan, args, &gpu, base);
  const auto at_flag = [&](const char* flag) {
    return std::find_if(advice.begin(), advice.end(),
                        [&](const Suggestion& one) { return one.flag.starts_with(flag); });
  };
  REQUIRE(at_flag("--max-num-seqs") != advice.end());
  CHECK(at_flag("--max-num-seqs")->leads);
  CHECK(at_flag("--max-num-seqs") < at_flag("--kv-cache-dtype"));
}

namespace {

constexpr int64_t kUnit = int64_t{1} << 30;

/// A launch of 130 units on a card that has 100 for it. Smaller steps save 15, no graphs 20, fewer
/// graphs 12; nothing else saves anything.
PlanResult counted_launch(const EngineArgs& args) {
  PlanResult result;
  result.quantized = true;
  result.gpu_memory_utilization = 0.95;
  result.max_model_len = 300;
  result.max_num_seqs = 16;
  result.max_num_batched_tokens = args.max_num_batched_tokens > 0 ? 2048 : 8192;
  result.cuda_graphs = args.enforce_eager ? 0 : 5;
  result.budget_bytes = 100 * kUnit;
  result.weights_bytes = 90 * kUnit;
  result.activation_peak_bytes = (args.max_num_batched_tokens > 0 ? 5 : 20) * kUnit;
  result.cuda_graph_bytes =
      (20 - (args.enforce_eager ? 20 : 0) - (args.capture_sizes ? 12 : 0)) * kUnit;
  result.fits = result.weights_bytes + result.activation_peak_bytes + result.cuda_graph_bytes <=
                result.budget_bytes;
  return result;
}

/// Arguments that leave no more to change.
EngineArgs settled() {
  EngineArgs args;
  args.kv_cache_dtype = "fp8";
  args.cpu_offload = 1;
  args.language_only = true;
  return args;
}

std::vector<Suggestion> advice_on(const EngineArgs& args) {
  const PlanFunction plan = [](const EngineArgs& changed, const hardware::Gpu*) {
    return counted_launch(changed);
  };
  return advise(plan, args, nullptr, counted_launch(args));
}

}  // namespace

TEST_CASE("what a model without a cache offloads is not on the card") {
  const Json bert = {{"architectures", {"BertModel"}},
                     {"model_type", "bert"},
                     {"hidden_size", 1024},
                     {"intermediate_size", 4096},
                     {"num_hidden_layers", 24},
                     {"num_attention_heads", 16},
                     {"vocab_size", 30522},
                     {"max_position_embeddings", 512},
                     {"torch_dtype", "float16"}};
  hardware::Gpu card = hardware::find_gpu("l4");
  EngineArgs args;
  args.gpu_memory_utilization = 0.1;
  const auto plan = [&] { return plan_vllm({bert, "config.json"}, args, &card); };
  const PlanResult whole = plan();
  REQUIRE(whole.fits == true);
  REQUIRE(!whole.has_kv);
  card.cuda_bytes = whole.weights_bytes + whole.activation_peak_bytes + whole.non_torch_bytes +
                    whole.persistent_bytes;
  CHECK(plan().fits == true);
  card.cuda_bytes -= 100 << 20;
  CHECK(plan().fits == false);
  args.cpu_offload = 200 << 20;
  CHECK(plan().fits == true);
}

TEST_CASE("changes are put together where none is enough, one of each subject") {
  const std::vector<Suggestion> advice = advice_on(settled());
  std::vector<std::string> helpful;
  for (const Suggestion& suggestion : advice)
    if (suggestion.helps) helpful.push_back(suggestion.flag);
  CHECK(helpful ==
        std::vector<std::string>{"--enforce-eager --max-num-batched-tokens 2048",
                                 "--max-num-batched-tokens 2048",  // leads: the peak is what binds
                                 "--enforce-eager", "--cudagraph-capture-sizes 1,2,4,8,16"});
  const Suggestion& both = advice.front();
  CHECK(both.fits);
  CHECK(both.measures == 2);
  CHECK(both.saves == 35 * kUnit);
  CHECK(both.change.find(", and ") != std::string::npos);
  CHECK(both.cost.find("; ") != std::string::npos);
  CHECK(with_flag(advice, "--enforce-eager")->saves == 20 * kUnit);
  CHECK(!with_flag(advice, "--enforce-eager")->fits);
}
