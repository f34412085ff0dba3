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
  for (const Row& row : std::vector<Row>{
           {"old card", kNothing, "t4", {0, 10, 1}, {0, 10, 2}, "Compute Capability < 8.0"},
           {"LoRA", lora, "h100", {0, 8, 2}, {0, 8, 3}, "LORA is experimental"},
           {"stages", stages, "h100", {0, 8, 5}, {0, 9, 0}, "Pipeline Parallelism"},
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

TEST_CASE("VLLM_USE_V1 chooses the engine, but for what the second lacks") {
  const Json llama = llama_8b();
  const auto chosen = [&](VllmVersion version, bool first, const Change& change) {
    return choice(
        llama, version,
        [&](EngineArgs& args) {
          args.first_engine = first;
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
