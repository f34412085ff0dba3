#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

#include "cli/engine_values.h"
#include "cli/units.h"
#include "cli/value_flag.h"

namespace plimsoll::cli {
namespace {

using Names = std::vector<std::string>;

/// The option, once given, is noted in `names` under its first long name.
CLI::Option* noted(CLI::Option* option, Names& names) {
  const std::string name = "--" + option->get_lnames().front();
  option->each([&names, name](const std::string&) {
    if (names.empty() || names.back() != name) names.push_back(name);
  });
  return option;
}

/// The option, once given, is noted with its last value.
void record(CLI::Option* option, EngineFlags& flags) {
  const std::string& name = option->get_lnames().front();
  const bool is_switch = option->get_items_expected_max() == 0;
  option->each([&flags, name, is_switch](const std::string& value) {
    std::erase_if(flags.given, [&](const auto& one) {
      return one.first == "--" + name || one.first == "--no-" + name;
    });
    flags.given.emplace_back((is_switch && value == "false" ? "--no-" : "--") + name,
                             is_switch ? "" : value);
  });
}

void declare_lengths(CLI::App& command, EngineFlags& flags) {
  vllm::EngineArgs& args = flags.args;
  value_flag(command, "--max-model-len", "N|auto",
             "context length, such as 4096 or 32k; auto: what the KV cache holds",
             [&args](const std::string& text) {
               args.max_model_len = text == "auto" || text == "-1" ? -1 : parse_count(text);
               if (args.max_model_len == 0)
                 throw std::invalid_argument("expected 1 or more, or auto");
             });
  value_flag(command, "--max-num-seqs", "N|auto",
             "sequences that run at once; auto: the most that fit",
             [&flags](const std::string& text) {
               flags.solve_sequences = text == "auto";
               flags.args.max_num_seqs = flags.solve_sequences ? 0 : parse_count(text);
               if (!flags.solve_sequences && flags.args.max_num_seqs < 1) {
                 throw std::invalid_argument("expected a number of at least 1, or auto");
               }
             });
  count_flag(command, "--max-num-batched-tokens", args.max_num_batched_tokens, {},
             "tokens of one step");
  switch_flag(
      command, "enable-chunked-prefill", [&args](bool on) { args.chunked_prefill = on; },
      "prompts are read in parts");
  switch_flag(
      command, "enable-prefix-caching", [&args](bool on) { args.prefix_caching = on; },
      "share KV blocks of equal prefixes (default on)");
}

void declare_memory(CLI::App& command, EngineFlags& flags) {
  vllm::EngineArgs& args = flags.args;
  noted(value_flag(
            command, "--gpu-memory-utilization", "X",
            "ceiling of this process, as a share of the card (default 0.9)",
            [&args](const std::string& text) { args.gpu_memory_utilization = parse_share(text); }),
        flags.for_cards);
  noted(size_flag(command, "--gpu-memory", flags.gpu_memory,
                  "the ceiling in bytes, in place of the share"),
        flags.for_cards);
  noted(size_flag(command, "--reserved-memory", args.reserved,
                  "memory of the card that other processes hold"),
        flags.for_cards);
  size_flag(command, "--kv-cache-memory-bytes,--kv-cache-memory", args.kv_cache_memory,
            "KV cache, in place of what is left");
  size_flag(command, "--cpu-kvcache-space", flags.host_cache,
            "KV cache without a card, GiB or with a unit (default VLLM_CPU_KVCACHE_SPACE, else 4)",
            uint64_t{1} << 30, "GiB");
  count_flag(command, "--num-gpu-blocks-override", args.blocks_override, {},
             "KV blocks, whatever their bytes");
  count_flag(command, "--block-size", args.block_size, {}, "tokens of a KV block (default 16)");
  size_flag(command, "--cpu-offload-gb", args.cpu_offload, "weights kept on the host, GiB",
            uint64_t{1} << 30, "GiB", 0);
}

void declare_numbers(CLI::App& command, EngineFlags& flags) {
  vllm::EngineArgs& args = flags.args;
  value_flag(command, "--dtype", "auto|bfloat16|float16|float32",
             "of weights and activations (default auto: as stored)",
             [&args](const std::string& text) { args.dtype = read_dtype_name(text); });
  text_flag(command, "--quantization", args.quantization, "METHOD",
            "quantize while loading, also -q METHOD: fp8 (vLLM's plan: bitsandbytes)");
  choice_flag(command, "--quantized-activations", args.whole_activations,
              {{"on", false}, {"off", true}},
              "off: inputs of products are not rounded as the format asks (default on)");
  text_flag(command, "--kv-cache-dtype", args.kv_cache_dtype, "auto|fp8|...",
            "of the KV cache (default auto: the model's)");
  noted(value_flag(command, "--mamba-ssm-cache-dtype", "auto|float32|...", "of recurrent states",
                   [&args](const std::string& text) { args.state_dtype = read_dtype_name(text); }),
        flags.for_vllm);
  command.add_flag(
      "--deterministic", flags.deterministic,
      "the same line has the same bytes in any batch and at any -tp (always so on the CPU)");
}

void declare_ranks(CLI::App& command, EngineFlags& flags) {
  vllm::EngineArgs& args = flags.args;
  count_flag(command, "--tensor-parallel-size", args.tensor_parallel, {},
             "ranks that share each layer (-tp)");
  count_flag(command, "--pipeline-parallel-size", args.pipeline_parallel, {},
             "stages of layers (-pp)");
  count_flag(command, "--data-parallel-size", args.data_parallel, {}, "copies of the model (-dp)");
  switch_flag(
      command, "enable-expert-parallel", [&args](bool on) { args.expert_parallel = on; },
      "experts are divided whole");
}

void declare_device(CLI::App& command, EngineFlags& flags) {
  vllm::EngineArgs& args = flags.args;
  choice_flag(command, "--device", flags.device,
              {{"auto", std::string("auto")}, {"cpu", "cpu"}, {"cuda", "cuda"}},
              "where to run (default auto: a card if any)");
  count_flag(command, "--threads", flags.threads, {.least = 1, .most = kMostThreads},
             "CPU threads (default OMP_NUM_THREADS, else all cores)");
  choice_flag(command, "--cpu-isa", flags.cpu_isa,
              {{"portable", std::string("portable")},
               {"avx2", "avx2"},
               {"avx512", "avx512"},
               {"avx512bf16", "avx512bf16"}},
              "instruction set on the CPU (default: the processor's best)");
  switch_flag(
      command, "enforce-eager", [&args](bool on) { args.enforce_eager = on; },
      "record no steps as CUDA graphs");
  noted(command.get_option("--enforce-eager"), flags.for_cards);
  noted(value_flag(command, "--cudagraph-capture-sizes,--cuda-graph-sizes", "N,N,...",
                   "sequences of the steps that are recorded",
                   [&args](const std::string& text) { args.capture_sizes = parse_counts(text); }),
        flags.for_cards);
  noted(value_flag(command, "-O,--compilation-config", "JSON|LEVEL",
                   "vLLM's: capture sizes and mode are read",
                   [&args](const std::string& text) { read_compilation(text, args); }),
        flags.for_cards);
}

void declare_vllm(CLI::App& command, EngineFlags& flags) {
  vllm::EngineArgs& args = flags.args;
  const auto switch_of_vllm = [&](const std::string& name, std::function<void(bool)> set,
                                  const std::string& help) {
    switch_flag(command, name, std::move(set), help);
    noted(command.get_option("--" + name), flags.for_vllm);
  };
  noted(value_flag(command, "--hf-overrides", "JSON", "keys of config.json in place of the model's",
                   [&args](const std::string& text) { read_overrides(text, args); }),
        flags.for_vllm);
  noted(value_flag(command, "--rope-scaling", "JSON", "that key of config.json (older releases)",
                   [&args](const std::string& text) {
                     read_overrides("{\"rope_scaling\":" + text + "}", args);
                   }),
        flags.for_vllm);
  noted(value_flag(command, "--rope-theta", "N", "that key of config.json (older releases)",
                   [&args](const std::string& text) {
                     read_overrides("{\"rope_theta\":" + text + "}", args);
                   }),
        flags.for_vllm);
  switch_of_vllm(
      "disable-hybrid-kv-cache-manager", [&args](bool on) { args.hybrid_kv = !on; },
      "every layer keeps every token");
  switch_of_vllm(
      "allow-deprecated-quantization", [&args](bool on) { args.deprecated_quantization = on; },
      "launch with methods that will go");
  switch_of_vllm(
      "async-scheduling", [&args](bool on) { args.async_scheduling = on; },
      "two batches in flight (default)");
  noted(choice_flag(command, "--usage", args.usage,
                    {{"server", vllm::Usage::server},
                     {"offline", vllm::Usage::offline},
                     {"batch", vllm::Usage::batch}},
                    "how vLLM is called; its defaults differ (default server)"),
        flags.for_vllm);
  switch_flag(
      command, "enable-lora", [&args](bool on) { args.lora = on; },
      "reserve room for LoRA adapters");
  constexpr CountBounds kAdapters{.least = 1, .most = 1 << 20};
  noted(count_flag(command, "--max-loras", args.lora_slots, kAdapters,
                   "adapters held at once (default 1)"),
        flags.for_vllm);
  noted(count_flag(command, "--max-lora-rank", args.lora_rank, kAdapters,
                   "of the adapters (default 16)"),
        flags.for_vllm);
  value_flag(command, "--speculative-config", "JSON",
             "method, model and num_speculative_tokens are read",
             [&args](const std::string& text) { read_speculation(text, args); });
}

void declare_multimodal(CLI::App& command, EngineFlags& flags) {
  vllm::EngineArgs& args = flags.args;
  const auto of_vllm = [&](CLI::Option* option) { noted(option, flags.for_vllm); };
  value_flag(command, "--limit-mm-per-prompt", "JSON",
             "items of each modality that a request may hold; image=0: no vision tower",
             [&args](const std::string& text) { read_modality_limits(text, args); });
  value_flag(command, "--mm-processor-kwargs", "JSON",
             "max_pixels, min_pixels, size, max_dynamic_patch, do_pan_and_scan",
             [&args, &flags](const std::string& text) {
               read_processor(text, args);
               flags.processor_kwargs = parse_json<OrderedJson>(text, kOrderedLimits);
             });
  switch_flag(
      command, "language-model-only", [&args](bool on) { args.language_only = on; },
      "no images, videos or audio");
  switch_flag(
      command, "skip-mm-profiling", [&args](bool on) { args.skip_mm_profiling = on; },
      "the encoder is left out of the profile");
  of_vllm(command.get_option("--skip-mm-profiling"));
  value_flag(command, "--mm-processor-cache-gb", "GiB",
             "host memory for processed inputs (default VLLM_MM_INPUT_CACHE_GIB, else 4)",
             [&args, &flags](const std::string& text) {
               flags.processor_cache_gib = args.processor_cache_gib = parse_number(text);
               if (!(args.processor_cache_gib >= 0))
                 throw std::invalid_argument("expected at least 0");
             });
}

}  // namespace

void declare_engine_flags(CLI::App& command, EngineFlags& flags) {
  const std::pair<const char*, void (*)(CLI::App&, EngineFlags&)> groups[] = {
      {"Lengths and batches", declare_lengths},
      {"Memory", declare_memory},
      {"Numbers", declare_numbers},
      {"Ranks", declare_ranks},
      {"Device", declare_device},
      {"vLLM's launch alone", declare_vllm},
      {"Images, videos, audio", declare_multimodal},
  };
  for (const auto& [name, declare] : groups) {
    command.option_defaults()->group(name);
    declare(command, flags);
    for (CLI::Option* option : command.get_options())
      if (option->get_group() == name) record(option, flags);
  }
}

}  // namespace plimsoll::cli
