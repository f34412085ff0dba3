#include "plan/vllm_plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/amount.h"
#include "plan/arguments.h"
#include "plan/multimodal.h"
#include "plan/vllm_stage.h"

namespace plimsoll::plan {
namespace {

constexpr VllmVersion kOnlyV0{0, 8, 0};           // before: the first engine
constexpr VllmVersion kStartupSnapshot{0, 9, 1};  // before: the context counts as non-torch
constexpr VllmVersion kWiderGroups{0, 18, 0};
constexpr VllmVersion kGraphsInBudget{0, 20, 0};
constexpr VllmVersion kTokensByConcurrency{0, 20, 1};
constexpr VllmVersion kInFlightTwice{0, 26, 0};
constexpr VllmVersion kSecondRunnerGraphs{0, 29, 0};
constexpr VllmVersion kNullBlockHeld{0, 29, 0};
constexpr VllmVersion kMarlinGptqAlone{0, 30, 0};

Quantization quantization_of(const ConfigView& config, const EngineArgs& args) {
  const ConfigView text = text_config(config);
  for (const ConfigView* view : {&config, &text}) {
    if (view->has_child({"quantization_config", "compression_config"})) {
      const ConfigView settings = view->child({"quantization_config", "compression_config"});
      Quantization own(settings);
      if (architecture_name(config) == "DeepseekV4ForCausalLM") {
        own.specialize_for_deepseek_v4(config.text({"expert_dtype"}, "fp4"),
                                       settings.text({"moe_quant_algo"}, ""));
      }
      if (!own.dropped().empty() && args.version >= kMarlinGptqAlone) {
        fail(ExitCode::usage, "{}: {} --vllm-version 0.29 and earlier read it.", settings.path(),
             own.dropped());
      }
      if (!own.method().empty()) return own;
    }
  }
  if (!args.quantization.empty()) return Quantization::online(args.quantization);
  if (args.as_awq) {
    static const Json kSettings = {
        {"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"zero_point", true}};
    return Quantization(ConfigView(kSettings, "AWQ"));
  }
  return {};
}

int64_t element_size(const std::string& dtype) {
  return dtype == "float32" ? 4 : 2;
}

bool is_fp8(const std::string& cache_dtype) {
  return cache_dtype.starts_with("fp8");
}

int64_t kv_element_size(const EngineArgs& args, const Quantization& quantization, int64_t element) {
  const std::string& dtype = args.kv_cache_dtype;
  if (dtype == "auto") return quantization.fp8_kv_cache() ? 1 : element;
  if (is_fp8(dtype) || dtype == "int8") return 1;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  if (dtype == "float32") return 4;
  fail(ExitCode::usage,
       "--kv-cache-dtype {}: expected auto, fp8, fp8_e4m3, fp8_e5m2, bfloat16 or float16", dtype);
}

KvOptions kv_options(const EngineArgs& args, const EngineLimits& limits, const ModelShape& shape,
                     int64_t max_model_len, bool fp8_cache) {
  KvOptions options;
  options.block_size = args.block_size;
  options.max_model_len = max_model_len;
  const bool overlaps = args.version >= kInFlightTwice && args.async_scheduling &&
                        (args.pipeline_parallel == 1 || uses_second_runner(args, shape));
  int64_t batches = args.version >= kInFlightTwice ? args.pipeline_parallel : 1;
  if (overlaps) ++batches;
  options.in_flight_tokens = (Amount{limits.max_num_batched_tokens} * batches).value();
  options.hybrid = args.hybrid_kv;
  // Families without attention have nothing that a prefix could share.
  const bool attention_free = shape.family.find("Mamba") != std::string::npos;
  options.prefix_caching = args.prefix_caching.value_or(!attention_free);
  options.fp8_cache = fp8_cache;
  options.group_factor = args.version >= kWiderGroups ? 1.5 : 1.25;
  options.null_block = args.version >= kNullBlockHeld;
  options.blocks_override = args.blocks_override;
  // Mamba-2 and Kimi's delta layers export a state in the middle of a prefill besides.
  const bool checkpoints = std::any_of(
      shape.kv_layers.begin(), shape.kv_layers.end(),
      [](const KvLayer& layer) { return layer.kernel == "mamba2" || layer.kernel == "kda"; });
  options.state_blocks = checkpoints ? 3 : 2;
  return options;
}

void check_arguments(const EngineArgs& args, const EngineLimits& limits, int64_t derived,
                     int64_t max_model_len) {
  if (args.max_model_len > derived) {
    fail(ExitCode::usage,
         "User-specified max_model_len ({}) is greater than the derived max_model_len ({} in the "
         "model's "
         "config.json). Use at most {}.",
         args.max_model_len, derived, derived);
  }
  const bool old = args.version < kOnlyV0;
  if (!args.chunked_prefill.value_or(!old) && limits.max_num_batched_tokens < max_model_len) {
    fail(ExitCode::usage,
         "max_num_batched_tokens ({}) is smaller than max_model_len ({}). Without chunked prefill "
         "this "
         "effectively limits the maximum sequence length; increase --max-num-batched-tokens, "
         "decrease "
         "--max-model-len, or allow --enable-chunked-prefill.",
         limits.max_num_batched_tokens, max_model_len);
  }
  if (limits.max_num_batched_tokens < limits.max_num_seqs) {
    fail(ExitCode::usage,
         "max_num_batched_tokens ({}) must be greater than or equal to max_num_seqs ({})",
         limits.max_num_batched_tokens, limits.max_num_seqs);
  }
}

GroupNeed need_of(const KvSpec& spec, const KvOptions& options) {
  GroupNeed need;
  need.block_size = spec.block_size;
  const Amount in_flight = options.in_flight_tokens;
  switch (spec.kind) {
    case KvKind::full:
    case KvKind::latent:
      break;
    case KvKind::sliding:
    case KvKind::sliding_latent:
      need.most_blocks = ceil_div(Amount{spec.window} - 1 + in_flight, spec.block_size).value();
      need.extra_blocks = 1;
      break;
    case KvKind::chunked:
      need.most_blocks = ceil_div(Amount{spec.window} + in_flight, spec.block_size).value();
      break;
    case KvKind::state:
      need.state_blocks = options.prefix_caching ? options.state_blocks : 1;
  }
  return need;
}

/// What the layout says without a budget.
void fill_layout(PlanResult& result, const KvPlan& kv) {
  result.kv_bytes_per_token = kv.bytes_per_token().value();
  result.kv_kinds = kv.kinds();
  result.group_sizes = kv.group_sizes();
  result.block_size = kv.block_size();
  result.bytes_per_block = kv.bytes_per_block().value();
  for (const KvGroup& group : kv.groups()) {
    result.group_needs.push_back(need_of(group.layers.front(), kv.options()));
  }
}

/// The cache's part of the answer, for a budget in bytes.
void fill_cache(PlanResult& result, const KvPlan& kv, Amount budget, const EngineArgs& args) {
  result.has_kv = !kv.empty();
  if (kv.empty()) return;
  const int64_t length = result.max_model_len;
  result.kv_cache_bytes = std::max<int64_t>(0, budget.value());
  result.num_gpu_blocks = kv.blocks_for(budget);
  const Amount usable = kv.usable(budget);
  result.estimated_max_model_len = usable > Amount{0} ? kv.longest_request(usable, length) : 0;
  const Amount needed = kv.bytes_per_request(length);
  int64_t counted = length;
  if (usable <= Amount{0}) {
    result.fits = false;
    result.reason = no_memory_message(args.version);
  } else if (needed > usable) {
    if (result.estimated_max_model_len > 0) {
      result.auto_max_model_len = counted = result.estimated_max_model_len;
    }
    const bool automatic = args.max_model_len == -1 && counted < length;
    result.fits = automatic;
    if (!automatic) {
      result.reason = too_long_message(args.version, length, needed.value(), usable.value(),
                                       result.estimated_max_model_len);
    }
  } else {
    result.fits = true;
  }
  result.max_concurrency = kv.concurrency(result.num_gpu_blocks, counted);
  const auto groups = static_cast<int64_t>(std::max<size_t>(1, kv.groups().size()));
  result.kv_tokens =
      args.version >= kTokensByConcurrency
          ? static_cast<int64_t>(result.max_concurrency * static_cast<double>(counted))
          : (Amount{result.num_gpu_blocks / groups} * kv.block_size()).value();
}

void fill_weights(PlanResult& result, const Stage& stage, const EngineArgs& args) {
  result.parameter_bytes = stage.parameters.value();
  result.buffer_bytes = stage.buffers.value();
  Amount weights = stage.parameters + stage.buffers;
  result.weights_bytes = weights.value();
  result.parts = stage.parts;
  if (stage.shape.after_loading_bytes > Amount{0}) {
    result.parts.push_back({"weights: made after loading", stage.shape.after_loading_bytes.value(),
                            "latent projections of keys and values, kept in 16 bits",
                            "config.json"});
  }
  if (stage.adapters > Amount{0}) {
    result.parts.push_back({"weights: LoRA adapters", stage.adapters.value(),
                            fmt::format("{} slots of rank {}: (inputs + outputs) x rank of each "
                                        "linear layer",
                                        args.lora_slots, args.lora_rank),
                            "--max-loras, --max-lora-rank"});
  }
  if (args.cpu_offload > 0) {
    const int64_t moved = std::min(args.cpu_offload, result.parameter_bytes);
    result.parts.push_back({"weights: offloaded to the host", -moved, "--cpu-offload-gb", "flag"});
  }
}

/// Weights, activations and graphs against the card; returns what is left for the cache.
Amount fill_budget(PlanResult& result, const EngineArgs& args, const Stage& stage,
                   const EngineLimits& limits, const Gpu* gpu, std::vector<PlanPart> activations) {
  const ModelShape& shape = stage.shape;
  for (PlanPart& part : activations) {
    result.activation_peak_bytes = (Amount{result.activation_peak_bytes} + part.bytes).value();
    part.name = "activation: " + part.name;
    result.parts.push_back(std::move(part));
  }
  result.non_torch_bytes = non_torch_bytes(args, gpu);
  if (args.version >= kOnlyV0 && args.version < kStartupSnapshot) {
    result.non_torch_bytes += context_bytes(args, gpu) + args.reserved;
  }
  result.parts.push_back({"non-torch", result.non_torch_bytes,
                          "measured, by parallel size and version", "overhead table"});
  const GraphPlan graphs = plan_graphs(args, limits, gpu, shape.architecture);
  result.cuda_graphs = graphs.count();
  result.cuda_graph_bytes = graph_bytes(graphs, shape);
  const bool second = uses_second_runner(args, shape);
  const bool counted = args.estimate_graphs.value_or(args.version >= kGraphsInBudget) &&
                       args.version >= VllmVersion{0, 18, 0} &&
                       (!second || args.version >= kSecondRunnerGraphs);
  if (graphs.count() > 0) {
    result.parts.push_back(
        {"cuda graphs", result.cuda_graph_bytes,
         fmt::format("{} graphs x (5 MiB + 0.115 MiB x {} layers)", graphs.count(), shape.layers),
         counted ? "estimated and reserved by this version"
                 : "captured outside the budget in this version",
         counted});
  }
  if (gpu == nullptr) return 0;
  result.budget_bytes = static_cast<int64_t>(
      std::ceil(static_cast<double>(gpu->visible_bytes()) * limits.utilization));
  const Amount moved = std::min(args.cpu_offload, result.parameter_bytes);
  Amount left = Amount{result.budget_bytes} - result.weights_bytes + moved -
                result.activation_peak_bytes - result.non_torch_bytes;
  if (counted) left -= result.cuda_graph_bytes;
  return left - shape.after_loading_bytes - stage.adapters;
}

void check_start(PlanResult& result, const EngineArgs& args, const EngineLimits& limits,
                 const Gpu& gpu) {
  const int64_t total = gpu.visible_bytes();
  const int64_t free = total - context_bytes(args, &gpu) - args.reserved;
  const bool checked = args.version >= kStartupSnapshot;
  if (checked && free < result.budget_bytes) {
    result.fits = false;
    result.reason =
        not_free_message(args.version, free, total, limits.utilization, result.budget_bytes);
    return;
  }
  if (result.weights_bytes > total) {
    result.fits = false;
    result.reason = fmt::format(
        "CUDA out of memory while loading: weights of {} GiB per GPU on a card of {} GiB.",
        format_gib(result.weights_bytes), format_gib(total));
    return;
  }
  if (args.blocks_override == 0 && args.kv_cache_memory == 0) return;
  // vLLM allocates what it is told, without a look at what is left.
  const Amount moved = std::min(args.cpu_offload, result.parameter_bytes);
  const Amount rest = Amount{result.weights_bytes} - moved + result.activation_peak_bytes +
                      result.non_torch_bytes + args.reserved;
  const Amount cache = std::max(Amount{result.kv_cache_bytes},
                                Amount{result.num_gpu_blocks} * result.bytes_per_block);
  if (rest + cache <= Amount{total}) return;
  result.fits = false;
  result.reason = fmt::format(
      "CUDA out of memory: a KV cache of {} GiB, as {} asks, beside {} GiB of weights, activations "
      "and the rest, on a card of {} GiB.",
      format_gib(cache.value()),
      args.blocks_override > 0 ? "--num-gpu-blocks-override" : "--kv-cache-memory-bytes",
      format_gib(rest.value()), format_gib(total));
}

}  // namespace

PlanResult plan_vllm(const ConfigView& config, const EngineArgs& given, const Gpu* gpu) {
  EngineArgs args = given;
  if (!args.chunked_prefill && reads_whole_prompts(config)) args.chunked_prefill = false;
  PlanResult result;
  result.engine = "vllm";
  result.version =
      fmt::format("{}.{}.{}", args.version.major, args.version.minor, args.version.patch);
  const std::string dtype = resolve_dtype(config, args, gpu);
  const int64_t element = element_size(dtype);
  const Quantization quantization = quantization_of(config, args);
  result.quantized = !quantization.method().empty();
  check_card(quantization.method(), args.version, gpu);
  const int64_t derived = derived_max_model_len(config);
  result.dtype = dtype;
  result.max_model_len = args.max_model_len > 0 ? args.max_model_len : derived;
  EngineLimits limits = resolve_limits(args, gpu, result.max_model_len);
  if (args.max_num_batched_tokens == 0) {
    limits.max_num_batched_tokens =
        std::max(limits.max_num_batched_tokens,
                 std::min(least_batched_tokens(config, args), result.max_model_len));
  }
  check_arguments(args, limits, derived, result.max_model_len);
  result.max_num_seqs = limits.max_num_seqs;
  result.max_num_batched_tokens = limits.max_num_batched_tokens;
  result.gpu_memory_utilization = limits.utilization;
  result.gpus = args.tensor_parallel * args.pipeline_parallel * args.data_parallel;

  ShapeOptions options;
  options.tensor_parallel = args.tensor_parallel;
  options.pipeline_parallel = args.pipeline_parallel;
  options.expert_parallel = args.expert_parallel;
  options.element = element;
  options.kv_element = kv_element_size(args, quantization, element);
  options.absent = absent_modalities(args);
  options.state_dtype = args.state_dtype;
  options.lora_slots = args.lora ? args.lora_slots : 0;
  options.lora_rank = args.lora ? args.lora_rank : 0;
  Stage stage = busiest_stage(config, options, quantization);
  weigh_by_headers(stage, args, element);
  result.architecture = stage.shape.architecture;
  fill_weights(result, stage, args);
  const KvPlan kv(stage.shape, kv_options(args, limits, stage.shape, result.max_model_len,
                                          options.kv_element == 1));
  fill_layout(result, kv);
  const EncoderMemory encoder =
      encoder_memory(args, limits, stage.shape, element, result.max_model_len);
  Amount left = fill_budget(result, args, stage, limits, gpu,
                            activation_parts(args, limits, stage.shape, element, gpu, encoder));
  if (args.kv_cache_memory > 0) left = args.kv_cache_memory;
  if (args.available_kv > 0) left = args.available_kv;
  add_notes(result, stage, quantization, args);
  if (std::string note = encoder_note(encoder); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  if (gpu == nullptr && args.available_kv == 0 && args.kv_cache_memory == 0) {
    return result;
  }
  fill_cache(result, kv, left, args);
  add_arguments(result, args);
  if (gpu != nullptr) {
    result.gpu = gpu->name;
    result.total_bytes = gpu->visible_bytes();
    if (args.available_kv == 0) check_start(result, args, limits, *gpu);
  }
  if (result.has_kv) {
    result.parts.push_back(
        {"kv cache", result.kv_cache_bytes,
         fmt::format("{} blocks x {} B", result.num_gpu_blocks, kv.bytes_per_block().value()),
         "what is left of the budget"});
  }
  return result;
}

}  // namespace plimsoll::plan
