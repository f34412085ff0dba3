#include "launch/parameters.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/choice.h"
#include "base/units.h"
#include "launch/values.h"

namespace plimsoll::launch {
namespace {

using vllm::EngineArgs;

/// The field of a request: one of vLLM's arguments, or one of the request's own.
template <typename Field>
Field& field_of(LaunchRequest& request, Field EngineArgs::*field) {
  return request.args.*field;
}
template <typename Field>
Field& field_of(LaunchRequest& request, Field LaunchRequest::*field) {
  return request.*field;
}
template <typename Field>
const Field& field_of(const LaunchRequest& request, Field EngineArgs::*field) {
  return request.args.*field;
}
template <typename Field>
const Field& field_of(const LaunchRequest& request, Field LaunchRequest::*field) {
  return request.*field;
}

template <typename Number>
OrderedJson json_of(const Number& value) {
  return value;
}
template <typename Number>
OrderedJson json_of(const std::optional<Number>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

template <typename Member>
Getter getter_of(Member member) {
  return [member](const LaunchRequest& request) { return json_of(field_of(request, member)); };
}

/// A field that `parse` reads from the text.
template <typename Member, typename Parse>
Value read(Member member, Parse parse) {
  return {Form::value,
          [member, parse = std::move(parse)](LaunchRequest& request, const std::string& text) {
            auto& field = field_of(request, member);
            field = static_cast<std::remove_reference_t<decltype(field)>>(parse(text));
          },
          getter_of(member)};
}

template <typename Member>
Value text(Member member) {
  return read(member, [](const std::string& text) { return text; });
}

template <typename Member>
Value count(Member member, CountBounds bounds = {}) {
  return read(member, [bounds](const std::string& text) { return parse_count(text, bounds); });
}

template <typename Member>
Value size(Member member, uint64_t bare_unit = 1, uint64_t least = 1) {
  return read(member, [=](const std::string& text) { return parse_size(text, bare_unit, least); });
}

template <typename Member>
Value on_off(Member member, Form form = Form::on_off) {
  return {form,
          [member](LaunchRequest& request, const std::string& text) {
            field_of(request, member) = text == "true";
          },
          getter_of(member)};
}

/// A value that only vLLM uses, read by a function of its arguments.
Value for_vllm(void (*set)(const std::string&, EngineArgs&)) {
  return {Form::value,
          [set](LaunchRequest& request, const std::string& text) { set(text, request.args); },
          nullptr};
}

OrderedJson limits_json(const LaunchRequest& request) {
  OrderedJson limits = OrderedJson::object();
  for (const auto& [modality, limit] : request.args.limits) {
    limits[modality] = {limit.count, limit.width, limit.height, limit.frames};
  }
  return limits;
}

constexpr uint64_t kGib = uint64_t{1} << 30;
constexpr CountBounds kAdapters{.least = 1, .most = 1 << 20};

constexpr std::string_view kLengths = "Lengths and batches";
constexpr std::string_view kMemory = "Memory";
constexpr std::string_view kNumbers = "Numbers";
constexpr std::string_view kRanks = "Ranks";
constexpr std::string_view kDevice = "Device";
constexpr std::string_view kVllm = "vLLM's launch alone";
constexpr std::string_view kItems = "Images, videos, audio";

std::vector<Parameter> lengths() {
  using enum Memory;
  return {
      {kLengths,
       "--max-model-len",
       "N|auto",
       "context length, such as 4096 or 32k; auto: what the KV cache holds",
       {Engine::both, Place::anywhere, Answers::others, cache},
       read(&EngineArgs::max_model_len,
            [](const std::string& text) {
              if (text == "auto" || text == "-1") return int64_t{-1};
              const int64_t length = parse_count(text);
              if (length == 0) throw std::invalid_argument("expected 1 or more, or auto");
              return length;
            })},
      {kLengths,
       "--max-num-seqs",
       "N|auto",
       "sequences that run at once; auto: the most that fit",
       {Engine::both, Place::anywhere, Answers::same, beside},
       {Form::value,
        [](LaunchRequest& request, const std::string& text) {
          request.solve_sequences = text == "auto";
          request.args.max_num_seqs = request.solve_sequences ? 0 : parse_count(text);
          if (!request.solve_sequences && request.args.max_num_seqs < 1)
            throw std::invalid_argument("expected a number of at least 1, or auto");
        },
        [](const LaunchRequest& request) {
          return request.solve_sequences ? OrderedJson("auto")
                                         : OrderedJson(request.args.max_num_seqs);
        }}},
      {kLengths,
       "--max-num-batched-tokens",
       "N",
       "tokens of one step",
       {Engine::both, Place::anywhere, Answers::same, cache},
       count(&EngineArgs::max_num_batched_tokens)},
      {kLengths,
       "--enable-chunked-prefill",
       "",
       "prompts are read in parts",
       {Engine::both, Place::anywhere, Answers::same, beside},
       on_off(&EngineArgs::chunked_prefill)},
      {kLengths,
       "--enable-prefix-caching",
       "",
       "share KV blocks of equal prefixes (default on)",
       {Engine::both, Place::anywhere, Answers::same, same},
       on_off(&EngineArgs::prefix_caching)},
  };
}

std::vector<Parameter> memory() {
  using enum Memory;
  return {
      {kMemory,
       "--gpu-memory-utilization",
       "X",
       "ceiling of this process, as a share of the card (default 0.9)",
       {Engine::both, Place::cards, Answers::same, cache},
       read(&EngineArgs::gpu_memory_utilization, parse_share)},
      {kMemory,
       "--gpu-memory",
       "SIZE",
       "the ceiling in bytes, in place of the share",
       {Engine::plimsoll, Place::cards, Answers::same, cache},
       size(&LaunchRequest::gpu_memory)},
      {kMemory,
       "--reserved-memory",
       "SIZE",
       "memory of the card that other processes hold",
       {Engine::plimsoll, Place::cards, Answers::same, cache},
       size(&EngineArgs::reserved)},
      {kMemory,
       "--kv-cache-memory-bytes,--kv-cache-memory",
       "SIZE",
       "KV cache, in place of what is left",
       {Engine::both, Place::anywhere, Answers::same, cache},
       size(&EngineArgs::kv_cache_memory)},
      {kMemory,
       "--cpu-kvcache-space",
       "GiB",
       "KV cache without a card, GiB or with a unit (default VLLM_CPU_KVCACHE_SPACE, else 4)",
       {Engine::plimsoll, Place::anywhere, Answers::same, cache},
       size(&LaunchRequest::host_cache, kGib)},
      {kMemory,
       "--num-gpu-blocks-override",
       "N",
       "KV blocks, whatever their bytes",
       {Engine::both, Place::anywhere, Answers::same, cache},
       count(&EngineArgs::blocks_override)},
      {kMemory,
       "--block-size",
       "N",
       "tokens of a KV block (default 16)",
       {Engine::both, Place::anywhere, Answers::same, cache},
       count(&EngineArgs::block_size)},
      {kMemory,
       "--cpu-offload-gb",
       "GiB",
       "weights kept on the host, GiB",
       {Engine::both, Place::anywhere, Answers::same, beside},
       size(&EngineArgs::cpu_offload, kGib, 0)},
  };
}

std::vector<Parameter> numbers() {
  using enum Memory;
  return {
      {kNumbers,
       "--dtype",
       "auto|bfloat16|float16|float32",
       "of weights and activations (default auto: as stored)",
       {Engine::both, Place::anywhere, Answers::others, cache},
       read(&EngineArgs::dtype, read_dtype_name)},
      {kNumbers,
       "--quantization",
       "METHOD",
       "quantize while loading, also -q METHOD: fp8 (vLLM's plan: bitsandbytes)",
       {Engine::both, Place::anywhere, Answers::others, beside},
       text(&EngineArgs::quantization)},
      {kNumbers,
       "--quantized-activations",
       "on|off",
       "off: inputs of products are not rounded as the format asks (default on)",
       {Engine::plimsoll, Place::anywhere, Answers::others, beside},
       {Form::value,
        [](LaunchRequest& request, const std::string& text) {
          request.args.whole_activations = !chosen<bool>(text, {{"on", true}, {"off", false}});
        },
        [](const LaunchRequest& request) { return !request.args.whole_activations; }}},
      {kNumbers,
       "--kv-cache-dtype",
       "auto|fp8|...",
       "of the KV cache (default auto: the model's)",
       {Engine::both, Place::anywhere, Answers::others, cache},
       text(&EngineArgs::kv_cache_dtype)},
      {kNumbers,
       "--mamba-ssm-cache-dtype",
       "auto|float32|...",
       "of recurrent states",
       {Engine::vllm, Place::anywhere, Answers::same, cache},
       read(&EngineArgs::state_dtype, read_dtype_name)},
      {kNumbers,
       "--mamba-cache-mode",
       "none|align|all",
       "which recurrent states are kept for prefixes (before vLLM 0.33)",
       {Engine::vllm, Place::anywhere, Answers::same, cache},
       text(&EngineArgs::state_mode)},
      {kNumbers,
       "--mamba-block-size",
       "N",
       "tokens of a block of recurrent states",
       {Engine::vllm, Place::anywhere, Answers::same, cache},
       count(&EngineArgs::state_block_size, {.least = 1, .most = 1 << 30})},
      {kNumbers,
       "--deterministic",
       "",
       "the same line has the same bytes in any batch and at any -tp (always so on the CPU)",
       {Engine::plimsoll, Place::anywhere, Answers::others_on_cards, beside},
       on_off(&LaunchRequest::deterministic, Form::on)},
  };
}

std::vector<Parameter> ranks() {
  using enum Memory;
  return {
      {kRanks,
       "--tensor-parallel-size",
       "N",
       "ranks that share each layer (-tp)",
       {Engine::both, Place::anywhere, Answers::others_on_cards, beside},
       count(&EngineArgs::tensor_parallel)},
      {kRanks,
       "--pipeline-parallel-size",
       "N",
       "stages of layers (-pp)",
       {Engine::both, Place::anywhere, Answers::same, beside},
       count(&EngineArgs::pipeline_parallel)},
      {kRanks,
       "--data-parallel-size",
       "N",
       "copies of the model (-dp)",
       {Engine::both, Place::anywhere, Answers::same, beside},
       count(&EngineArgs::data_parallel)},
      {kRanks,
       "--enable-expert-parallel",
       "",
       "experts are divided whole",
       {Engine::both, Place::anywhere, Answers::others_on_cards, beside},
       on_off(&EngineArgs::expert_parallel)},
  };
}

std::vector<Parameter> device() {
  using enum Memory;
  const auto word = [](Choices<std::string> words) {
    return [words = std::move(words)](const std::string& text) { return chosen(text, words); };
  };
  return {
      {kDevice,
       "--device",
       "auto|cpu|cuda",
       "where to run (default auto: a card if any)",
       {Engine::plimsoll, Place::anywhere, Answers::as_launched, beside},
       read(&LaunchRequest::device, word({{"auto", "auto"}, {"cpu", "cpu"}, {"cuda", "cuda"}}))},
      {kDevice,
       "--threads",
       "N",
       "CPU threads (default OMP_NUM_THREADS, else all cores)",
       {Engine::plimsoll, Place::anywhere, Answers::same, same},
       count(&LaunchRequest::threads, {.least = 1, .most = kMostThreads})},
      {kDevice,
       "--cpu-isa",
       "portable|avx2|avx512|avx512bf16",
       "instruction set on the CPU (default: the processor's best)",
       {Engine::plimsoll, Place::anywhere, Answers::as_launched, same},
       read(&LaunchRequest::cpu_isa, word({{"portable", "portable"},
                                           {"avx2", "avx2"},
                                           {"avx512", "avx512"},
                                           {"avx512bf16", "avx512bf16"}}))},
      {kDevice,
       "--enforce-eager",
       "",
       "record no steps as CUDA graphs",
       {Engine::both, Place::cards, Answers::same, beside},
       on_off(&EngineArgs::enforce_eager)},
      {kDevice,
       "--cudagraph-capture-sizes,--cuda-graph-sizes",
       "N,N,...",
       "sequences of the steps that are recorded",
       {Engine::both, Place::cards, Answers::same, beside},
       read(&EngineArgs::capture_sizes, parse_counts)},
      {kDevice,
       "-O,--compilation-config",
       "JSON|LEVEL",
       "vLLM's: capture sizes and mode are read",
       {Engine::both, Place::cards, Answers::same, beside},
       {Form::value,
        [](LaunchRequest& request, const std::string& text) {
          read_compilation(text, request.args);
        },
        getter_of(&EngineArgs::capture_sizes)}},
  };
}

std::vector<Parameter> of_vllm() {
  using enum Memory;
  constexpr Facts kAlone{Engine::vllm, Place::anywhere, Answers::same, cache};
  constexpr Facts kPlanned{Engine::plan, Place::anywhere, Answers::same, cache};
  return {
      {kVllm, "--hf-overrides", "JSON", "keys of config.json in place of the model's", kAlone,
       for_vllm(read_overrides)},
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
       "method, model and num_speculative_tokens are read",
       {Engine::both, Place::anywhere, Answers::same, beside},
       {Form::value,
        [](LaunchRequest& request, const std::string& text) {
          read_speculation(text, request.args);
        },
        getter_of(&EngineArgs::draft_method)}},
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
       {Form::value,
        [](LaunchRequest& request, const std::string& text) {
          read_modality_limits(text, request.args);
        },
        limits_json}},
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

std::vector<Parameter> all_parameters() {
  std::vector<Parameter> all;
  for (const auto part : {lengths, memory, numbers, ranks, device, of_vllm, items})
    for (Parameter& parameter : part()) all.push_back(std::move(parameter));
  return all;
}

/// True when a parameter with these facts changes the answers of the launch that is asked for.
bool decides(const Facts& facts, const LaunchRequest& request, bool on_cards) {
  if (facts.place == Place::cards && !on_cards) return false;
  if (facts.answers == Answers::others) return true;
  if (facts.answers == Answers::others_on_cards && on_cards) return true;
  if (request.args.max_model_len != -1) return false;
  return facts.memory == Memory::cache || (facts.memory == Memory::beside && on_cards);
}

/// Flags given whose facts are such.
std::vector<std::string> given_flags(const LaunchRequest& request, bool (*are_such)(const Facts&)) {
  std::vector<std::string> flags;
  for (const Given& given : request.given)
    if (are_such(given.parameter->facts)) flags.emplace_back(given.parameter->flag());
  return flags;
}

}  // namespace

std::string_view Parameter::flag() const {
  const size_t from = names.find("--");
  return names.substr(from, names.find(',', from) - from);
}

std::span<const Parameter> parameters() {
  static const std::vector<Parameter> all = all_parameters();
  return all;
}

void set(LaunchRequest& request, const Parameter& parameter, const std::string& text) {
  parameter.value.set(request, text);
  std::erase_if(request.given, [&](const Given& one) { return one.parameter == &parameter; });
  Given given{&parameter, std::string(parameter.flag()), text};
  if (parameter.value.form != Form::value) given.value.clear();
  if (parameter.value.form == Form::on_off && text == "false") given.flag.insert(2, "no-");
  request.given.push_back(std::move(given));
}

void change(vllm::EngineArgs& args, std::string_view flag, const std::string& text) {
  const auto parameter = std::ranges::find(parameters(), flag, &Parameter::flag);
  assert(parameter != parameters().end());
  LaunchRequest request;
  request.args = std::move(args);
  parameter->value.set(request, text);
  args = std::move(request.args);
}

std::vector<std::string> given_for_vllm(const LaunchRequest& request) {
  return given_flags(request, [](const Facts& facts) {
    return facts.engine == Engine::vllm || facts.engine == Engine::plan;
  });
}

std::vector<std::string> given_for_cards(const LaunchRequest& request) {
  return given_flags(request, [](const Facts& facts) { return facts.place == Place::cards; });
}

OrderedJson deciding_values(const LaunchRequest& request, bool on_cards) {
  OrderedJson values = OrderedJson::object();
  for (const Parameter& parameter : parameters()) {
    const Facts& facts = parameter.facts;
    const bool ours = facts.engine == Engine::both || facts.engine == Engine::plimsoll;
    if (!ours || facts.answers == Answers::as_launched) continue;
    std::string name(parameter.flag().substr(2));
    std::ranges::replace(name, '-', '_');
    values[name] = decides(facts, request, on_cards) ? parameter.value.get(request) : OrderedJson();
  }
  return values;
}

}  // namespace plimsoll::launch
