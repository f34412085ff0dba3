// Which engine and which model runner executes a launch, and what is known of its machine, where no
// card is named or what is asked for lies at a bound.
#include <catch2/catch.hpp>

#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "launches.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/sampler.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::tiny_llama;

namespace {

Json deepseek() {
  return {{"architectures", {"DeepseekV3ForCausalLM"}},
          {"model_type", "deepseek_v3"},
          {"torch_dtype", "bfloat16"},
          {"kv_lora_rank", 512}};
}

/// Whether a cache of a type, read by a backend, leads to the first engine.
bool falls_back(const Json& config, VllmVersion version, const char* cache, const char* backend,
                const hardware::Gpu* gpu) {
  EngineArgs args;
  args.version = version;
  args.dtype = "bfloat16";
  args.kv_cache_dtype = cache;
  args.attention_backend = backend;
  return choose_engine({config, "config.json"}, args, gpu).first;
}

bool second_runner(const char* method, VllmVersion version, bool mixture = false,
                   std::optional<bool> asked = {}, const char* architecture = "LlamaForCausalLM") {
  EngineArgs args;
  args.version = version;
  args.draft_method = method;
  args.second_runner = asked;
  ModelShape shape;
  shape.architecture = architecture;
  shape.mixture = mixture;
  return uses_second_runner(args, shape);
}

}  // namespace

TEST_CASE("a cache of 8 bits keeps the second engine where the stated backend reads it") {
  const hardware::Gpu* h100 = &hardware::find_gpu("h100");
  struct Row {
    bool latents;
    VllmVersion version;
    const char* cache;
    const char* backend;
    const hardware::Gpu* gpu;
    bool first;
  };
  for (const Row& row : std::vector<Row>{
           {false, {0, 9, 0}, "fp8", "", h100, false},
           {false, {0, 9, 0}, "fp8", "FLASH_ATTN_VLLM_V1", h100, false},
           {false, {0, 9, 0}, "fp8", "FLASHINFER", h100, true},
           {false, {0, 9, 0}, "bfloat16", "", h100, true},
           {false, {0, 10, 2}, "bfloat16", "FLASH_ATTN_VLLM_V1", h100, false},
           {false, {0, 10, 2}, "bfloat16", "XFORMERS_VLLM_V1", h100, true},
           {false, {0, 10, 2}, "fp8", "TRITON_ATTN_VLLM_V1", nullptr, false},
           {true, {0, 10, 2}, "fp8", "", h100, false},
           {true, {0, 10, 2}, "fp8", "FLASHMLA", h100, false},
           {true, {0, 10, 2}, "fp8", "CUTLASS_MLA", h100, false},
           {true, {0, 10, 2}, "fp8", "TRITON_MLA", h100, true},
           {true, {0, 10, 2}, "bfloat16", "TRITON_MLA", h100, false},
       }) {
    INFO(row.cache << " " << row.backend << " " << version_text(row.version) << row.latents);
    CHECK(falls_back(row.latents ? deepseek() : tiny_llama(), row.version, row.cache, row.backend,
                     row.gpu) == row.first);
  }
}

TEST_CASE("no card, and one of an unknown generation, is none of the old ones") {
  CHECK_FALSE(falls_back(tiny_llama(), {0, 9, 0}, "auto", "", nullptr));
  hardware::Gpu card;
  CHECK_FALSE(falls_back(tiny_llama(), {0, 9, 0}, "auto", "", &card));
  card.compute_capability = 7.5;
  CHECK(falls_back(tiny_llama(), {0, 9, 0}, "auto", "", &card));
  card.compute_capability = 8;
  CHECK_FALSE(falls_back(tiny_llama(), {0, 9, 0}, "auto", "", &card));
}

TEST_CASE("drafts of some methods keep the first model runner") {
  for (const char* method : {"suffix", "medusa", "mlp_speculator", "custom_class"}) {
    INFO(method);
    CHECK_FALSE(second_runner(method, {0, 29, 0}));
    CHECK_FALSE(second_runner(method, {0, 33, 0}));
  }
  for (const char* method : {"", "eagle", "mtp", "draft_model"})
    CHECK(second_runner(method, {0, 29, 0}));
  CHECK_FALSE(second_runner("ngram", {0, 31, 9}));
  CHECK(second_runner("ngram", {0, 32, 0}));
}

TEST_CASE("mixtures of experts have the second model runner from 0.29 on, before where asked") {
  constexpr bool kMixture = true;
  CHECK(second_runner("", {0, 25, 0}));
  CHECK_FALSE(second_runner("", {0, 25, 0}, kMixture, {}, "MixtralForCausalLM"));
  CHECK(second_runner("", {0, 25, 0}, kMixture, true, "MixtralForCausalLM"));
  CHECK_FALSE(second_runner("", {0, 24, 9}, kMixture, true, "MixtralForCausalLM"));
  CHECK(second_runner("", {0, 29, 0}, kMixture, {}, "MixtralForCausalLM"));
  CHECK_FALSE(second_runner("", {0, 29, 0}, kMixture, false, "MixtralForCausalLM"));
  CHECK_FALSE(second_runner("", {0, 24, 0}, false, {}, "WombatForCausalLM"));  // of no release
}

TEST_CASE("a launch without a card is taken for one on large cards that NVLink joins") {
  EngineArgs args;
  args.version = {0, 28, 0};
  args.tensor_parallel = 2;
  const std::vector<MachineFact> facts = machine_facts(args, nullptr, {});
  REQUIRE(facts.size() == 2);
  CHECK(facts[0].value == "yes");
  CHECK(facts[1].name == "interconnect");
  CHECK(facts[1].value == "NVLink");
  CHECK(facts[1].source == "the card's usual form");
  CHECK(context_bytes(args, nullptr) == context_bytes(args, &hardware::find_gpu("h100")));
  CHECK_FALSE(is_spark(nullptr));
  CHECK(gemm_workspace(nullptr) == 32 * kMiB);
}

TEST_CASE("a fact of the machine says why it is taken for so, and the flag that states it") {
  const auto fact = [](VllmVersion version, const std::function<void(EngineArgs&)>& change,
                       const char* card, size_t which) {
    EngineArgs args;
    args.version = version;
    args.tensor_parallel = 2;
    change(args);
    return machine_facts(args, &hardware::find_gpu(card), {})[which];
  };
  const auto nothing = [](EngineArgs&) {};
  const auto source = [&](VllmVersion version, const std::function<void(EngineArgs&)>& change) {
    const MachineFact found = fact(version, change, "h100", 0);
    CHECK(found.name == kSamplerFact);
    CHECK(found.flag == "--flashinfer-sampler");
    return found.source;
  };
  CHECK(source({0, 33, 0}, nothing) ==
        "default of the release, where the card has more than 16 multiprocessors");
  CHECK(source({0, 20, 9}, nothing) == "default of the release");
  CHECK(source({0, 11, 0}, nothing) ==
        "vLLM's images have it, a pip install has not; logs before 0.11 do");
  CHECK(source({0, 11, 0}, [](EngineArgs& args) { args.flashinfer_installed = true; }) ==
        "the image has FlashInfer");
  CHECK(source({0, 33, 0}, [](EngineArgs& args) { args.flashinfer_sampler = true; }) == "stated");
  const auto joined = [&](const std::function<void(EngineArgs&)>& change, const char* card) {
    const MachineFact found = fact({0, 33, 0}, change, card, 1);
    CHECK(found.name == "interconnect");
    CHECK(found.flag == "--interconnect");
    return found.value + ": " + found.source;
  };
  CHECK(joined(nothing, "h100") == "NVLink: the card's usual form");
  CHECK(joined(nothing, "4090") == "PCIe: the card has no NVLink");
  CHECK(joined([](EngineArgs& args) { args.interconnect = Interconnect::pcie; }, "h100") ==
        "PCIe: stated");
  CHECK(joined([](EngineArgs& args) { args.interconnect = Interconnect::nvlink; }, "4090") ==
        "NVLink: stated");
  CHECK(joined([](EngineArgs& args) { args.custom_all_reduce = false; }, "h100") ==
        "PCIe: --disable-custom-all-reduce");
  CHECK(fact({0, 33, 0}, nothing, "h100", 2).flag == "--gpu-total-memory");
  CHECK(fact({0, 33, 0}, nothing, "h100", 3).source == "none is taken for granted");
  const MachineFact held = fact(
      {0, 33, 0}, [](EngineArgs& args) { args.reserved = 3 * kGiB; }, "h100", 3);
  CHECK(held.source == "stated");
  CHECK(held.flag == "--reserved-memory");
}

TEST_CASE("FlashInfer samples on cards with more than 16 multiprocessors, from capability 7.5 on") {
  EngineArgs args;
  args.version = {0, 28, 0};
  struct Row {
    double capability;
    int64_t processors;
    bool samples;
  };
  for (const Row& row : {Row{8.9, 16, false}, Row{8.9, 17, true}, Row{8.9, 0, true},
                         Row{7.5, 40, true}, Row{7.0, 80, false}, Row{0, 80, true}}) {
    INFO(row.capability << " " << row.processors);
    hardware::Gpu card;
    card.compute_capability = row.capability;
    card.processors = row.processors;
    CHECK(samples_with_flashinfer(args, &card) == row.samples);
  }
}

TEST_CASE("the buffer of top-k is that of 132 multiprocessors where their number is not known") {
  EngineArgs args;
  args.version = {0, 28, 0};
  constexpr int64_t kVocabulary = 1000;
  const Step step{.tokens = 1024,
                  .rows = 256,
                  .hidden = 64,
                  .vocabulary = kVocabulary,
                  .intermediate = 256,
                  .element = 2,
                  .int8_activations = false};
  const auto buffer = [&](const hardware::Gpu* gpu) {
    args.flashinfer_sampler = false;
    const int64_t with = first_runner_sampler(args, step, gpu).bytes;
    args.flashinfer_sampler = true;
    return with - first_runner_sampler(args, step, gpu).bytes;
  };
  hardware::Gpu card;
  CHECK(buffer(nullptr) == 132 * kVocabulary * 4);
  CHECK(buffer(&card) == 132 * kVocabulary * 4);
  card.processors = 1;
  CHECK(buffer(&card) == kVocabulary * 4);
  card.processors = 300;
  CHECK(buffer(&card) == 256 * kVocabulary * 4);  // there are no more rows
}
