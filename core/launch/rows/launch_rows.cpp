// Rows of what every launch has: lengths, memory, numbers, ranks, device.
#include <algorithm>

#include "base/choice.h"
#include "launch/rows/forms.h"
#include "launch/rows/rows.h"

namespace plimsoll::launch {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

constexpr std::string_view kLengths = "Lengths and batches";
constexpr std::string_view kMemory = "Memory";
constexpr std::string_view kNumbers = "Numbers";
constexpr std::string_view kRanks = "Ranks";
constexpr std::string_view kDevice = "Device";

/// A count, or "auto", which sets the switch and leaves the count 0.
Value count_or_auto(int64_t EngineArgs::*field, bool LaunchRequest::*is_auto) {
  return {Form::value,
          [=](LaunchRequest& request, const std::string& text) {
            request.*is_auto = text == "auto";
            request.args.*field = request.*is_auto ? 0 : parse_count(text);
            if (!(request.*is_auto) && request.args.*field < 1)
              throw std::invalid_argument("expected a number of at least 1, or auto");
          },
          [=](const LaunchRequest& request) {
            return request.*is_auto ? OrderedJson("auto") : OrderedJson(request.args.*field);
          }};
}

/// What --compilation-config said.
OrderedJson compilation_json(const LaunchRequest& request) {
  const vllm::GraphArgs& graphs = request.args.graphs;
  return {json_of(request.args.capture_sizes),
          graphs.mode,
          json_of(graphs.level),
          json_of(graphs.compile),
          graphs.largest,
          graphs.by_adapters};
}

}  // namespace

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
       "sequences that run at once; auto: by the lines' lengths, else the most that fit",
       {Engine::both, Place::anywhere, Answers::same, beside},
       count_or_auto(&EngineArgs::max_num_seqs, &LaunchRequest::solve_sequences)},
      {kLengths,
       "--max-num-batched-tokens",
       "N|auto",
       "tokens of one step; auto: by the lines' lengths",
       {Engine::both, Place::anywhere, Answers::same, cache},
       count_or_auto(&EngineArgs::max_num_batched_tokens, &LaunchRequest::solve_tokens)},
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
       memory(&LaunchRequest::gpu_memory)},
      {kMemory,
       "--reserved-memory",
       "SIZE",
       "memory of the card that other processes hold",
       {Engine::plimsoll, Place::cards, Answers::same, cache},
       memory(&EngineArgs::reserved)},
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

/// A reader of one of some words, each a pair: the word as written and what the field holds.
auto word(Choices<std::string> words) {
  return [words = std::move(words)](const std::string& text) { return chosen(text, words); };
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
       "auto|on|off",
       "round inputs of products: as the format asks (auto), GGUF's blocks too (on), none (off)",
       {Engine::plimsoll, Place::anywhere, Answers::others, beside},
       read(&EngineArgs::quantized_activations,
            word({{"auto", "auto"}, {"on", "on"}, {"off", "off"}}))},
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
       "--decode-context-parallel-size",
       "N",
       "ranks of -tp that divide the tokens of the KV cache (-dcp)",
       {Engine::vllm, Place::anywhere, Answers::same, cache},
       count(&EngineArgs::context_ranks)},
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
       "--cudagraph-capture-sizes",
       "N,N,...",
       "sequences of the steps that are recorded",
       {Engine::both, Place::cards, Answers::same, beside},
       read(&EngineArgs::capture_sizes, parse_counts)},
      {kDevice,
       "--cuda-graph-sizes",
       "N",
       "vLLM's to 0.12: the largest of 1, 2, 4, 8, 16 ..., from 0.11.1 on the size itself",
       {Engine::both, Place::cards, Answers::same, beside},
       for_vllm(
           read_graph_sizes,
           [](const LaunchRequest& request) {
             return OrderedJson{json_of(request.args.capture_sizes), request.args.graphs.up_to};
           })},
      {kDevice,
       "--max-cudagraph-capture-size",
       "N",
       "sequences of the largest step that is recorded",
       {Engine::both, Place::cards, Answers::same, beside},
       for_vllm(
           [](const std::string& text, EngineArgs& args) {
             args.graphs.largest = parse_count(text, {.least = 1, .most = 1 << 20});
           },
           [](const LaunchRequest& request) { return OrderedJson(request.args.graphs.largest); })},
      {kDevice,
       "-O,--compilation-config",
       "JSON|LEVEL",
       "vLLM's: level, mode and what concerns CUDA graphs are read",
       {Engine::both, Place::cards, Answers::same, beside},
       for_vllm(read_compilation, compilation_json)},
      {kDevice,
       "--optimization-level",
       "N",
       "vLLM's from 0.12 on: 0 records no graphs, 1 no whole steps",
       {Engine::both, Place::cards, Answers::same, beside},
       for_vllm(
           [](const std::string& text, EngineArgs& args) {
             args.graphs.level = parse_count(text, {.least = 0, .most = 3});
           },
           [](const LaunchRequest& request) { return json_of(request.args.graphs.level); })},
  };
}

}  // namespace plimsoll::launch
