// Reasons beside memory that end a launch of vLLM, and differences between releases and cards:
// lengths, dtypes, blocks of state, kernels of 4-bit experts.
#include <catch2/catch.hpp>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "plan/configs.h"
#include "plan/report/report.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"
#include "vllm_config.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

bool says(const PlanResult& result, const std::string& words) {
  return std::any_of(result.notes.begin(), result.notes.end(), [&](const std::string& note) {
    return note.find(words) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("YaRN stretches the length that a release takes") {
  const Json config = qwen_with_yarn();
  EngineArgs args = at({0, 29, 0});
  CHECK(plan_of(config, args).max_model_len == 131072);
  args.max_model_len = 131073;
  CHECK_THAT(refusal_of(config, args), Catch::Contains("User-specified max_model_len (131073)") &&
                                           Catch::Contains("Use --max-model-len 131072"));
  // max_position_embeddings counts as stretched already from 0.30 on, and more must be asked for.
  args = at({0, 32, 0});
  const PlanResult usual = plan_of(config, args);
  CHECK(usual.max_model_len == 32768);
  CHECK(says(usual, "stretches this model's positions to 131072"));
  args.max_model_len = 131072;
  const PlanResult asked = plan_of(config, args);
  CHECK(asked.max_model_len == 131072);
  CHECK(says(asked, "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"));
  args.max_model_len = 131073;
  CHECK_FALSE(refusal_of(config, args).empty());
}

TEST_CASE("longrope's length before stretching is the default and no bound") {
  Json config = llama_8b();
  config["architectures"] = {"Phi3ForCausalLM"};
  config["original_max_position_embeddings"] = 4096;
  config["rope_scaling"] = {{"type", "longrope"}};
  CHECK(plan_of(config, {}).max_model_len == 4096);
  CHECK(plan_of(config, at({0, 11, 0})).max_model_len == 131072);
  EngineArgs args;
  args.max_model_len = 32768;
  CHECK(plan_of(config, args).max_model_len == 32768);
  args.max_model_len = 131073;
  CHECK_THAT(refusal_of(config, args), Catch::Contains("max_position_embeddings=131072"));
}

TEST_CASE("a config without a length takes any, and 1 is one") {
  Json config = llama_8b();
  EngineArgs args;
  args.max_model_len = 1;
  const PlanResult shortest = plan_of(config, args);
  CHECK(shortest.max_model_len == 1);
  CHECK(shortest.max_num_batched_tokens == shortest.max_num_seqs);
  CHECK(*shortest.fits);
  config.erase("max_position_embeddings");
  CHECK(plan_of(config, {}).max_model_len == 2048);
  args.max_model_len = 100000;
  CHECK(plan_of(config, args).max_model_len == 100000);
}

TEST_CASE("float16 is refused for models that overflow it, by name") {
  EngineArgs args;
  args.dtype = "float16";
  CHECK_THAT(refusal_of(gemma2(), args),
             Catch::Contains("The model type 'gemma2' does not support float16") &&
                 Catch::Contains("--dtype bfloat16"));
  args.version = {0, 9, 0};
  CHECK(plan_of(gemma2(), args).dtype == "float16");
}

TEST_CASE("a card without bfloat16 computes in float32 where float16 overflows") {
  const PlanResult small = plan_of(gemma2(), {}, "h100");
  const PlanResult wide = plan_of(gemma2(), {}, "t4");
  CHECK(wide.dtype == "float32");
  CHECK(wide.parameter_bytes == 2 * small.parameter_bytes);
  CHECK(plan_of(llama_8b(), {}, "t4").dtype == "float16");
  CHECK_THAT(refusal_of(llama_8b(), at({0, 9, 0}), "t4"),
             Catch::Contains("Bfloat16 is only supported on GPUs with compute capability"));
  Json packed = gemma2();
  packed["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  CHECK_THAT(refusal_of(packed, {}, "t4"),
             Catch::Contains("torch.float32 is not supported for quantization method awq"));
}

TEST_CASE("graphs of whole steps need a block of state for each sequence") {
  EngineArgs args;
  args.max_num_seqs = 1024;
  args.available_kv = kGib;
  const PlanResult refused = plan_of(hybrid(), args);
  REQUIRE(refused.num_gpu_blocks < 1024);
  CHECK_FALSE(*refused.fits);
  CHECK_THAT(refused.reason,
             Catch::Contains("max_num_seqs (1024) exceeds available Mamba cache blocks (" +
                             std::to_string(refused.num_gpu_blocks) + ")"));
  EngineArgs fewer = args;
  fewer.max_num_seqs = refused.num_gpu_blocks;
  CHECK(*plan_of(hybrid(), fewer).fits);
  EngineArgs eager = args;
  eager.enforce_eager = true;
  CHECK(*plan_of(hybrid(), eager).fits);
  fewer = args, fewer.graphs.mode = "PIECEWISE";
  CHECK(*plan_of(hybrid(), fewer).fits);
  args.version = {0, 19, 1};
  CHECK(*plan_of(hybrid(), args).fits);
}

TEST_CASE("the cure for too few blocks of state is among the advice") {
  const Json config = hybrid();
  const PlanFunction plan = [&](const EngineArgs& a, const hardware::Gpu* gpu) {
    return plan_vllm({config, "config.json"}, a, gpu);
  };
  EngineArgs args = at({0, 32, 0});  // from 0.33 on the sampler for so many leaves no cache at all
  args.max_num_seqs = 4096;
  args.max_num_batched_tokens = 8192;
  const hardware::Gpu gpu = hardware::unnamed_gpu(9 * kGib);
  const PlanResult base = plan(args, &gpu);
  REQUIRE_FALSE(*base.fits);
  const std::vector<Suggestion> advice = advise(plan, args, &gpu, base);
  const std::string flag = "--max-num-seqs " + std::to_string(base.num_gpu_blocks);
  CHECK(std::any_of(advice.begin(), advice.end(), [&](const Suggestion& suggestion) {
    return suggestion.flag == flag && suggestion.fits;
  }));
}

TEST_CASE("DeepSeek-V4 without the hybrid manager ends with each release's own words") {
  const Json config = test::vllm_config(
      PLIMSOLL_SOURCE_DIR "/tests/data/vllm/configs/deepseek-ai__DeepSeek-V4-Flash.json");
  EngineArgs args;
  args.tensor_parallel = 8;
  CHECK(refusal_of(config, args).empty());
  args.hybrid_kv = false;
  CHECK_THAT(refusal_of(config, args), Catch::Contains("unexpected keyword argument"));
  args.version = {0, 32, 0};
  CHECK_THAT(refusal_of(config, args), Catch::Contains("Failed to promote"));
}

TEST_CASE("arguments that vLLM refuses whatever the memory") {
  struct Case {
    const char* says;
    void (*change)(EngineArgs&);
  };
  const std::vector<Case> cases = {
      {"Total number of attention heads (32) must be divisible by tensor parallel size (3)",
       [](EngineArgs& a) { a.tensor_parallel = 3; }},
      {"Number of experts in the model must be greater than 0",
       [](EngineArgs& a) { a.expert_parallel = true; }},
      {"tensor_parallel_size is 1, so there is nothing to shard",
       [](EngineArgs& a) { a.sharded_sampling = true; }},
      {"max_num_seqs (2) is below tensor_parallel_size (4)",
       [](EngineArgs& a) { a.sharded_sampling = true, a.tensor_parallel = 4, a.max_num_seqs = 2; }},
      {"unrecognized arguments: --enable-batch-sharded-sampling",
       [](EngineArgs& a) {
         a.sharded_sampling = true, a.tensor_parallel = 4, a.version = {0, 28, 0};
       }},
      {"max_lora_rank (24) must be one of (1, 8, 16",
       [](EngineArgs& a) { a.lora = true, a.lora_rank = 24; }},
      {"max_lora_rank (1) must be one of (8, 16",
       [](EngineArgs& a) {
         a.lora = true, a.lora_rank = 1, a.version = {0, 11, 0};
       }},
      {"Consider increasing max_num_batched_tokens",
       [](EngineArgs& a) { a.lora = true, a.draft_tokens = 31, a.draft_method = "ngram"; }},
      {"max_num_batched_tokens=32 and num_lookahead_tokens=32. Use --max-num-batched-tokens 33",
       [](EngineArgs& a) {
         a.max_num_batched_tokens = 32, a.draft_tokens = 31, a.draft_method = "dflash";
       }},
      {"max_num_batched_tokens=32 and num_lookahead_tokens=32. Use --max-num-batched-tokens 33",
       [](EngineArgs& a) {
         a.max_num_batched_tokens = 32, a.draft_tokens = 32, a.draft_method = "eagle3";
       }},
      {"max_num_batched_tokens (16) must be greater than or equal to max_num_seqs (32)",
       [](EngineArgs& a) { a.max_num_batched_tokens = 16, a.max_num_seqs = 32; }},
      {"Unknown quantization method: sorcery", [](EngineArgs& a) { a.quantization = "sorcery"; }},
  };
  for (const Case& c : cases) {
    EngineArgs args;
    c.change(args);
    CHECK_THAT(refusal_of(llama_8b(), args), Catch::Contains(c.says));
  }
  EngineArgs args;
  args.hybrid_kv = false;
  CHECK_THAT(refusal_of(hybrid(), args), Catch::Contains("--disable-hybrid-kv-cache-manager"));
  args = {};
  args.quantization = "awq";
  Json packed = llama_8b();
  packed["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
  CHECK_THAT(refusal_of(packed, args), Catch::Contains("does not match the quantization"));
  args.quantization = "gptq_marlin";
  CHECK(refusal_of(packed, args).empty());
}

TEST_CASE("a method that vLLM means to drop launches with its flag alone") {
  Json config = llama_8b();
  config["quantization_config"] = {{"quant_method", "fbgemm_fp8"},
                                   {"activation_scale_ub", 1200.0},
                                   {"modules_to_not_convert", {"lm_head"}}};
  CHECK_THAT(refusal_of(config, {}), Catch::Contains("set `--allow-deprecated-quantization`"));
  EngineArgs args;
  args.deprecated_quantization = true;
  const PlanResult result = plan_of(config, args);
  config["quantization_config"] = {{"quant_method", "modelopt"},
                                   {"quant_algo", "FP8_PER_CHANNEL_PER_TOKEN"},
                                   {"ignore", {"lm_head"}}};
  // Four layers each have a bound beside it, and attention no scales of 16 bits.
  const int64_t layers = 32, bounds = 4 * layers * 4, scales = layers * 4 * 2;
  CHECK(result.parameter_bytes == plan_of(config, {}).parameter_bytes + bounds - scales);
}

TEST_CASE("Quark's patterns say what is stored otherwise") {
  const Json fp8 = {{"dtype", "fp8_e4m3"}, {"qscheme", "per_tensor"}, {"is_dynamic", false}};
  const Json fp4 = {{"dtype", "fp4"}, {"qscheme", "per_group"}, {"group_size", 32}};
  const auto entry = [](const Json& weight) {
    return Json{{"weight", weight}, {"input_tensors", weight}};
  };
  const auto config_of = [&](const Json& usual, const Json& layers) {
    Json config = llama_8b();
    config["quantization_config"] = {{"quant_method", "quark"},
                                     {"export", {{"kv_cache_group", Json::array()}}},
                                     {"global_quant_config", entry(usual)},
                                     {"layer_quant_config", layers},
                                     {"exclude", {"lm_head"}}};
    return config;
  };
  const auto bytes = [&](const Json& usual, const Json& layers) {
    return plan_of(config_of(usual, layers), {}).parameter_bytes;
  };
  const int64_t large = bytes(fp8, Json::object()), small = bytes(fp4, Json::object());
  const int64_t mixed = bytes(fp4, {{"*self_attn*", entry(fp8)}});
  const int64_t attention = int64_t{32} * 4096 * (4096 + 1024) * 2;  // elements
  CHECK(large - small > 3 * int64_t{1000000000});
  CHECK(mixed - small == attention - attention * 17 / 32 + int64_t{32} * 2 * 4 * 4);  // and scales
  CHECK_THROWS_WITH(
      bytes({{"dtype", "int4"}, {"qscheme", "per_group"}}, Json::object()),
      Catch::Contains("Quark's weights of \"int4\" by \"per_group\" are not supported"));
}

TEST_CASE("tokens of a step cap the sequences, from the release that does so on") {
  EngineArgs args;
  args.max_num_batched_tokens = 512;
  CHECK(plan_of(llama_8b(), args).max_num_seqs == 512);
  args.version = {0, 9, 2};
  CHECK_THAT(refusal_of(llama_8b(), args), Catch::Contains("greater than or equal to"));
}

TEST_CASE("quantization that the name tells and the config does not") {
  const Json config = llama_8b();
  const auto plan = [&](const EngineArgs& args, const char* path) {
    return plan_vllm({config, path}, args, &hardware::find_gpu("b200"));
  };
  const PlanResult whole = plan({}, "Llama-3.1-8B-NVFP4/config.json");
  CHECK(says(whole, "NVFP4 is said of this model"));
  EngineArgs args;
  args.quantization = "modelopt_fp4";
  const PlanResult packed = plan(args, "Llama-3.1-8B-NVFP4/config.json");
  CHECK(packed.parameter_bytes < whole.parameter_bytes / 2);
  CHECK(says(packed, "planned as modelopt_fp4 checkpoints usually are"));
  CHECK_FALSE(says(packed, "is said of this model"));
  CHECK_FALSE(says(plan({}, "Llama-3.1-8B/config.json"), "is said of this model"));
}

TEST_CASE("experts in mxfp4 take what their kernel makes of them") {
  // Logged: 13.47 and 64.38 GiB on one H100 (by 0.11 with the package triton_kernels, which vLLM
  // has inside from 0.12 on), 7.01 by 0.19 on each of two.
  const auto weights = [](const Json& config, VllmVersion version, int64_t ranks,
                          const char* gpu = "h100") {
    EngineArgs args = at(version);
    args.tensor_parallel = ranks;
    return gib(plan_of(config, args, gpu).weights_bytes);
  };
  CHECK(weights(gpt_oss(24, 32), {0, 12, 0}, 1) == Approx(13.47).epsilon(0.005));
  CHECK(weights(gpt_oss(36, 128), {0, 12, 0}, 1) == Approx(64.38).epsilon(0.005));
  CHECK(weights(gpt_oss(24, 32), {0, 19, 0}, 2) == Approx(7.01).epsilon(0.005));
  CHECK(weights(gpt_oss(24, 32), {0, 11, 0}, 1) == Approx(13.70).epsilon(0.005));
  // Marlin's kernel, on cards before Hopper, pads widths to 256 and 128.
  CHECK(weights(gpt_oss(24, 32), {0, 32, 0}, 1, "a100-80gb") == Approx(13.70).epsilon(0.005));
}

TEST_CASE("the first engine on a small card holds more beside its weights") {
  // Logged by 0.6 on an RTX 3090: 0.35 GiB outside torch; 3.81 and 2.89 GiB for the cache.
  EngineArgs args = at({0, 6, 0});
  args.gpu_memory_utilization = 0.90;
  for (const auto& [length, cache] : {std::pair{20000, 3.81}, std::pair{29000, 2.89}}) {
    args.max_model_len = length;
    const PlanResult result = plan_of(llama_8b(), args, "3090");
    CHECK(gib(result.non_torch_bytes) == Approx(0.35).epsilon(0.02));
    CHECK(gib(result.kv_cache_bytes) == Approx(cache).epsilon(0.01));
  }
}

TEST_CASE("a GB10 keeps the defaults of a small card") {
  // Logged by 0.11.0, 0.13.0, 0.18.1 and 0.27.1; its driver does not tell vLLM its memory.
  hardware::Gpu spark = hardware::find_gpu("gb10");
  spark.memory_bytes = 120 * kGib;
  const auto limits = [&](int minor, Usage usage) {
    EngineArgs args = at({0, minor, 0});
    args.usage = usage;
    const PlanResult plan = plan_vllm({llama_8b(), "config.json"}, args, &spark);
    return std::pair(plan.max_num_batched_tokens, plan.max_num_seqs);
  };
  for (const int minor : {11, 13, 18, 27, 32, 33}) {
    CHECK(limits(minor, Usage::server) == std::pair<int64_t, int64_t>(2048, 256));
    CHECK(limits(minor, Usage::offline) == std::pair<int64_t, int64_t>(8192, 256));
  }
}

TEST_CASE("the first engine reads prompts of more than 32768 tokens in parts") {
  struct Row {
    const char* name;
    VllmVersion version;
    std::function<void(EngineArgs&, Json&)> change;
    int64_t tokens;
  };
  const auto longer = [](EngineArgs& args, Json&) { args.max_model_len = 32769; };
  const auto images = [](EngineArgs& args, Json& config) {
    args.max_model_len = 2048;
    config = test::vllm_config(PLIMSOLL_SOURCE_DIR "/samples/plans/configs/internvl2-2b.json");
  };
  const Row rows[] = {
      {"no more, with images", {0, 5, 5}, images, 2048},
      {"4096, with images", {0, 6, 2}, images, 4096},
      {"5120, with images", {0, 6, 3}, images, 5120},
      {"whole, before it did so", {0, 5, 2}, longer, 32769},
      {"in parts", {0, 5, 3}, longer, 512},
      {"in parts", {0, 6, 4}, longer, 512},
      {"in larger parts", {0, 6, 5}, longer, 2048},
      {"by the model's own length", {0, 7, 3}, [](EngineArgs&, Json&) {}, 2048},
      {"whole, as short",
       {0, 7, 3},
       [](EngineArgs& args, Json&) { args.max_model_len = 32768; },
       32768},
      {"whole, as asked",
       {0, 7, 3},
       [](EngineArgs& args, Json&) { args.chunked_prefill = false; },
       131072},
      {"whole, with adapters",
       {0, 7, 3},
       [](EngineArgs& args, Json&) { args.lora = true; },
       131072},
      {"whole, with a window",
       {0, 7, 3},
       [](EngineArgs&, Json& config) { config["sliding_window"] = 4096; },
       131072},
      {"in parts, the window being off",
       {0, 7, 3},
       [](EngineArgs&, Json& config) {
         config["sliding_window"] = 4096, config["use_sliding_window"] = false;
       },
       2048},
      {"whole, with a cache of prefixes",
       {0, 6, 0},
       [](EngineArgs& args, Json&) { args.prefix_caching = true; },
       131072},
      {"in parts, with a cache of prefixes",
       {0, 6, 1},
       [](EngineArgs& args, Json&) { args.prefix_caching = true; },
       512},
  };
  for (const Row& row : rows) {
    INFO(row.name << " by " << version_text(row.version));
    EngineArgs args = at(row.version);
    Json config = llama_8b();
    row.change(args, config);
    CHECK(plan_of(config, args).max_num_batched_tokens == row.tokens);
  }
}

TEST_CASE("the first engine sorts logits where no flag asks for FlashInfer's sampler") {
  // 256 rows of 128256 logits in 2 and 36 bytes, states of 2048 and twice 256 tokens, 8 MiB.
  constexpr int64_t kRows = 256, kLogits = kRows * 128256 * 38;
  constexpr int64_t kStates = (2048 + 2 * kRows) * 4096 * 2 + 8 * 1048576;
  EngineArgs args = at({0, 7, 2});
  CHECK(plan_of(llama_8b(), args, "4090").activation_peak_bytes == kLogits + kStates);
  args.flashinfer_sampler = true;
  CHECK(plan_of(llama_8b(), args, "4090").activation_peak_bytes < kLogits);
}

TEST_CASE("from 0.33 on a cache of 16 bits has the model's type") {
  EngineArgs args = at({0, 33, 0});
  args.kv_cache_dtype = "float16";
  CHECK(refusal_of(llama_8b(), args) ==
        "kv_cache_dtype=\"float16\" is incompatible with dtype=\"bfloat16\". Please set "
        "`--kv-cache-dtype` to `auto` or `bfloat16`.");
  args.kv_cache_dtype = "bfloat16";
  CHECK(refusal_of(llama_8b(), args).empty());
}
