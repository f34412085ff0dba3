// Which of its two engines a release runs, and what differs by that.
#include <catch2/catch.hpp>
#include <functional>

#include "plan/configs.h"
#include "plan/solver.h"
#include "vllm/launch/engine_choice.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

using Change = std::function<void(EngineArgs&)>;

Change drafts(const char* method) {
  return [method](EngineArgs& args) {
    args.draft_method = method;
    args.draft_tokens = 2;
  };
}

Change cache(const char* dtype, const char* backend = "") {
  return [=](EngineArgs& args) {
    args.kv_cache_dtype = dtype;
    args.attention_backend = backend;
  };
}

Change beside(const char* flag, const char* value) {
  return [=](EngineArgs& args) { args.beside[flag] = value; };
}

Change tasked(const char* task) {
  return [task](EngineArgs& args) { args.pooling.task = task; };
}

/// Two stages on an executor.
Change on(const char* executor) {
  return [=](EngineArgs& args) {
    args.pipeline_parallel = 2;
    args.beside["--distributed-executor-backend"] = executor;
  };
}

EngineChoice choice(const Json& config, VllmVersion version, const Change& change,
                    const char* card) {
  EngineArgs args = at(version);
  change(args);
  return choose_engine({config, "config.json"}, args, &hardware::find_gpu(card));
}

const Change kNothing = [](EngineArgs&) {};

}  // namespace

TEST_CASE("a release with two engines runs the first where the second lacks what is asked") {
  const Json llama = llama_8b();
  struct Row {
    const char* what;
    Change change;
    const char* card;
    VllmVersion last;  // release that runs the first engine for it
    VllmVersion next;
    const char* words;
  };
  const Change lora = [](EngineArgs& args) { args.lora = true; };
  const Change stages = [](EngineArgs& args) { args.pipeline_parallel = 2; };
  const Change offload = [](EngineArgs& args) { args.cpu_offload = 1 << 30; };
  const Change float32 = [](EngineArgs& args) { args.dtype = "float32"; };
  const Change four_bits = [](EngineArgs& args) { args.quantization = "bitsandbytes"; };
  for (
      const Row& row : std::vector<Row>{
          {"old card", kNothing, "t4", {0, 10, 1}, {0, 10, 2}, "Compute Capability < 8.0"},
          {"LoRA", lora, "h100", {0, 8, 2}, {0, 8, 3}, "LORA is experimental"},
          {"stages", stages, "h100", {0, 9, 0}, {0, 9, 1}, "Pipeline Parallelism"},
          {"stages, Ray", on("ray"), "h100", {0, 8, 2}, {0, 8, 3}, "PP is experimental"},
          {"stages, processes", on("mp"), "h100", {0, 8, 5}, {0, 9, 0}, "without Ray"},
          {"GGUF",
           [](EngineArgs& args) { args.quantization = "gguf"; },
           "h100",
           {0, 8, 5},
           {0, 9, 0},
           "--quantization gguf"},
          {"EAGLE, not yet", drafts("eagle"), "h100", {0, 8, 2}, {0, 9, 0}, "Speculative Decod"},
          {"EAGLE 3, not yet", drafts("eagle3"), "h100", {0, 8, 4}, {0, 9, 0}, "Speculative Dec"},
          {"fp8, B300", cache("fp8"), "b300", {0, 10, 2}, {0, 11, 0}, "--kv-cache-dtype"},
          {"Triton", cache("auto", "TRITON_ATTN_VLLM_V1"), "h100", {0, 8, 1}, {0, 8, 2}, "TRITON"},
          {"Flex", cache("auto", "FLEX_ATTENTION"), "h100", {0, 9, 0}, {0, 9, 1}, "FLEX"},
          {"chunks", cache("auto", "DUAL_CHUNK_FLASH_ATTN"), "h100", {0, 10, 2}, {0, 11, 0}, "DU"},
          {"shards",
           beside("--load-format", "sharded_state"),
           "h100",
           {0, 10, 2},
           {0, 11, 0},
           "sh"},
          {"tensorizer", beside("--load-format", "tensorizer"), "h100", {0, 8, 5}, {0, 9, 0}, "t"},
          {"steps", beside("--num-scheduler-steps", "8"), "h100", {0, 10, 0}, {0, 10, 1}, "-steps"},
          {"policy",
           beside("--scheduling-policy", "priority"),
           "h100",
           {0, 9, 1},
           {0, 9, 2},
           "pol"},
          {"preemption",
           beside("--preemption-mode", "swap"),
           "h100",
           {0, 10, 2},
           {0, 11, 0},
           "pre"},
          {"delay", beside("--scheduler-delay-factor", "0.5"), "h100", {0, 10, 2}, {0, 11, 0}, "d"},
          {"outlines",
           beside("--guided-decoding-backend", "outlines"),
           "h100",
           {0, 9, 2},
           {0, 10, 0},
           "--guided-decoding-backend=outlines"},
          {"lm-format-enforcer",
           beside("--guided-decoding-backend", "lm-format-enforcer"),
           "h100",
           {0, 10, 0},
           {0, 10, 1},
           "lm-format-enforcer"},
          {"embeds",
           beside("--enable-prompt-embeds", ""),
           "h100",
           {0, 10, 2},
           {0, 11, 0},
           "embeds"},
          {"traces", beside("--otlp-traces-endpoint", "x"), "h100", {0, 10, 1}, {0, 10, 2}, "otlp"},
          {"task", tasked("embed"), "h100", {0, 9, 1}, {0, 9, 2}, "--task embed"},
          {"connector", beside("--kv-transfer-config", "{}"), "h100", {0, 8, 4}, {0, 8, 5}, "kv-t"},
          {"offload", offload, "h100", {0, 8, 2}, {0, 8, 3}, "--cpu-offload-gb"},
          {"float32", float32, "h100", {0, 9, 1}, {0, 9, 2}, "--dtype torch.float32"},
          {"bitsandbytes", four_bits, "h100", {0, 8, 2}, {0, 8, 3}, "bitsandbytes"},
          {"n-grams", drafts("ngram"), "h100", {0, 8, 5}, {0, 9, 0}, "ngram is experimental"},
          {"EAGLE", drafts("eagle"), "h100", {0, 8, 5}, {0, 9, 0}, "Eagle is experimental"},
          {"MTP", drafts("deepseek_mtp"), "h100", {0, 8, 5}, {0, 9, 0}, "Speculative Decoding"},
          {"draft model", drafts("draft_model"), "h100", {0, 9, 2}, {0, 10, 0}, "Speculative"},
          {"fp8", cache("fp8"), "h100", {0, 8, 1}, {0, 8, 2}, "--kv-cache-dtype"},
          {"fp8, 4090", cache("fp8"), "4090", {0, 10, 2}, {0, 11, 0}, "--kv-cache-dtype"},
          {"fp8, B200", cache("fp8"), "b200", {0, 9, 2}, {0, 10, 0}, "--kv-cache-dtype"},
          {"fp8, FlashInfer", cache("fp8", "FLASHINFER"), "4090", {0, 10, 1}, {0, 10, 2}, "dtype"},
          {"fp8, Triton", cache("fp8", "TRITON_ATTN_VLLM_V1"), "4090", {0, 10, 1}, {0, 10, 2}, ""},
          {"fp8, Triton, A100",
           cache("fp8", "TRITON_ATTN_VLLM_V1"),
           "a100",
           {0, 10, 2},
           {0, 11, 0},
           ""},
          {"16 bits", cache("bfloat16"), "h100", {0, 10, 1}, {0, 10, 2}, "--kv-cache-dtype"},
          {"FlashInfer", cache("auto", "FLASHINFER"), "h100", {0, 8, 4}, {0, 8, 5}, "_BACKEND="},
          {"xFormers", cache("auto", "XFORMERS"), "h100", {0, 10, 2}, {0, 11, 0}, "XFORMERS"},
          {"nothing", kNothing, "h100", {0, 7, 3}, {0, 8, 0}, ""},
      }) {
    INFO(row.what);
    const EngineChoice first = choice(llama, row.last, row.change, row.card);
    CHECK(first.first);
    CHECK_THAT(first.note, Catch::Contains(row.words));
    const EngineChoice second = choice(llama, row.next, row.change, row.card);
    CHECK_FALSE(second.first);
    CHECK(second.note.empty());
  }
}

TEST_CASE("values that the second engine has choose nothing") {
  const Json llama = llama_8b();
  for (const auto& [flag, value] :
       {std::pair{"--load-format", "auto"},
        {"--scheduling-policy", "fcfs"},
        {"--num-scheduler-steps", "1"},
        {"--scheduler-delay-factor", "0.0"},
        {"--guided-decoding-backend", "xgrammar"},
        {"--guided-decoding-backend", "xgrammar:disable-any-whitespace"},
        {"--max-num-partial-prefills", "1"},
        {"--model-impl", "vllm"},
        {"--distributed-executor-backend", "mp"}}) {
    INFO(flag << " " << value);
    CHECK(may_choose_engine(flag));
    CHECK_FALSE(choice(llama, {0, 8, 2}, beside(flag, value), "h100").first);
  }
  CHECK_FALSE(may_choose_engine("--seed"));
}

TEST_CASE("a model of vectors is one for a task that is left to vLLM too") {
  Json config = llama_8b();
  config["architectures"] = {"LlamaForSequenceClassification"};
  CHECK(choice(config, {0, 9, 1}, tasked("auto"), "h100").first);
  CHECK(choice(config, {0, 9, 1}, tasked("classify"), "h100").first);
  CHECK_FALSE(choice(config, {0, 9, 2}, tasked("auto"), "h100").first);
  CHECK_THROWS_WITH(choice(config, {0, 9, 1}, tasked("generate"), "h100"),
                    "This model does not support the 'generate' task. Leave --task out.");
}

TEST_CASE("a class runs on the second engine since the release that has it there") {
  struct Row {
    const char* architecture;
    VllmVersion last, next;
    bool asked;  // VLLM_USE_V1=1 runs `last` on the second engine
  };
  for (const Row& row : std::vector<Row>{
           {"BloomForCausalLM", {0, 10, 1}, {0, 10, 2}, false},
           {"GlmForCausalLM", {0, 8, 4}, {0, 8, 5}, false},
           {"BambaForCausalLM", {0, 10, 1}, {0, 10, 2}, true},
           {"JambaForCausalLM", {0, 10, 1}, {0, 10, 2}, true},
           {"JambaForCausalLM", {0, 10, 0}, {0, 10, 2}, false},
           {"WhisperForConditionalGeneration", {0, 10, 1}, {0, 10, 2}, false},
           {"MllamaForConditionalGeneration", {0, 10, 2}, {0, 11, 0}, false},
           {"Qwen2ForRewardModel", {0, 9, 1}, {0, 9, 2}, false},
           {"LlamaForSequenceClassification", {0, 9, 1}, {0, 9, 2}, false},
       }) {
    INFO(row.architecture);
    Json config = llama_8b();
    config["architectures"] = {row.architecture};
    CHECK(choice(config, row.last, kNothing, "h100").first);
    CHECK_FALSE(choice(config, row.next, kNothing, "h100").first);
    const Change asks = [](EngineArgs& args) { args.use_v1 = true; };
    if (row.asked) {
      CHECK_FALSE(choice(config, row.last, asks, "h100").first);
    } else {
      CHECK_THROWS_WITH(choice(config, row.last, asks, "h100"),
                        Catch::StartsWith("VLLM_USE_V1=1 is not supported with"));
    }
  }
}

TEST_CASE("the first engine drafts nothing from 0.10 on, and no release to 0.14 a model's tokens") {
  const Json llama = llama_8b();
  CHECK(choice(llama, {0, 9, 2}, drafts("ngram"), "t4").first);
  CHECK_THROWS_WITH(choice(llama, {0, 10, 0}, drafts("ngram"), "t4"),
                    Catch::Contains("not supported on vLLM V0"));
  const auto model = [&](VllmVersion version) {
    EngineArgs args = at(version);
    drafts("draft_model")(args);
    args.draft_model = "small";
    args.draft_config = std::make_shared<const Json>(llama);
    return plan_of(llama, args, "h200");
  };
  for (const VllmVersion version : {VllmVersion{0, 9, 2}, {0, 15, 0}}) CHECK(model(version).fits);
  for (const VllmVersion version : {VllmVersion{0, 10, 0}, {0, 14, 1}})
    CHECK_THROWS_WITH(model(version), Catch::Contains("draft model is not supported yet"));
}

TEST_CASE("a request of the first engine takes a stage's share of the blocks at most") {
  const auto told = [](VllmVersion version, int64_t length) {
    EngineArgs args = at(version);
    args.pipeline_parallel = 2;
    args.max_model_len = length;
    args.available_kv = 8 * kGib;  // 8192 blocks of 16 tokens in each stage
    return plan_of(llama_8b(), args, "h100");
  };
  REQUIRE(told({0, 9, 0}, 4096).num_gpu_blocks == 8192);
  CHECK(told({0, 9, 0}, 65536).fits == true);
  CHECK(told({0, 9, 0}, 65537).fits == false);
  CHECK(told({0, 9, 0}, 65537).estimated_max_model_len == 65536);
  CHECK(told({0, 7, 3}, 65537).fits == true);
}

TEST_CASE("states of the first engine lie outside the blocks, one for each sequence of a graph") {
  const auto told = [](VllmVersion version, bool eager) {
    EngineArgs args = at(version);
    args.max_num_seqs = 100;
    args.enforce_eager = eager;
    return plan_of(hybrid(), args, "h100");
  };
  const auto states = [](const PlanResult& result) {
    int64_t bytes = 0;
    for (const PlanPart& part : result.parts)
      if (part.name == "recurrent states") bytes += part.bytes;
    return bytes;
  };
  const PlanResult graphs = told({0, 10, 1}, false);
  CHECK(graphs.first_engine);
  CHECK(states(graphs) > 0);
  CHECK(states(graphs) % 104 == 0);
  CHECK(states(told({0, 10, 1}, true)) == states(graphs) / 104 * 100);
  CHECK(graphs.group_sizes.size() == 1);
  const PlanResult next = told({0, 10, 2}, false);
  CHECK(states(next) == 0);
  CHECK(next.group_sizes.size() > 1);
}

TEST_CASE("steps of the first engine have room for images and for prompts that become vectors") {
  Json encoder = llama_8b();
  encoder["architectures"] = {"LlamaForSequenceClassification"};
  const auto tokens = [](const Json& config, VllmVersion version, int64_t length, int64_t seqs) {
    EngineArgs args = at(version);
    args.max_model_len = length;
    args.max_num_seqs = seqs;
    return plan_of(config, args, "h100").max_num_batched_tokens;
  };
  CHECK(tokens(encoder, {0, 9, 1}, 512, 256) == 32768);
  CHECK(tokens(encoder, {0, 9, 2}, 512, 256) == 512);  // the second engine's: the longest prompt
  // From 0.9.0 on no more than all sequences hold.
  CHECK(tokens(encoder, {0, 8, 5}, 512, 4) == 32768);
  CHECK(tokens(encoder, {0, 9, 0}, 512, 4) == 2048);
}

TEST_CASE("what an image has installed is the second engine's to use") {
  EngineArgs args = at({0, 9, 2});
  args.flashinfer_installed = true;
  const auto samples = [&](const char* card) {
    return plan_of(llama_8b(), args, card).activation_peak_bytes;
  };
  const int64_t second = samples("l4");
  args.flashinfer_installed = std::nullopt;
  CHECK(samples("l4") == second);  // logs before 0.11 have it
  const int64_t first = samples("t4");
  args.flashinfer_installed = true;
  CHECK(samples("t4") == first);
  args.flashinfer_installed = false;
  CHECK(samples("l4") > second);
}

TEST_CASE("VLLM_USE_V1 chooses the engine, but for what the second lacks") {
  const Json llama = llama_8b();
  const auto chosen = [&](VllmVersion version, bool first, const Change& change) {
    return choice(
        llama, version,
        [&](EngineArgs& args) {
          args.use_v1 = !first;
          change(args);
        },
        "h100");
  };
  CHECK(chosen({0, 9, 2}, true, kNothing).first);
  CHECK_FALSE(chosen({0, 8, 2}, false, [](EngineArgs& args) { args.lora = true; }).first);
  CHECK_THROWS_WITH(chosen({0, 9, 2}, false, cache("fp8", "FLASHINFER")),
                    Catch::Contains("VLLM_USE_V1=1 is not supported with --kv-cache-dtype"));
  // Other releases have one engine.
  const EngineChoice before = chosen({0, 7, 3}, false, kNothing);
  CHECK(before.first);
  CHECK_THAT(before.note, Catch::Contains("not known to plan"));
  const EngineChoice after = chosen({0, 11, 0}, true, kNothing);
  CHECK_FALSE(after.first);
  CHECK_THAT(after.note, Catch::Contains("no V0 engine"));
}

TEST_CASE("the first engine takes the memory of 0.7 in later releases too") {
  const auto told = [](VllmVersion version) {
    EngineArgs args = at(version);
    args.max_model_len = 20000;
    args.dtype = "float16";
    return plan_of(llama_8b(), args, "rtx-8000");
  };
  const PlanResult before = told({0, 7, 3});
  const PlanResult later = told({0, 10, 1});
  CHECK(later.first_engine);
  CHECK(later.max_num_seqs == 256);
  CHECK(later.max_num_batched_tokens == 20000);  // prompts are read whole
  CHECK(later.cuda_graphs == 35);                // 1, 2, 4, 8, 16 ... 256
  CHECK(later.prefix_caching == false);
  CHECK(later.activation_peak_bytes == before.activation_peak_bytes);
  CHECK(later.kv_cache_bytes == before.kv_cache_bytes);
  const PlanResult next = told({0, 10, 2});
  CHECK_FALSE(next.first_engine);
  CHECK(next.max_num_batched_tokens == 2048);
  CHECK(next.prefix_caching == true);
}

TEST_CASE("before 0.9.1 windows have no blocks of their own where other layers keep all") {
  const Json config = gemma2();
  const int64_t layers = config["num_hidden_layers"];
  const auto told = [&](VllmVersion version) {
    EngineArgs args = at(version);
    args.available_kv = 8 * kGib;
    return plan_of(config, args);
  };
  for (const VllmVersion version : {VllmVersion{0, 7, 3}, {0, 8, 5}, {0, 9, 0}}) {
    const PlanResult result = told(version);
    CHECK(result.group_sizes == std::vector<int64_t>{layers});
    CHECK(result.num_gpu_blocks == 8 * kGib / result.bytes_per_block);
    CHECK(result.kv_tokens == result.num_gpu_blocks * 16);
  }
  const PlanResult grouped = told({0, 9, 1});
  CHECK(grouped.group_sizes == std::vector<int64_t>{layers / 2, layers / 2});
  CHECK(grouped.bytes_per_block * 2 == told({0, 9, 0}).bytes_per_block);
}

TEST_CASE("advice says where a change lets vLLM fall back to its first engine") {
  const auto cost = [](VllmVersion version) -> std::string {
    EngineArgs args = at(version);
    args.max_model_len = 65536;
    const hardware::Gpu& card = hardware::find_gpu("a10");
    const Json config = llama_8b();
    const ConfigView view(config, "config.json");
    const auto plan = [&](const EngineArgs& changed, const hardware::Gpu* gpu) {
      return plan_vllm(view, changed, gpu);
    };
    for (const Suggestion& one : advise(plan, args, &card, plan(args, &card)))
      if (one.flag == "--kv-cache-dtype fp8") return one.cost;
    return "";
  };
  CHECK_THAT(cost({0, 10, 2}), Catch::EndsWith("; vLLM falls back to its V0 engine"));
  CHECK_FALSE(cost({0, 11, 0}).empty());
  CHECK_THAT(cost({0, 11, 0}), !Catch::Contains("V0"));
}
