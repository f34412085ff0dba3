// The refusals of launches, word for word: they name vLLM's cause with its numbers, and the flag
// that cures it. No two numbers of a launch are equal here, so that each stands in its own place.
#include <catch2/catch.hpp>

#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "launches.h"
#include "vllm/launch/context_ranks.h"
#include "vllm/launch/graphs.h"
#include "vllm/launch/prefixes.h"
#include "vllm/launch/quantization.h"
#include "vllm/launch/refusals.h"
#include "vllm/launch/runner.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::layer_of;

namespace {

EngineArgs launch_at(VllmVersion version, const std::function<void(EngineArgs&)>& change = {}) {
  EngineArgs args;
  args.version = version;
  if (change) change(args);
  return args;
}

/// The refusal; empty: there is none.
std::string told(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

Json class_config(const char* architecture, const Json& keys = Json::object()) {
  Json config = {{"architectures", {architecture}}, {"model_type", "llama"}};
  config.update(keys);
  return config;
}

const Json kLlamaClass = class_config("LlamaForCausalLM");

/// What check_arguments says of 12 sequences and 640 tokens a step.
std::string argued(const EngineArgs& args, const Json& config = kLlamaClass,
                   EngineLimits limits = {.max_num_seqs = 12, .max_num_batched_tokens = 640},
                   int64_t length = 512) {
  return told([&] {
    check_arguments({config, "config.json"}, args, limits,
                    {.usual = 4096, .most = 4096, .reach = 4096, .key = ""}, length);
  });
}

KvPlan cache_of_layers(std::vector<KvLayer> layers) {
  ModelShape shape;
  shape.kv_layers = std::move(layers);
  KvOptions options;
  options.max_model_len = 8192;
  return {shape, options};
}

constexpr VllmVersion kNewest{0, 33, 0};

}  // namespace

TEST_CASE("words on ranks that divide contexts") {
  const auto refusal = [](int64_t tensor, int64_t context, int64_t heads, int64_t kv_heads,
                          VllmVersion version = kNewest, KvKind kind = KvKind::full) {
    ModelShape shape;
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    EngineArgs args = launch_at(version);
    args.tensor_parallel = tensor;
    args.context_ranks = context;
    const KvPlan kv = cache_of_layers({layer_of(kind, 1024, kind == KvKind::full ? 0 : 128)});
    return told([&] { check_context_ranks(shape, kv, args, false); });
  };
  const std::string cure = " Use another --decode-context-parallel-size, or leave it out.";
  CHECK(refusal(16, 2, 64, 8).empty());
  CHECK(refusal(16, 1, 64, 8, {0, 10, 2}).empty());
  CHECK(refusal(6, 4, 64, 8) == "tp_size=6 must be divisible by dcp_size=4." + cure);
  CHECK(refusal(4, 2, 64, 8) ==
        "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (4) to be "
        "greater than the model's total number of KV heads (8)." +
            cure);
  CHECK_FALSE(refusal(8, 2, 64, 8).empty());
  CHECK(refusal(16, 8, 64, 4) ==
        "`--decode-context-parallel-size` (8) exceeds the maximum supported value (4) for "
        "`--tensor-parallel-size` (16) and 4 model KV heads." +
            cure);
  CHECK(refusal(16, 4, 64, 4).empty());
  CHECK(refusal(16, 2, 12, 4) ==
        "The model's number of query heads per KV head (3) must be divisible by "
        "`--decode-context-parallel-size` (2) for GQA/MQA." +
            cure);
  CHECK(refusal(16, 2, 64, 8, {0, 11, 0}) ==
        "AssertionError: DCP requires attention impls to return the softmax lse for decode. To "
        "0.11.0 only kernels of latent attention (MLA) do." +
            cure);
  CHECK(refusal(16, 2, 64, 8, kNewest, KvKind::sliding) ==
        "AssertionError: DCP not support sliding window." + cure);
}

TEST_CASE("words on steps, lengths and sampling") {
  EngineArgs args = launch_at(kNewest);
  CHECK(argued(args).empty());
  args.chunked_prefill = false;
  CHECK(argued(args, kLlamaClass, {.max_num_seqs = 12, .max_num_batched_tokens = 511}) ==
        "max_num_batched_tokens (511) is smaller than max_model_len (512). This effectively limits "
        "the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer "
        "sequences. Please increase max_num_batched_tokens or decrease max_model_len. Use "
        "--max-num-batched-tokens 512, a smaller --max-model-len, or --enable-chunked-prefill.");
  CHECK(argued(args, kLlamaClass, {.max_num_seqs = 12, .max_num_batched_tokens = 512}).empty());
  args = launch_at(kNewest);
  CHECK(argued(args, kLlamaClass, {.max_num_seqs = 12, .max_num_batched_tokens = 11}) ==
        "max_num_batched_tokens (11) must be greater than or equal to max_num_seqs (12). Use "
        "--max-num-seqs 11 at most.");
  args.sharded_sampling = true;
  args.tensor_parallel = 16;
  CHECK(argued(args) ==
        "Batch-sharded sampling was explicitly enabled via the --enable-batch-sharded-sampling "
        "flag, but is not supported in this configuration for the following reason(s): "
        "max_num_seqs (12) is below tensor_parallel_size (16).");
  args = launch_at({0, 13, 9}, [](EngineArgs& asked) { asked.max_model_len = -1; });
  CHECK(argued(args) ==
        "vllm: error: argument --max-model-len: vLLM finds a length that fits by itself (auto, -1) "
        "from 0.14 on. State the length: --max-model-len N.");
  args.version = {0, 14, 0};
  CHECK(argued(args).empty());
  args = launch_at({0, 16, 9}, [](EngineArgs& asked) { asked.pace = Pace::throughput; });
  CHECK(argued(args) ==
        "vllm: error: unrecognized arguments: --performance-mode. vLLM has it from 0.17 on. Leave "
        "it out.");
  args = launch_at(kNewest, [](EngineArgs& asked) { asked.tensor_parallel = 3; });
  CHECK(argued(args, class_config("LlamaForCausalLM", {{"num_attention_heads", 16}})) ==
        "Total number of attention heads (16) must be divisible by tensor parallel size (3). Use "
        "another --tensor-parallel-size.");
}

TEST_CASE("words on classes, by what they lack and since when") {
  EngineArgs stages = launch_at(kNewest, [](EngineArgs& args) { args.pipeline_parallel = 2; });
  CHECK(argued(stages).empty());
  CHECK(argued(stages, class_config("Glm5NextForCausalLM")) ==
        "'Glm5NextForCausalLM' object has no attribute 'make_empty_intermediate_tensors': its "
        "stages behind the first cannot start. Leave --pipeline-parallel-size out.");
  CHECK(argued(stages, class_config("Ernie4_5_MoeForCausalLM", {{"tie_word_embeddings", true}})) ==
        "'PPMissingLayer' object has no attribute 'tie_weights': vLLM ties the head of "
        "Ernie4_5_MoeForCausalLM on stages that have none. Leave --pipeline-parallel-size out.");
  CHECK(argued(stages, class_config("Ernie4_5_MoeForCausalLM", {{"tie_word_embeddings", false}}))
            .empty());
  CHECK(argued(stages, class_config("AriaForConditionalGeneration")) ==
        "Pipeline parallelism is not supported for this model. Supported models implement the "
        "`SupportsPP` interface. Leave --pipeline-parallel-size out.");
  EngineArgs adapted = launch_at(kNewest, [](EngineArgs& args) { args.lora = true; });
  CHECK(argued(adapted).empty());
  CHECK(argued(adapted, class_config("BailingMoeV3ForCausalLM")) ==
        "LoRA is not supported for BailingMoeV3ForCausalLM. Supported models implement the "
        "`SupportsLoRA` interface. Leave --enable-lora out.");
  adapted.version = {0, 32, 0};
  CHECK(argued(adapted, class_config("BailingMoeV3ForCausalLM")) ==
        "BailingMoeV3ForCausalLM does not support LoRA yet. Leave --enable-lora out.");
  adapted.lora_rank = 24;
  CHECK(argued(adapted) ==
        "max_lora_rank (24) must be one of (1, 8, 16, 32, 64, 128, 256, 320, 512). Use "
        "--max-lora-rank.");
  const Json unnamed = {{"model_type", "internlm2"}};
  CHECK_THAT(argued(launch_at(kNewest), unnamed),
             Catch::StartsWith("No model architectures are specified: the config names none, and "
                               "its model_type \"internlm2\" is none of transformers'. Add "
                               "\"architectures\": [\"InternLM2ForCausalLM\"] to it, or give vLLM "
                               "--hf-overrides."));
}

TEST_CASE("words on drafts and tables") {
  EngineArgs args =
      launch_at(kNewest, [](EngineArgs& asked) { asked.draft_method = "draft_model"; });
  CHECK(argued(args) ==
        "num_speculative_tokens was provided but without speculative model. Give "
        "--speculative-config a \"method\" or a \"model\".");
  args.draft_method = "ngram";
  CHECK(argued(args) ==
        "num_speculative_tokens must be provided with speculative model unless the draft model "
        "config contains an n_predict parameter. Give --speculative-config "
        "\"num_speculative_tokens\".");
  args.draft_method = "eagle";
  args.draft_tokens = 15;
  CHECK(argued(args, kLlamaClass, {.max_num_seqs = 12, .max_num_batched_tokens = 15}) ==
        "VllmConfig does not have enough slots to schedule a token and support the speculative "
        "decoding settings. Got max_num_batched_tokens=15 and num_lookahead_tokens=15. Use "
        "--max-num-batched-tokens 16 at least.");
  args.draft_tokens = 3;
  args.lora = true;
  CHECK(argued(args, kLlamaClass, {.max_num_seqs = 12, .max_num_batched_tokens = 47}) ==
        "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens: adapters "
        "and drafts together need --max-num-batched-tokens 48 at least.");
  const std::string cure = ". Change --engram-config, or leave it out.";
  const auto tables = [&](std::optional<bool> offload, bool shared, bool huge) {
    EngineArgs asked = launch_at(kNewest);
    asked.tables.given = true;
    asked.tables.offload = offload;
    asked.tables.shared = shared;
    asked.tables.huge_pages = huge;
    return argued(asked, class_config("DeepseekV41ForCausalLM", {{"engram_layer_ids", {1, 2}}}));
  };
  CHECK(tables({}, false, true).empty());
  CHECK(tables(false, true, false) == "dp_shared_memory requires cpu_offload=True" + cure);
  const std::string pages = "use_thp requires cpu_offload=True and dp_shared_memory=False" + cure;
  CHECK(tables(false, false, true) == pages);
  CHECK(tables({}, true, true) == pages);
  CHECK(tables({}, true, false) == "dp_shared_memory requires data_parallel_size > 1" + cure);
}

TEST_CASE("words on caches that a model's layers do not take") {
  ModelShape shape;
  shape.architecture = "DeepseekV4ForCausalLM";
  KvLayer ring = layer_of(KvKind::ring, 1024);
  ring.fixed_block = 12;
  const EngineArgs args = launch_at(kNewest);
  CHECK(told([&] { check_model(shape, cache_of_layers({ring}), args, false); }) ==
        "AssertionError: ring capacity 12 must divide the attention block size 16. Change "
        "num_speculative_tokens of --speculative-config.");
  ring.fixed_block = 8;
  CHECK(told([&] { check_model(shape, cache_of_layers({ring}), args, false); }).empty());
  const KvPlan groups =
      cache_of_layers({layer_of(KvKind::full, 1024), layer_of(KvKind::sliding, 1024, 128)});
  const auto apart = [&](VllmVersion version) {
    const EngineArgs asked = launch_at(version, [](EngineArgs& one) { one.hybrid_kv = false; });
    return told([&] { check_model(shape, groups, asked, false); });
  };
  const std::string cure = " Leave --disable-hybrid-kv-cache-manager out.";
  CHECK(apart({0, 27, 0}) == "Failed to promote local KV cache specs to one unified type." + cure);
  CHECK(apart({0, 26, 9}) ==
        "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
        "unified type." +
            cure);
  shape.kernel = AttentionKernel::deepseek_v4;
  CHECK(apart(kNewest) ==
        "TypeError: MLAAttentionSpec.__init__() got an unexpected keyword argument "
        "'bounded_replay': vLLM cannot unify the caches of DeepseekV4ForCausalLM. Leave "
        "--disable-hybrid-kv-cache-manager out.");
  const EngineArgs experts =
      launch_at(kNewest, [](EngineArgs& one) { one.expert_parallel = true; });
  CHECK(told([&] { check_model(shape, groups, experts, false); }) ==
        "Number of experts in the model must be greater than 0 when expert parallelism is enabled. "
        "Leave --enable-expert-parallel out.");
  shape.recurrent = true;
  CHECK(
      state_blocks_refusal(args, {.max_num_seqs = 12}, shape, &hardware::find_gpu("h100"), 11) ==
      "max_num_seqs (12) exceeds available Mamba cache blocks (11). Each decode sequence requires "
      "one Mamba cache block, so CUDA graph capture cannot proceed. Please lower max_num_seqs to "
      "at most 11 or increase gpu_memory_utilization.");
  CHECK(state_blocks_refusal(args, {.max_num_seqs = 12}, shape, nullptr, 12).empty());
}

TEST_CASE("words on quantization") {
  const auto asked = [](const char* own, const char* flag) {
    const EngineArgs args = launch_at(kNewest, [&](EngineArgs& one) { one.quantization = flag; });
    const Json config = class_config(
        "LlamaForCausalLM",
        {{"quantization_config", {{"quant_method", own}, {"bits", 4}, {"group_size", 128}}}});
    return told([&] { quantization_of({config, "config.json"}, args); });
  };
  CHECK(asked("awq", "gptq") ==
        "Quantization method specified in the model config (awq) does not match the quantization "
        "method specified in the `quantization` argument (gptq). Leave --quantization out.");
  CHECK(asked("fbgemm_fp8", "") ==
        "The quantization method fbgemm_fp8 is deprecated and will be removed in future versions "
        "of vLLM. To bypass, set `--allow-deprecated-quantization`.");
  hardware::Gpu card;
  card.compute_capability = 7.0;
  CHECK(told([&] { check_card("awq", kNewest, &card); }) ==
        "The quantization method awq is not supported for the current GPU. Minimum capability: 75. "
        "Current capability: 70.");
  card.compute_capability = 0;  // not known
  CHECK(told([&] { check_card("awq", kNewest, &card); }).empty());
  CHECK(told([&] { check_card("awq", kNewest, nullptr); }).empty());
  CHECK(told([] {
          check_dtype("gptq", "float32", {0, 29, 0});
        }) ==
        "torch.float32 is not supported for quantization method gptq. Supported dtypes: "
        "[torch.float16]. Use --dtype float16.");
  CHECK(told([] {
          check_dtype("gptq", "float32", {0, 30, 0});
        }) ==
        "torch.float32 is not supported for quantization method gptq. Supported dtypes: "
        "[torch.bfloat16, torch.float16]. Use --dtype float16.");
  CHECK(told([] { check_dtype("mxfp4", "float16", kNewest); }) ==
        "torch.float16 is not supported for quantization method mxfp4. Supported dtypes: "
        "[torch.bfloat16]. Use --dtype bfloat16.");
}

TEST_CASE("words on tasks and prefixes") {
  const auto pooled = [](VllmVersion version, const char* runner, const char* convert,
                         const char* architecture = "LlamaForCausalLM") {
    EngineArgs args = launch_at(version);
    args.pooling.runner = runner;
    args.pooling.convert = convert;
    const Json config = class_config(architecture);
    return told([&] { runner_of({config, "config.json"}, args); });
  };
  CHECK(pooled(kNewest, "pooling", "none") ==
        "This model does not support `--runner pooling`. You can pass `--convert <embed|classify> "
        "to adapt it into a pooling model.");
  CHECK(pooled(kNewest, "generate", "auto", "LlamaForSequenceClassification") ==
        "This model does not support `--runner generate`. Leave --runner out.");
  CHECK(pooled({0, 16, 0}, "pooling", "reward") ==
        "argument --convert: invalid choice: 'reward' (choose from auto, classify, embed, none); "
        "vLLM has it from 0.10.1 to 0.15.1");
  CHECK(pooled({0, 21, 9}, "auto", "embed") ==
        "vLLM before 0.22 converts a model that generates for --runner pooling alone: add it");
  ModelShape shape;
  shape.recurrent = true;
  PrefixCaching caching;
  caching.states.mode = StateMode::align;
  EngineArgs args = launch_at(kNewest, [](EngineArgs& asked) { asked.chunked_prefill = false; });
  CHECK(told([&] { check_prefixes(args, shape, caching, 512); }) ==
        "Chunked prefill is required for Mamba prefix caching. Use --enable-chunked-prefill, or "
        "--no-enable-prefix-caching.");
  args = launch_at({0, 16, 0}, [](EngineArgs& asked) { asked.draft_tokens = 3; });
  CHECK(told([&] { check_prefixes(args, shape, caching, 512); }) ==
        "Mamba cache mode 'align' is currently not compatible with speculative decoding. Use "
        "--no-enable-prefix-caching.");
  args.version = {0, 17, 0};
  CHECK(told([&] { check_prefixes(args, shape, caching, 512); }).empty());
  args = launch_at(kNewest, [](EngineArgs& asked) { asked.state_block_size = 64; });
  caching.on = false;
  CHECK(told([&] { check_prefixes(args, shape, caching, 512); }) ==
        "--mamba-block-size can only be set with --enable-prefix-caching. Leave it out.");
  CHECK(told([&] { check_prefixes(args, shape, caching, 64); }).empty());
  args.version = {0, 11, 0};
  CHECK(told([&] { check_state_flags(args); }) ==
        "unrecognized arguments: --mamba-block-size 64. Leave --mamba-block-size out.");
}
