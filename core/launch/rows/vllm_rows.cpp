// Rows of what vLLM's launches have besides, and of images, videos and audio.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/choice.h"
#include "base/lower_case.h"
#include "base/nearest_name.h"
#include "launch/rows/forms.h"
#include "launch/rows/rows.h"

namespace plimsoll::launch {
namespace {

constexpr CountBounds kAdapters{.least = 1, .most = 1 << 20};

/// Backends of attention on NVIDIA's cards, of all releases; to 0.11 with _VLLM_V1 behind them
/// (vllm/v1/attention/backends/registry.py, before vllm/platforms/interface.py).
constexpr std::string_view kBackends[] = {"FLASH_ATTN",
                                          "FLASH_ATTN_DIFFKV",
                                          "TRITON_ATTN",
                                          "TRITON_ATTN_DIFFKV",
                                          "TRITON_FLASH_ATTN",
                                          "TRITON_FLASHINFER",
                                          "FLASHINFER",
                                          "FLEX_ATTENTION",
                                          "TORCH_SDPA",
                                          "TREE_ATTN",
                                          "XFORMERS",
                                          "TURBOQUANT",
                                          "ULTRAQUANT",
                                          "B12X",
                                          "HPC_ATTN",
                                          "NO_ATTENTION",
                                          "CUSTOM",
                                          "FLASH_ATTN_MLA",
                                          "FLASHINFER_MLA",
                                          "TOKENSPEED_MLA",
                                          "CUTLASS_MLA",
                                          "FLASHMLA",
                                          "TRITON_MLA",
                                          "FLASHINFER_MLA_SPARSE",
                                          "FLASHINFER_MLA_SPARSE_SM120",
                                          "FLASHINFER_MLA_SPARSE_SM90",
                                          "FLASHINFER_MLA_SPARSE_DSV4",
                                          "FLASHINFER_MLA_SPARSE_DSV41",
                                          "FLASH_ATTN_MLA_SPARSE",
                                          "FLASH_ATTN_MLA_SPARSE_FA4",
                                          "FLASHMLA_SPARSE",
                                          "FLASHMLA_SPARSE_DSV4",
                                          "FLASHMLA_SPARSE_DSV41",
                                          "FLASHMLA_MEGA_ATTN_DSV41",
                                          "MINIMAX_M3_SPARSE",
                                          "CUTLASS_MSA",
                                          "TRITON_MSA",
                                          "STEP5_DSA",
                                          "DUAL_CHUNK_FLASH_ATTN",
                                          "DIFFERENTIAL_FLASH_ATTN",
                                          "BLOCK_SPARSE_FLASH_ATTN"};

/// A backend's name in capitals; empty for auto.
std::string backend_name(const std::string& text) {
  std::string name = upper_case(text);
  constexpr std::string_view kOfEngine = "_VLLM_V1";
  std::string bare = name;
  if (bare.ends_with(kOfEngine)) bare.resize(bare.size() - kOfEngine.size());
  if (name == "AUTO") return "";
  for (const char* other : {"ROCM_", "XPU_", "CPU_", "AMX_", "HPU_"})  // of other devices
    if (name.starts_with(other)) return name;
  if (std::ranges::find(kBackends, bare) != std::end(kBackends)) return name;
  throw std::invalid_argument(
      fmt::format("\"{}\" is no backend of vLLM's, such as FLASH_ATTN or FLASHINFER{}", text,
                  did_you_mean(nearest_name(bare, kBackends))));
}

/// Words that stand for themselves.
Choices<std::string> same_words(std::initializer_list<std::string> words) {
  Choices<std::string> choices;
  for (const std::string& word : words) choices.emplace_back(word, word);
  return choices;
}

constexpr std::string_view kVllm = "vLLM's launch alone";
constexpr std::string_view kItems = "Images, videos, audio";

}  // namespace

std::vector<Parameter> of_vllm() {
  using enum Memory;
  constexpr Facts kAlone{Engine::vllm, Place::anywhere, Answers::same, cache};
  constexpr Facts kPlanned{Engine::plan, Place::anywhere, Answers::same, cache};
  return {
      {kVllm, "--hf-overrides", "JSON", "keys of config.json in place of the model's", kAlone,
       for_vllm(read_overrides)},
      {kVllm, "--engram-config", "JSON",
       "embeddings of n-grams: cpu_offload (true: in the host's memory)", kAlone,
       for_vllm(read_tables,
                [](const LaunchRequest& request) {
                  const vllm::TableArgs& tables = request.args.tables;
                  return OrderedJson{tables.given, json_of(tables.offload), tables.over_replicas,
                                     json_of(tables.shared), tables.huge_pages};
                })},
      {kVllm, "--rope-scaling", "JSON", "that key of config.json (older releases)", kAlone,
       for_vllm([](const std::string& text, EngineArgs& args) {
         read_overrides("{\"rope_scaling\":" + text + "}", args);
       })},
      {kVllm, "--rope-theta", "N", "that key of config.json (older releases)", kAlone,
       for_vllm([](const std::string& text, EngineArgs& args) {
         read_overrides("{\"rope_theta\":" + text + "}", args);
       })},
      {kVllm,
       "--disable-hybrid-kv-cache-manager",
       "",
       "every layer keeps every token",
       kAlone,
       {Form::on_off,
        [](LaunchRequest& request, const std::string& text) {
          request.args.hybrid_kv = text != "true";
        },
        nullptr}},
      {kVllm, "--allow-deprecated-quantization", "", "launch with methods that will go", kAlone,
       on_off(&EngineArgs::deprecated_quantization)},
      {kVllm, "--async-scheduling", "", "two batches in flight (default)", kAlone,
       on_off(&EngineArgs::async_scheduling)},
      {kVllm, "--performance-mode", "balanced|interactivity|throughput",
       "throughput doubles the defaults of a step; interactivity records each small step", kAlone,
       for_vllm([](const std::string& text, EngineArgs& args) {
         using enum vllm::Pace;
         args.pace = chosen<vllm::Pace>(text, {{"balanced", balanced},
                                               {"interactivity", interactivity},
                                               {"throughput", throughput}});
       })},
      {kVllm,
       "--disable-custom-all-reduce",
       "",
       "ranks do not write to each other's memory",
       kAlone,
       {Form::on_off,
        [](LaunchRequest& request, const std::string& text) {
          request.args.custom_all_reduce = text != "true";
        },
        nullptr}},
      {kVllm, "--enable-batch-sharded-sampling", "", "each rank draws its share of the tokens",
       kAlone, on_off(&EngineArgs::sharded_sampling)},
      {kVllm, "--enable-sleep-mode", "", "weights and cache can be let go between requests", kAlone,
       on_off(&EngineArgs::sleep_mode)},
      {kVllm, "--runner", "auto|generate|pooling",
       "pooling: answers with vectors or classes (default auto: by class and files)", kAlone,
       for_vllm([](const std::string& text, EngineArgs& args) {
         args.pooling.runner =
             chosen<std::string>(text, same_words({"auto", "generate", "pooling"}));
       })},
      {kVllm, "--convert", "auto|none|embed|...",
       "what a model that generates becomes: embed, classify or reward (default: as --runner asks)",
       kAlone, for_vllm([](const std::string& text, EngineArgs& args) {
         args.pooling.convert =
             chosen<std::string>(text, same_words({"auto", "none", "embed", "classify", "reward"}));
       })},
      {kVllm, "--task", "auto|generate|embed|...", "runner and conversion in one (to vLLM 0.12)",
       kAlone, for_vllm([](const std::string& text, EngineArgs& args) {
         args.pooling.task = chosen<std::string>(
             text, same_words({"auto", "generate", "embedding", "embed", "encode", "classify",
                               "score", "reward", "transcription", "draft"}));
       })},
      {kVllm, "--pooler-config", "JSON",
       "of which tokens a vector is made: pooling_type (default: the model's)", kAlone,
       for_vllm(read_pooler)},
      {kVllm, "--override-pooler-config", "JSON", "the same (to vLLM 0.11)", kAlone,
       for_vllm(read_pooler)},
      {kVllm, "--attention-backend", "NAME",
       "kernels of attention (VLLM_ATTENTION_BACKEND to 0.14)", kAlone,
       for_vllm([](const std::string& text, EngineArgs& args) {
         args.attention_backend = backend_name(text);
       })},
      {kVllm, "--flashinfer-sampler", "",
       "FlashInfer draws tokens (default by release: from 0.21 on; VLLM_USE_FLASHINFER_SAMPLER)",
       kPlanned, on_off(&EngineArgs::flashinfer_sampler)},
      {kVllm, "--interconnect", "auto|nvlink|pcie",
       "between the ranks' cards (default auto: the card's usual form)", kPlanned,
       for_vllm([](const std::string& text, EngineArgs& args) {
         args.interconnect =
             chosen<vllm::Interconnect>(text, {{"auto", vllm::Interconnect::automatic},
                                               {"nvlink", vllm::Interconnect::nvlink},
                                               {"pcie", vllm::Interconnect::pcie}});
       })},
      {kVllm, "--assume", "middle|worst",
       "edge of the bounds that verdict, auto and advice go by (default middle)", kPlanned,
       for_vllm([](const std::string& text, EngineArgs& args) {
         args.assume = chosen<vllm::Assume>(
             text, {{"middle", vllm::Assume::middle}, {"worst", vllm::Assume::worst}});
       })},
      {kVllm,
       "--usage",
       "server|offline|batch",
       "how vLLM is called; its defaults differ (default server)",
       {Engine::plan, Place::anywhere, Answers::same, cache},
       for_vllm([](const std::string& text, EngineArgs& args) {
         args.usage = chosen<vllm::Usage>(text, {{"server", vllm::Usage::server},
                                                 {"offline", vllm::Usage::offline},
                                                 {"batch", vllm::Usage::batch}});
       })},
      {kVllm,
       "--enable-lora",
       "",
       "reserve room for LoRA adapters",
       {Engine::both, Place::anywhere, Answers::same, beside},
       on_off(&EngineArgs::lora)},
      {kVllm, "--max-loras", "N", "adapters held at once (default 1)", kAlone,
       count(&EngineArgs::lora_slots, kAdapters)},
      {kVllm, "--max-lora-rank", "N", "of the adapters (default 16)", kAlone,
       count(&EngineArgs::lora_rank, kAdapters)},
      {kVllm,
       "--speculative-config",
       "JSON",
       "speculation; our engine has method ngram: num_speculative_tokens, prompt_lookup_min, "
       "prompt_lookup_max, and draft_model: model, num_speculative_tokens",
       {Engine::both, Place::anywhere, Answers::same, beside},
       for_vllm(read_speculation, getter_of(&EngineArgs::draft_method))},
  };
}

std::vector<Parameter> items() {
  using enum Memory;
  return {
      {kItems,
       "--limit-mm-per-prompt",
       "JSON",
       "items of each modality that a request may hold; image=0: no vision tower",
       {Engine::both, Place::anywhere, Answers::others, beside},
       for_vllm(read_modality_limits, limits_json)},
      {kItems,
       "--mm-processor-kwargs",
       "JSON",
       "max_pixels, min_pixels, size, max_dynamic_patch, do_pan_and_scan",
       {Engine::both, Place::anywhere, Answers::others, beside},
       {Form::value,
        [](LaunchRequest& request, const std::string& text) {
          read_processor(text, request.args);
          request.processor_kwargs = parse_json<OrderedJson>(text, kOrderedLimits);
        },
        getter_of(&LaunchRequest::processor_kwargs)}},
      {kItems,
       "--language-model-only",
       "",
       "no images, videos or audio",
       {Engine::both, Place::anywhere, Answers::others, beside},
       on_off(&EngineArgs::language_only)},
      {kItems,
       "--skip-mm-profiling",
       "",
       "the encoder is left out of the profile",
       {Engine::vllm, Place::anywhere, Answers::same, beside},
       on_off(&EngineArgs::skip_mm_profiling)},
      {kItems,
       "--mm-processor-cache-gb",
       "GiB",
       "host memory for processed inputs (default VLLM_MM_INPUT_CACHE_GIB, else 4)",
       {Engine::both, Place::anywhere, Answers::same, same},
       {Form::value,
        [](LaunchRequest& request, const std::string& text) {
          const double gib = parse_number(text);
          if (!(gib >= 0)) throw std::invalid_argument("expected at least 0");
          request.processor_cache_gib = request.args.processor_cache_gib = gib;
        },
        getter_of(&LaunchRequest::processor_cache_gib)}},
  };
}

}  // namespace plimsoll::launch
