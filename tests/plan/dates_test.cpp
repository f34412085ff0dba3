// The releases at which a plan changes: of a scene, each release from 0.5 on at which what is
// watched differs from the release before. A date that is moved shows here, by a patch too.
#include <catch2/catch.hpp>

#include "plan/scene.h"
#include "vllm/launch/activation.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

std::vector<Scene> whole_scenes() {
  return {
      {"a server on an H100",
       llama_8b(),
       nothing,
       "h100",
       everything,
       {"5.3", "6.5", "8.0", "9.1", "11.0", "11.1", "12.0", "17.0", "18.0", "20.0", "21.0", "23.0",
        "27.0", "29.0", "33.0"}},
      {"a batch on an H100",
       llama_8b(),
       [](EngineArgs& args) { args.usage = Usage::batch; },
       "h100",
       everything,
       {"5.3", "6.5", "8.0", "9.1", "10.0", "11.0", "11.1", "12.0", "17.0", "18.0", "20.0", "21.0",
        "23.0", "27.0", "29.0", "33.0"}},
      {"two ranks",
       llama_8b(),
       [](EngineArgs& args) { args.tensor_parallel = 2; },
       "h100",
       everything,
       {"5.3", "6.5", "8.0", "9.1", "11.0", "11.1", "12.0", "16.0", "17.0", "20.0", "21.0", "23.0",
        "25.0", "27.0", "29.0", "33.0"}},
      {"two stages",
       llama_8b(),
       [](EngineArgs& args) { args.pipeline_parallel = 2; },
       "h100",
       everything,
       {"5.3", "6.5", "8.0", "8.3", "9.0", "9.1", "11.0", "11.1", "17.0", "20.0", "21.0", "23.0",
        "27.0", "29.0", "33.0"}},
      {"a card that is too small",
       llama_8b(),
       nothing,
       "4090",
       everything,
       {"5.3", "6.5", "8.0", "8.4", "9.1", "11.0", "11.1", "12.0", "13.0", "14.0", "17.0", "18.0",
        "20.0", "21.0", "22.0", "23.0", "27.0", "29.0", "33.0"}},
      {"states among attention",
       hybrid(),
       nothing,
       "h100",
       everything,
       {"9.2", "10.2", "11.0", "11.1", "12.0", "17.0", "18.0", "20.0", "20.1", "21.0", "27.0",
        "28.0", "29.0", "32.0", "33.0"}},
      {"mxfp4 experts on a B200",
       gpt_oss(24, 32),
       nothing,
       "b200",
       everything,
       {"11.0", "11.1", "12.0", "17.0", "18.0", "20.0", "20.1", "21.0", "26.0", "27.0", "28.0",
        "29.0", "32.0", "33.0"}},
      {"images of Gemma 3",
       sample("gemma-3-27b-it.json"),
       nothing,
       "h100",
       everything,
       {"8.1", "8.3", "8.4", "9.1", "10.0", "11.0", "11.1", "13.0", "14.0", "17.0", "18.0", "20.0",
        "20.1", "21.0", "25.0", "26.0", "27.0", "29.0", "33.0"}},
      {"images of Qwen 2.5 VL",
       sample("qwen2.5-vl-3b.json"),
       nothing,
       "h100",
       everything,
       {"8.0", "9.1", "10.0", "11.0", "11.1", "12.0", "18.0", "20.0", "21.0", "25.0", "27.0",
        "28.0", "29.0", "33.0"}},
      {"images of InternVL",
       sample("internvl2-2b.json"),
       nothing,
       "h100",
       everything,
       {"6.0", "6.2", "6.5", "8.0", "9.1", "10.0", "11.0", "11.1", "17.0", "18.0", "20.0", "21.0",
        "22.0", "25.0", "27.0", "29.0", "33.0"}},
  };
}

}  // namespace

TEST_CASE("a whole answer changes at the releases that changed vLLM, and at no other") {
  for (const Scene& scene : whole_scenes()) {
    INFO(scene.name);
    CHECK(changes_of([&](const VllmVersion& at) { return answer(scene, at); }) == scene.changes);
  }
}

TEST_CASE("the second model runner came to each architecture at its own release") {
  struct Row {
    const char* architecture;
    bool mixture;
    Releases changes;
  };
  const Row rows[] = {
      {"Qwen3ForCausalLM", false, {"22.0"}},
      {"LlamaForCausalLM", false, {"23.0"}},
      {"MistralForCausalLM", false, {"23.0"}},
      {"DeepseekV2ForCausalLM", true, {"24.0"}},
      {"GraniteMoeForCausalLM", true, {"24.0"}},
      {"Qwen2MoeForCausalLM", true, {"24.0"}},
      {"Gemma2ForCausalLM", false, {"25.0"}},
      {"InklingForCausalLM", true, {"26.0"}},
      {"InklingForConditionalGeneration", true, {"26.0"}},
      {"LongcatFlashNgramForCausalLM", true, {"26.0"}},
      {"KimiK3ForConditionalGeneration", true, {"27.0"}},
      {"DeepseekV4ForCausalLM", true, {"28.0"}},
      {"MixtralForCausalLM", true, {"29.0"}},
  };
  const auto changes = [](const ModelShape& shape, const char* drafts) {
    return changes_of([&](const VllmVersion& at) {
      EngineArgs args;
      args.version = at;
      args.draft_method = drafts;
      return std::string(uses_second_runner(args, shape) ? "second" : "first");
    });
  };
  for (const Row& row : rows) {
    INFO(row.architecture);
    ModelShape shape;
    shape.architecture = row.architecture;
    shape.mixture = row.mixture;
    CHECK(changes(shape, "") == row.changes);
    CHECK(changes(shape, "ngram") == Releases{"32.0"});
    // The second runner lacks such drafts from 0.29 on: the first runner comes back where it was
    // left.
    Releases left = row.changes;
    if (left.front() == "29.0")
      left.clear();
    else
      left.push_back("29.0");
    CHECK(changes(shape, "suffix") == left);
  }
  ModelShape recurrent;
  recurrent.architecture = "LlamaForCausalLM";
  recurrent.recurrent = true;
  CHECK(changes(recurrent, "") == Releases{"29.0"});
}

TEST_CASE("kernels of 4-bit experts pad by the release") {
  const auto changes = [](const char* card) {
    return changes_of([&](const VllmVersion& at) {
      const ExpertKernel kernel = expert_kernel(at, &hardware::find_gpu(card));
      return fmt::format("{} {} {} {}", kernel.hidden_multiple, kernel.intermediate_multiple,
                         kernel.reordered, kernel.padded_values);
    });
  };
  CHECK(changes("b200") == Releases{"32.0"});
  CHECK(changes("h100") == Releases{"12.0", "17.0", "22.0"});
  CHECK(changes("a100-80gb").empty());
}
