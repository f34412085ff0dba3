// The releases at which a model's layout changes: which states are kept, sizes of blocks, kernels
// of latents, types of caches, tables and weights. Each scene watches one figure of a published
// config.
#include <algorithm>
#include <catch2/catch.hpp>

#include <fmt/ranges.h>

#include "plan/scene.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

Json published(const std::string& name) {
  return test::vllm_config(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/vllm/configs/" + name +
                           ".json");
}

const Json& qwen_next() {
  static const Json config = published("Qwen__Qwen3-Next-80B-A3B-Thinking");
  return config;
}
const Json& nemotron() {
  static const Json config = published("nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16");
  return config;
}
const Json& deepseek() {
  static const Json config = published("deepseek-ai__DeepSeek-V3");
  return config;
}
const Json& sparse_deepseek() {
  static const Json config = published("deepseek-ai__DeepSeek-V3.2");
  return config;
}

Json bounded_kimi() {
  Json config = kimi_linear();
  config["linear_attn_config"]["gate_lower_bound"] = -5.0;
  return config;
}

/// Nemotron-H whose config names no type of its states.
Json without_state_type() {
  Json config = nemotron();
  config.erase("mamba_ssm_cache_dtype");
  return config;
}

Json with_alternating_windows() {
  Json config = uneven_windows();
  config["max_position_embeddings"] = 131072;
  return config;
}

// ---- what is asked ----

Ask two_ranks(Ask ask = nothing) {
  return [=](EngineArgs& args) {
    ask(args);
    args.tensor_parallel = 2;
    args.available_kv = int64_t{40} << 30;
  };
}

Ask caching(const char* mode = "") {
  return two_ranks([=](EngineArgs& args) {
    args.prefix_caching = true;
    args.state_mode = mode;
  });
}

Ask cache_of(const char* dtype) {
  return two_ranks([=](EngineArgs& args) { args.kv_cache_dtype = dtype; });
}

void small_step(EngineArgs& args) {
  draft("eagle")(args);
  args.draft_tokens = 64;
  args.max_num_seqs = 1;
  args.max_num_batched_tokens = 64;
  args.max_model_len = 64;
}

// ---- what is watched ----

/// Whether prefixes are cached, how many groups hold a fixed number of states for a request, and
/// how many blocks each: those states, and those beyond the request's tokens.
std::string states(const PlanResult& result) {
  int64_t groups = 0, blocks = 0, beyond = 0;
  for (const GroupNeed& need : result.group_needs) {
    if (need.state_blocks > 0) ++groups;
    blocks = std::max(blocks, need.state_blocks);
    beyond = std::max(beyond, need.extra_blocks);
  }
  return fmt::format("{}: {} x {}, {}", result.prefix_caching.value(), groups, blocks, beyond);
}

std::string block(const PlanResult& result) {
  return fmt::format("{}", result.block_size);
}

std::string pages(const PlanResult& result) {
  std::string text;
  for (const KvKindCount& kind : result.kv_kinds)
    text += fmt::format("{} ", kind.spec.page.value());
  return text;
}

std::string group_sizes(const PlanResult& result) {
  return fmt::format("{}", fmt::join(result.group_sizes, " "));
}

std::string bytes_of_block(const PlanResult& result) {
  return fmt::format("{}", result.bytes_per_block);
}

const auto kBuffers = number(&StageFigures::buffer_bytes);
const auto kParameters = number(&StageFigures::parameter_bytes);

std::vector<Scene> state_scenes() {
  return {
      {"states by default", nemotron(), two_ranks(), "h100", states, {"10.2", "28.0", "32.0"}},
      {"states with prefixes",
       nemotron(),
       caching(),
       "h100",
       states,
       {"10.2", "11.1", "28.0", "32.0"}},
      {"all states asked for", nemotron(), caching("all"), "h100", states, {"15.0", "32.0"}},
      {"states at blocks asked for",
       nemotron(),
       caching("align"),
       "h100",
       states,
       {"15.0", "32.0"}},
      {"states of the gated delta rule",
       qwen_next(),
       two_ranks(),
       "h100",
       states,
       {"8.0", "28.0", "33.0"}},
      {"states of the gated delta rule with prefixes",
       qwen_next(),
       caching(),
       "h100",
       states,
       {"8.0", "15.0", "33.0"}},
      {"states of the gated delta rule on an A100",
       qwen_next(),
       two_ranks(),
       "a100-80gb",
       states,
       {"8.0", "28.0"}},
      {"states of Kimi's delta rule",
       bounded_kimi(),
       two_ranks(),
       "h100",
       states,
       {"8.0", "28.0", "29.0"}},
      {"states of Kimi's delta rule without a bound",
       kimi_linear(),
       two_ranks(),
       "h100",
       states,
       {"8.0", "28.0"}},
      {"states and tokens of a draft",
       nemotron(),
       two_ranks([](EngineArgs& args) {
         draft("ngram")(args);
         args.prefix_caching = true;
         args.state_mode = "align";
       }),
       "h100",
       states,
       {"10.0", "10.2", "15.0", "17.0", "32.0"}},
      {"all states and tokens of a draft",
       nemotron(),
       two_ranks([](EngineArgs& args) {
         draft("ngram")(args);
         args.prefix_caching = true;
       }),
       "h100",
       states,
       {"10.0", "10.2", "11.1", "22.0", "28.0", "32.0"}},
      {"a block of states asked for",
       nemotron(),
       two_ranks([](EngineArgs& args) { args.state_block_size = 256; }),
       "h100",
       is_fit,
       {"11.1", "28.0"}},
      {"the block of a hybrid", qwen_next(), two_ranks(), "h100", block, {"8.0", "33.0"}},
      {"the block of a hybrid with latents",
       kimi_linear(),
       two_ranks(),
       "h100",
       block,
       {"8.0", "11.1", "20.0", "27.0"}},
      {"the type of states that no config names",
       without_state_type(),
       two_ranks(),
       "h100",
       pages,
       {"10.2", "20.0"}},
      {"the type of states that a config names",
       nemotron(),
       two_ranks(),
       "h100",
       pages,
       {"10.2", "13.0"}},
      {"groups of states", nemotron(), two_ranks(), "h100", group_sizes, {"10.2", "11.1"}},
  };
}

std::vector<Scene> cache_scenes() {
  return {
      {"latents on an H100", deepseek(), two_ranks(), "h100", block, {"15.0"}},
      {"latents on a B200", deepseek(), two_ranks(), "b200", block, {"15.0"}},
      {"latents on an A100", deepseek(), two_ranks(), "a100-80gb", block, {}},
      {"latents in fp8 on an H100", deepseek(), cache_of("fp8"), "h100", block, {}},
      {"latents in fp8 on an L40S", deepseek(), cache_of("fp8"), "l40s", is_fit, {"18.0"}},
      {"chosen latents on an H100", sparse_deepseek(), two_ranks(), "h100", pages, {"11.1"}},
      {"chosen latents in fp8", sparse_deepseek(), cache_of("fp8"), "h100", pages, {}},
      {"chosen latents in fp8_e4m3",
       sparse_deepseek(),
       cache_of("fp8_e4m3"),
       "h100",
       pages,
       {"18.0", "30.0"}},
      {"chosen latents in fp8 on a B200",
       sparse_deepseek(),
       cache_of("fp8"),
       "b200",
       pages,
       {"18.0"}},
      {"chosen latents on an RTX 5090", sparse_deepseek(), two_ranks(), "5090", is_fit, {"24.0"}},
      {"chosen latents of GLM-5 on a B200",
       published("zai-org__GLM-5.1-FP8"),
       two_ranks(),
       "b200",
       pages,
       {"11.1", "32.0"}},
      {"DeepSeek-V4's cache by default",
       published("deepseek-ai__DeepSeek-V4-Flash"),
       two_ranks(),
       "h100",
       is_fit,
       {"30.0"}},
      {"DeepSeek-V4's block",
       published("deepseek-ai__DeepSeek-V4-Flash"),
       cache_of("fp8"),
       "h100",
       bytes_of_block,
       {"9.1", "27.0"}},
      {"DeepSeek-V4's groups",
       published("deepseek-ai__DeepSeek-V4-Flash"),
       cache_of("fp8"),
       "h100",
       group_sizes,
       {"9.1", "29.0"}},
      {"the block of large heads in fp8",
       published("nvidia__Gemma-4-26B-A4B-NVFP4"),
       two_ranks(),
       "h100",
       block,
       {"31.0"}},
      {"MiMo V2's cache in fp8",
       published("XiaomiMiMo__MiMo-V2-Flash"),
       cache_of("fp8"),
       "h100",
       pages,
       {"32.0"}},
      {"groups of attention in chunks",
       published("meta-llama__Llama-4-Scout-17B-16E-Instruct"),
       two_ranks(),
       "h100",
       group_sizes,
       {"14.0"}},
      {"the longest request of layers with windows",
       with_alternating_windows(),
       [](EngineArgs& args) {
         same_step(args);
         args.available_kv = int64_t{1} << 30;
       },
       "h100",
       kLongest,
       {"8.3", "14.0", "18.0", "26.0", "29.0"}},
      {"a draft as long as a step", llama_8b(), small_step, "h100", is_fit, {"33.0"}},
  };
}

std::vector<Scene> weight_scenes() {
  Json dynamic = llama_8b();
  dynamic["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  return {
      {"a table in sections",
       published("Qwen__Qwen3-VL-32B-Instruct"),
       two_ranks(),
       "h100",
       kBuffers,
       {"12.0", "32.0"}},
      {"a table that is stretched as it grows", dynamic, nothing, "h100", kBuffers, {"22.0"}},
      {"YaRN's table of latents", deepseek(), two_ranks(), "h100", kBuffers, {"14.0"}},
      {"tables of an indexer", sparse_deepseek(), two_ranks(), "h100", kBuffers, {"12.0", "14.0"}},
      {"an indexer", sparse_deepseek(), two_ranks(), "h100", kParameters, {"20.0"}},
      {"GLM-5's router",
       published("zai-org__GLM-5.1-FP8"),
       two_ranks(),
       "h100",
       kParameters,
       {"20.0", "25.0", "26.0"}},
      {"Nemotron-H's router", nemotron(), two_ranks(), "h100", kParameters, {"17.0"}},
      {"Nemotron-H's router on an A100", nemotron(), two_ranks(), "a100-80gb", kParameters, {}},
      {"experts in the model's type on a B200",
       nemotron(),
       two_ranks(),
       "b200",
       kParameters,
       {"17.0", "31.0"}},
      {"experts in int4",
       published("moonshotai__Kimi-K2.5"),
       two_ranks(),
       "h100",
       kParameters,
       {"30.0"}},
      {"convolutions of states", nemotron(), two_ranks(), "h100", kBuffers, {"12.0"}},
      {"SigLIP's positions",
       sample("gemma-3-27b-it.json"),
       two_ranks(),
       "h100",
       kParameters,
       {"14.0"}},
      {"Qwen 2.5 VL's tower",
       sample("qwen2.5-vl-3b.json"),
       two_ranks(),
       "h100",
       kBuffers,
       {"12.0"}},
      {"a class that became transformers'",
       published("microsoft__phi-2"),
       nothing,
       "h100",
       kBuffers,
       {"32.0"}},
  };
}

void check(const std::vector<Scene>& scenes) {
  for (const Scene& scene : scenes) {
    INFO(scene.name);
    CHECK(changes_of([&](const VllmVersion& at) { return answer(scene, at); }) == scene.changes);
  }
}

}  // namespace

TEST_CASE("recurrent states are kept by the rules of each release") {
  check(state_scenes());
}

TEST_CASE("caches are of the kernels of each release") {
  check(cache_scenes());
}

TEST_CASE("tables and weights are those of each release") {
  check(weight_scenes());
}
