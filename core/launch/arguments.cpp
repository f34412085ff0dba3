#include "launch/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "quantization/online.h"

namespace plimsoll::launch {
namespace {

/// vLLM's names of the same checkpoints for other kernels.
std::string_view stored_method(std::string_view asked) {
  for (const std::string_view kernel : {"_marlin", "_bitblas"})
    if (asked.ends_with(kernel)) asked.remove_suffix(kernel.size());
  return asked;
}

void check_quantization(const std::string& asked, const std::string& stored) {
  const bool online = stored.empty() && quantization::is_online(asked);
  if (asked.empty() || stored_method(asked) == stored_method(stored) || online) return;
  if (!stored.empty()) {
    fail(ExitCode::usage,
         "--quantization {}: the checkpoint is quantized with {}, and is run as it is; leave the "
         "flag out",
         asked, stored);
  }
  fail(ExitCode::usage,
       "--quantization {}: our own engine quantizes with fp8 alone while loading; quantized "
       "checkpoints run without the flag, and plan --engine vllm plans the method for vLLM",
       asked);
}

/// --kv-cache-dtype; absent: the model's. Throws Error(usage) for what our engine does not have.
std::optional<DType> asked_kv_dtype(const EngineArgs& args) {
  const std::string& name = args.kv_cache_dtype;
  if (name == "auto") return std::nullopt;
  if (name == "fp8" || name == "fp8_e4m3") return DType::f8_e4m3;
  for (const std::string_view known : {"bfloat16", "float16", "float32"}) {
    if (name == known) return dtype_from_torch(name);
  }
  fail(ExitCode::usage,
       "--kv-cache-dtype {}: our own engine has auto, fp8 (e4m3), bfloat16, float16 and float32; "
       "plan --engine vllm plans it for vLLM",
       name);
}

/// The dtype of the cache: on the processor the model's in place of one that it does not keep.
std::optional<DType> kv_dtype(const EngineArgs& args, DType model,
                              const backend::Footprint& footprint) {
  const std::optional<DType> asked = asked_kv_dtype(args);
  if (asked && footprint.shares_memory() && !footprint.stores_kv(*asked, model))
    return std::nullopt;
  return asked;
}

/// vLLM's defaults: where one of two bounds is given, both are that one.
engine::NgramOptions ngram_options(const EngineArgs& args) {
  engine::NgramOptions ngram;
  if (args.draft_method != "ngram") return ngram;
  ngram.num_speculative_tokens = args.draft_tokens;
  if (const int64_t least = args.lookup_min > 0 ? args.lookup_min : args.lookup_max; least > 0)
    ngram.prompt_lookup_min = least;
  if (const int64_t most = args.lookup_max > 0 ? args.lookup_max : args.lookup_min; most > 0)
    ngram.prompt_lookup_max = most;
  return ngram;
}

void check_speculation(const EngineArgs& args, const model::ModelSpec& spec) {
  const auto refuse = [](const std::string& why) {
    fail(ExitCode::usage, "--speculative-config: {}", why);
  };
  if (args.draft_method.empty()) return;
  const bool has_draft = args.draft_method == kDraftModel;
  if (args.draft_method != "ngram" && !has_draft) {
    refuse("our own engine has the methods ngram and draft_model, not " + args.draft_method +
           "; plan --engine vllm plans it for vLLM");
  }
  if (has_draft && args.draft_model.empty()) refuse("\"model\" must name the draft model");
  if (has_draft && args.tensor_parallel * args.pipeline_parallel > 1) {
    refuse("a draft model runs beside a model on one rank alone so far; leave out -tp and -pp");
  }
  if (args.draft_tokens < 1)
    refuse("num_speculative_tokens says how many tokens a step tries beyond its own, such as 8");
  const engine::NgramOptions ngram = ngram_options(args);
  if (ngram.prompt_lookup_min > ngram.prompt_lookup_max) {
    refuse(fmt::format("prompt_lookup_min ({}) is above prompt_lookup_max ({})",
                       ngram.prompt_lookup_min, ngram.prompt_lookup_max));
  }
  if (spec.is_recurrent()) {
    refuse(spec.architecture +
           " keeps a state that goes token by token and cannot go back where a proposed token was "
           "wrong; leave the flag out");
  }
}

}  // namespace

int threads_of_replica(int threads, int64_t replicas) {
  return static_cast<int>(std::max<int64_t>(1, threads / replicas));
}

DType run_dtype(const model::ModelSpec& spec, const EngineArgs& args) {
  if (args.dtype != "auto") return dtype_from_torch(args.dtype).value_or(spec.dtype);
  return spec.dtype == DType::f64 ? DType::f32 : spec.dtype;
}

std::vector<std::string> dtype_notes(const model::ModelSpec& spec, const EngineArgs& args,
                                     const backend::Footprint& footprint) {
  std::vector<std::string> notes;
  if (args.dtype == "auto" && spec.dtype == DType::f64)
    notes.emplace_back("the model is of float64: it is run in float32");
  const DType dtype = run_dtype(spec, args);
  if (asked_kv_dtype(args) != kv_dtype(args, dtype, footprint)) {
    notes.push_back(fmt::format("--kv-cache-dtype: the CPU keeps the cache in the model's {}",
                                torch_name(dtype)));
  }
  return notes;
}

checkpoint::Keeping keeping(const EngineArgs& args) {
  using enum quantization::Activations;
  const std::string& asked = args.quantized_activations;
  return {.activations = asked == "off"  ? whole
                         : asked == "on" ? rounded_blocks
                                         : rounded,
          .online = args.quantization};
}

int64_t budget_bytes(const Arguments& arguments, int64_t total) {
  const EngineArgs& args = arguments.args;
  const double share = args.gpu_memory_utilization > 0 ? args.gpu_memory_utilization : kUtilization;
  const auto ceiling = arguments.ceiling > 0
                           ? arguments.ceiling
                           : static_cast<int64_t>(static_cast<double>(total) * share);
  return std::clamp<int64_t>(ceiling, 0, total - std::min(total, args.reserved));
}

void check_values(const EngineArgs& args) {
  (void)asked_kv_dtype(args);
  if (args.max_model_len == 1) {
    fail(ExitCode::usage,
         "--max-model-len 1: expected at least 2, for a token of the prompt and one of the answer");
  }
}

void check_supported(const EngineArgs& args, const model::ModelSpec& spec) {
  const auto refuse = [](const char* flag) {
    fail(ExitCode::usage,
         "{}: our own engine does not have it; plan --engine vllm plans it for vLLM", flag);
  };
  check_quantization(args.quantization, spec.quantization);
  if (args.cpu_offload > 0) refuse("--cpu-offload-gb");
  if (args.overrides) refuse("--hf-overrides, --rope-scaling, --rope-theta");
  if (args.lora) refuse("--enable-lora");
  check_speculation(args, spec);
}

void divide_experts(const EngineArgs& args, model::ModelSpec& spec) {
  spec.whole_experts = args.expert_parallel;
  if (!args.expert_parallel) return;
  if (std::ranges::any_of(spec.layers, &model::LayerSpec::has_experts)) return;
  fail(ExitCode::usage, "--enable-expert-parallel: {} has no experts; leave it out",
       spec.architecture);
}

engine::EngineOptions engine_options(const Arguments& arguments, DType dtype,
                                     const backend::Footprint& footprint) {
  const EngineArgs& args = arguments.args;
  engine::EngineOptions engine;
  engine.dtype = dtype;
  engine.replicas = args.data_parallel;
  engine.tensor_ranks = args.tensor_parallel;
  engine.threads = threads_of_replica(arguments.threads, args.data_parallel);
  engine.max_model_len = std::max<int64_t>(0, args.max_model_len);
  engine.auto_model_len = args.max_model_len == -1;
  engine.max_num_seqs = args.max_num_seqs;
  engine.max_num_batched_tokens = args.max_num_batched_tokens;
  engine.prefix_caching = args.prefix_caching.value_or(true);
  if (arguments.host_cache) engine.kv_cache_bytes = *arguments.host_cache;
  if (args.kv_cache_memory > 0) {
    engine.kv_cache_memory = static_cast<uint64_t>(args.kv_cache_memory);
  }
  if (args.block_size > 0) engine.block_size = args.block_size;
  if (args.blocks_override > 0) engine.num_kv_blocks = args.blocks_override;
  if (args.enforce_eager || args.graphs.mode == "NONE" || args.graphs.level == 0) {
    engine.capture_sizes.emplace();
  } else {
    engine.capture_sizes = args.capture_sizes;
  }
  engine.largest_recorded = args.graphs.largest > 0 ? args.graphs.largest : args.graphs.up_to;
  engine.kv_dtype = kv_dtype(args, dtype, footprint);
  engine.ngram = ngram_options(args);
  if (args.draft_tokens > 0 && !footprint.shares_memory()) {
    fail(ExitCode::usage,
         "--speculative-config: our own engine speculates on the CPU alone so far; leave the flag "
         "out, or run with --device cpu");
  }
  return engine;
}

}  // namespace plimsoll::launch
