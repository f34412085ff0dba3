// Tables of vLLM's rules, restated row by row: since when the second engine has what a flag asks
// for, what a card must be capable of, and what launches take outside torch.
#include <catch2/catch.hpp>

#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/quantization.h"
#include "vllm_releases.h"

using namespace plimsoll;
using namespace plimsoll::vllm;

namespace {

constexpr VllmVersion kNever{0, 11, 0};  // the release without the first engine

/// The choice of a release on an H100.
EngineChoice choice(VllmVersion version, const std::function<void(EngineArgs&)>& change) {
  static const Json kConfig = {{"architectures", {"LlamaForCausalLM"}},
                               {"model_type", "llama"},
                               {"torch_dtype", "bfloat16"}};
  EngineArgs args;
  args.version = version;
  change(args);
  return choose_engine({kConfig, "config.json"}, args, &hardware::find_gpu("h100"));
}

/// Checks that releases with two engines run the first one before `since`, with `words` in the
/// note, and the second from then on.
void check_since(VllmVersion since, const std::function<void(EngineArgs&)>& change,
                 const std::string& words) {
  for (const VllmVersion& version : testing::known_releases()) {
    if (version < VllmVersion{0, 8, 0} || version > kNever) continue;
    INFO(version_text(version));
    const EngineChoice found = choice(version, change);
    CHECK(found.first == (version < since));
    if (found.first)
      CHECK(found.note == words + " is not supported by the V1 Engine. Falling back to V0.");
  }
}

}  // namespace

TEST_CASE("each flag that the second engine lacks leads to the first until it has it") {
  struct Row {
    const char* flag;
    const char* value;
    VllmVersion since;
    const char* words;  // "": the flag's name
  };
  for (const Row& row : std::vector<Row>{
           {"--load-format", "tensorizer", {0, 9, 0}, "--load_format tensorizer"},
           {"--load-format", "sharded_state", kNever, "--load_format sharded_state"},
           {"--load-format", "dummy", {0, 8, 0}, ""},
           {"--logits-processor-pattern", "x", kNever, ""},
           {"--preemption-mode", "recompute", kNever, ""},
           {"--disable-async-output-proc", "", kNever, ""},
           {"--scheduling-policy", "priority", {0, 9, 2}, ""},
           {"--worker-cls", "x", {0, 8, 2}, ""},
           {"--worker-cls", "auto", {0, 8, 0}, ""},
           {"--worker-extension-cls", "x", {0, 8, 2}, ""},
           {"--num-scheduler-steps", "2", {0, 10, 1}, ""},
           {"--scheduler-delay-factor", "0.5", kNever, ""},
           {"--scheduler-delay-factor", "0", {0, 8, 0}, ""},
           {"--additional-config", "{}", {0, 8, 5}, ""},
           {"--guided-decoding-backend", "guidance", {0, 8, 2}, ""},
           {"--guided-decoding-backend", "auto", {0, 8, 2}, ""},
           {"--enable-prompt-adapter", "", {0, 10, 0}, ""},
           {"--enable-prompt-embeds", "", kNever, ""},
           {"--model-impl", "transformers", {0, 8, 3}, "model_impl=transformers"},
           {"--model-impl", "auto", {0, 8, 0}, ""},
           {"--max-num-partial-prefills", "2", kNever, "Concurrent Partial Prefill"},
           {"--max-long-partial-prefills", "2", kNever, "Concurrent Partial Prefill"},
           {"--max-long-partial-prefills", "1", {0, 8, 0}, ""},
           {"--long-prefill-token-threshold", "8", {0, 8, 3}, "Concurrent Partial Prefill"},
           {"--long-prefill-token-threshold", "0", {0, 8, 0}, ""},
           {"--otlp-traces-endpoint", "x", {0, 10, 2}, ""},
           {"--collect-detailed-traces", "all", {0, 10, 2}, "--otlp-traces-endpoint"},
           {"--kv-transfer-config", "{}", {0, 8, 5}, ""},
       }) {
    INFO(row.flag << " " << row.value);
    CHECK(may_choose_engine(row.flag));
    check_since(
        row.since, [&](EngineArgs& args) { args.beside[row.flag] = row.value; },
        *row.words == '\0' ? row.flag : row.words);
  }
  // The backend of grammars: in each release some more.
  const auto backend = [](VllmVersion version, const char* name) {
    return choice(version,
                  [&](EngineArgs& args) { args.beside["--guided-decoding-backend"] = name; })
        .note;
  };
  const std::string lacks = " is not supported by the V1 Engine. Falling back to V0.";
  CHECK(backend({0, 8, 1}, "outlines") == "--guided-decoding-backend" + lacks);
  CHECK(backend({0, 8, 2}, "outlines") == "--guided-decoding-backend=outlines" + lacks);
  CHECK(backend({0, 10, 0}, "outlines").empty());
  CHECK(backend({0, 10, 0}, "lm-format-enforcer") ==
        "--guided-decoding-backend=lm-format-enforcer" + lacks);
  CHECK(backend({0, 10, 1}, "lm-format-enforcer").empty());
  CHECK(backend({0, 8, 0}, "xgrammar:no-fallback").empty());
}

TEST_CASE("each backend of attention leads to the first engine until the second has it") {
  struct Row {
    const char* backend;
    VllmVersion since;
  };
  for (const Row& row : std::vector<Row>{{"FLASH_ATTN_VLLM_V1", {0, 8, 0}},
                                         {"FLASH_ATTN", {0, 8, 0}},
                                         {"TRITON_MLA", {0, 8, 0}},
                                         {"FLASHMLA", {0, 8, 0}},
                                         {"TRITON_ATTN_VLLM_V1", {0, 8, 2}},
                                         {"FLASHINFER", {0, 8, 5}},
                                         {"FLASHINFER_VLLM_V1", {0, 8, 5}},
                                         {"CUTLASS_MLA_VLLM_V1", {0, 9, 1}},
                                         {"TORCH_SDPA_VLLM_V1", {0, 9, 1}},
                                         {"FLEX_ATTENTION", {0, 9, 1}},
                                         {"CUTLASS_MLA", {0, 10, 1}},
                                         {"FLASHMLA_VLLM_V1", {0, 10, 2}},
                                         {"TREE_ATTN", {0, 10, 1}},
                                         {"XFORMERS_VLLM_V1", {0, 10, 1}},
                                         {"FLASH_ATTN_MLA", {0, 10, 2}},
                                         {"FLASHINFER_MLA", {0, 10, 2}},
                                         {"XFORMERS", kNever}}) {
    INFO(row.backend);
    check_since(
        row.since, [&](EngineArgs& args) { args.attention_backend = row.backend; },
        std::string("VLLM_ATTENTION_BACKEND=") + row.backend);
  }
}

TEST_CASE("the choice of an engine is told in vLLM's words") {
  const auto told = [](VllmVersion version, std::optional<bool> asked,
                       const std::function<void(EngineArgs&)>& change = {}) {
    return choice(version,
                  [&](EngineArgs& args) {
                    args.use_v1 = asked;
                    if (change) change(args);
                  })
        .note;
  };
  CHECK(told({0, 9, 0}, {}).empty());
  CHECK(told({0, 9, 0}, true).empty());
  CHECK(told({0, 9, 0}, false) == "VLLM_USE_V1=0: the V0 engine");
  CHECK(told({0, 11, 0}, false) == "VLLM_USE_V1=0: this release has no V0 engine");
  CHECK(told({0, 11, 0}, true).empty());
  CHECK(
      told({0, 7, 3}, true) ==
      "VLLM_USE_V1=1: how this release's V1 engine takes memory is not known to plan; this is its "
      "V0 engine");
  CHECK(told({0, 7, 3}, {}).empty());
  const auto stages = [](const char* executor) {
    return [executor](EngineArgs& args) {
      args.pipeline_parallel = 2;
      if (*executor != '\0') args.beside["--distributed-executor-backend"] = executor;
    };
  };
  const std::string lacks = " is not supported by the V1 Engine. Falling back to V0.";
  const std::string ray = "Pipeline Parallelism without Ray distributed executor";
  CHECK(told({0, 8, 3}, {}, stages("mp")) == ray + lacks);
  CHECK(told({0, 8, 5}, {}, stages("")) == ray + lacks);
  CHECK(told({0, 8, 5}, {}, stages("ray")).empty());
  CHECK(told({0, 9, 0}, {}, stages("")) ==
        ray + " or multiprocessing executor or external launcher" + lacks);
  for (const char* executor : {"ray", "mp", "external_launcher"})
    CHECK(told({0, 9, 0}, {}, stages(executor)).empty());
  CHECK(told({0, 9, 1}, {}, stages("")).empty());
  const auto adapters = [](EngineArgs& args) { args.lora = true; };
  CHECK(told({0, 8, 2}, {}, adapters) ==
        "LORA is experimental on VLLM_USE_V1=1. Falling back to V0 Engine.");
  CHECK(told({0, 8, 2}, true, adapters).empty());
  CHECK_THROWS_WITH(
      told({0, 8, 4}, true, [](EngineArgs& args) { args.beside["--kv-transfer-config"] = "{}"; }),
      "VLLM_USE_V1=1 is not supported with --kv-transfer-config. Leave VLLM_USE_V1 "
      "out.");
}

TEST_CASE("each method of quantization has a least capability, in some releases another one") {
  struct Row {
    const char* method;
    VllmVersion version;
    int least;  // in tenths; 0: any
  };
  for (const Row& row : std::vector<Row>{{"fp8", {0, 5, 1}, 89},
                                         {"fp8", {0, 5, 2}, 80},
                                         {"fp8", {0, 13, 9}, 80},
                                         {"fp8", {0, 14, 0}, 75},
                                         {"awq", {0, 33, 0}, 75},
                                         {"awq_marlin", {0, 13, 9}, 80},
                                         {"awq_marlin", {0, 14, 0}, 75},
                                         {"gptq", {0, 33, 0}, 60},
                                         {"gptq_marlin", {0, 13, 9}, 80},
                                         {"gptq_marlin", {0, 14, 0}, 75},
                                         {"gptq_marlin", {0, 21, 9}, 75},
                                         {"gptq_marlin", {0, 22, 0}, 60},
                                         {"compressed-tensors", {0, 33, 0}, 70},
                                         {"bitsandbytes", {0, 27, 0}, 70},
                                         {"quark", {0, 33, 0}, 70},
                                         {"fbgemm_fp8", {0, 31, 0}, 80},
                                         {"mxfp4", {0, 33, 0}, 80},
                                         {"gpt_oss_mxfp4", {0, 33, 0}, 80},
                                         {"modelopt", {0, 26, 9}, 89},
                                         {"modelopt", {0, 27, 0}, 80},
                                         {"modelopt_fp4", {0, 13, 9}, 80},
                                         {"modelopt_fp4", {0, 14, 0}, 75},
                                         {"auto-round", {0, 33, 0}, 0},
                                         {"", {0, 33, 0}, 0}}) {
    for (const int has : {50, 60, 61, 70, 75, 80, 86, 89, 90, 120}) {
      INFO(row.method << " " << version_text(row.version) << " " << has);
      hardware::Gpu card;
      card.compute_capability = has / 10.0;
      if (has >= row.least) {
        CHECK_NOTHROW(check_card(row.method, row.version, &card));
      } else {
        CHECK_THROWS_WITH(
            check_card(row.method, row.version, &card),
            Catch::Contains("Minimum capability: " + std::to_string(row.least) + ".") &&
                Catch::Contains("capability: " + std::to_string(has) + "."));
      }
    }
  }
}

TEST_CASE("what a launch takes outside torch is what logs of its kind say, from least to most") {
  struct Row {
    VllmVersion version;
    const char* card;
    int64_t tensor, pipeline, data;
    Interconnect join;
    bool recurrent;
    double middle, least, most;  // GiB
  };
  constexpr Interconnect kAuto = Interconnect::automatic;
  constexpr Interconnect kLink = Interconnect::nvlink;
  for (const Row& row : std::vector<Row>{
           {{0, 6, 4}, "h100", 1, 1, 1, kAuto, false, 0.35, 0.15, 0.6},
           {{0, 6, 5}, "h100", 1, 1, 1, kAuto, false, 0.06, 0.02, 0.18},
           {{0, 17, 9}, "h100", 1, 1, 1, kAuto, false, 0.13, 0.11, 0.16},
           {{0, 18, 0}, "h100", 1, 1, 1, kAuto, false, 0.25, 0.24, 0.46},
           {{0, 17, 9}, "4090", 1, 1, 1, kAuto, false, 0.04, 0.01, 0.07},
           {{0, 18, 0}, "5090", 1, 1, 1, kAuto, false, 0.18, 0.1, 0.27},
           {{0, 18, 0}, "gb10", 1, 1, 1, kAuto, false, 2.0, 1.0, 5.7},
           {{0, 15, 9}, "h100", 2, 1, 1, kAuto, false, 0.55, 0.5, 0.6},
           {{0, 15, 9}, "h100", 2, 1, 1, kAuto, true, 0.55, 0.5, 1.9},
           {{0, 16, 0}, "h100", 2, 1, 1, kAuto, false, 2.08, 2.0, 2.15},
           {{0, 16, 0}, "h100", 4, 1, 1, kAuto, false, 2.17, 2.08, 2.25},
           {{0, 16, 0}, "h100", 2, 2, 1, kAuto, false, 0.55, 0.5, 0.6},
           {{0, 16, 0}, "h100", 2, 1, 2, kAuto, false, 0.55, 0.5, 0.6},
           {{0, 23, 9}, "h100", 2, 2, 1, kAuto, false, 0.55, 0.5, 0.6},
           {{0, 24, 0}, "h100", 2, 2, 1, kAuto, false, 2.08, 2.0, 2.15},
           {{0, 25, 0}, "h100", 2, 1, 1, kAuto, false, 0.7, 0.5, 2.2},
           {{0, 28, 0}, "4090", 2, 1, 1, kAuto, false, 0.12, 0.02, 0.2},
           {{0, 28, 0}, "a100", 2, 1, 1, kAuto, false, 0.14, 0.05, 0.58},
           {{0, 28, 0}, "a100", 2, 1, 1, kLink, false, 0.55, 0.5, 0.6},
           {{0, 28, 0}, "h100", 1, 2, 1, kAuto, false, 0.07, 0.04, 0.15},
       }) {
    INFO(version_text(row.version) << " " << row.card << " " << row.tensor << row.pipeline);
    EngineArgs args;
    args.version = row.version;
    args.tensor_parallel = row.tensor;
    args.pipeline_parallel = row.pipeline;
    args.data_parallel = row.data;
    args.interconnect = row.join;
    const auto bytes = [](double gib) { return gib * static_cast<double>(kGiB); };
    const PlanPart part = non_torch_part(args, &hardware::find_gpu(row.card), row.recurrent);
    const auto near = [&](double gib) { return Approx(bytes(gib)).margin(2); };
    CHECK(static_cast<double>(part.bytes) == near(row.middle));
    CHECK(static_cast<double>(part.bytes - part.less) == near(row.least));
    CHECK(static_cast<double>(part.bytes + part.more) == near(row.most));
    // From 0.33 on cuBLAS's handles are made before vLLM looks at the memory.
    if (row.version < VllmVersion{0, 25, 0}) continue;
    args.version = {0, 33, 0};
    const PlanPart later = non_torch_part(args, &hardware::find_gpu(row.card), row.recurrent);
    CHECK(static_cast<double>(later.bytes) == near(row.middle - 0.04));
    CHECK(static_cast<double>(later.bytes - later.less) == near(std::max(0.0, row.least - 0.04)));
    CHECK(static_cast<double>(later.bytes + later.more) == near(row.most));
  }
}
