#include "plan/vllm/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/error.h"
#include "plan/arguments.h"
#include "plan/towers/multimodal.h"
#include "plan/vllm/draft.h"
#include "plan/vllm/launch.h"
#include "plan/vllm/served.h"
#include "plan/vllm/stage.h"

namespace plimsoll::plan {
namespace {

constexpr VllmVersion kWiderGroups{0, 18, 0};
constexpr VllmVersion kTokensByConcurrency{0, 20, 1};
constexpr VllmVersion kInFlightTwice{0, 26, 0};
constexpr VllmVersion kNullBlockHeld{0, 29, 0};

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
  options.encoder_tokens = limits.max_num_batched_tokens;  // CrossAttentionSpec of 0.32
  // Families without attention have nothing that a prefix could share.
  options.prefix_caching = args.prefix_caching.value_or(!shape.attention_free);
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
      break;
    case KvKind::crossed:
      need.state_blocks = ceil_div(options.encoder_tokens, spec.block_size).value();
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
  const bool automatic = args.max_model_len == -1;
  if (needed > usable && result.estimated_max_model_len > 0) {
    result.auto_max_model_len = counted = result.estimated_max_model_len;
  }
  result.fits = needed <= usable || (automatic && counted < length);
  if (*result.fits) {
    result.reason.clear();
  } else if (automatic) {
    result.reason = no_length_message();
  } else if (usable <= Amount{0}) {
    result.reason = no_memory_message(args.version);
  } else {
    result.reason = too_long_message(args.version, length, needed.value(), usable.value(),
                                     result.estimated_max_model_len);
  }
  result.max_concurrency = kv.concurrency(result.num_gpu_blocks, counted);
  const auto groups = static_cast<int64_t>(std::max<size_t>(1, kv.groups().size()));
  result.kv_tokens =
      args.version >= kTokensByConcurrency
          ? static_cast<int64_t>(result.max_concurrency * static_cast<double>(counted))
          : (Amount{result.num_gpu_blocks / groups} * kv.block_size()).value();
}

/// A launch's terms as far as they do not depend on the model's layers.
struct Terms {
  std::string dtype;
  int64_t element = 2;
  Quantization quantization;
  EngineLimits limits;
};

ShapeOptions shape_options(const EngineArgs& args, const Terms& terms, const hardware::Gpu* gpu) {
  ShapeOptions options;
  options.tensor_parallel = args.tensor_parallel;
  options.pipeline_parallel = args.pipeline_parallel;
  options.pipeline_partition = args.pipeline_partition;
  options.expert_parallel = args.expert_parallel;
  options.element = terms.element;
  options.kv_element = kv_element_size(args, terms.quantization, terms.element);
  options.absent = absent_modalities(args);
  options.state_dtype = args.state_dtype;
  options.lora_slots = args.lora ? args.lora_slots : 0;
  options.lora_rank = args.lora ? args.lora_rank : 0;
  options.mxfp4 = expert_kernel(args.version, gpu);
  return options;
}

/// The stage that has room for the fewest blocks, whose figures become the answer's.
size_t tightest(const std::vector<StageLaunch>& launches, const EngineArgs& args,
                const std::vector<KvPlan>& caches, PlanResult& result) {
  size_t best = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    StageFigures figures = launches[i].figures;
    figures.stage = static_cast<int64_t>(i);
    figures.num_gpu_blocks = caches[i].blocks_for(launches[i].left);
    figures.kv_cache_bytes = std::max<int64_t>(0, launches[i].left.value());
    result.stages.push_back(std::move(figures));
    if (caches[i].empty()) result.stages.back().kv_cache_bytes = 0;
    const StageFigures& held = result.stages[best];
    const StageFigures& own = result.stages[i];
    const bool sized = launches[i].left != Amount{0} || args.blocks_override > 0;
    if (sized && !caches[i].empty() ? own.num_gpu_blocks < held.num_gpu_blocks
                                    : own.weights_bytes > held.weights_bytes) {
      best = i;
    }
  }
  static_cast<StageFigures&>(result) = result.stages[best];
  if (launches.size() == 1) result.stages.clear();
  return best;
}

void refuse(PlanResult& result, std::string words) {
  if (words.empty()) return;
  result.fits = false;
  result.reason = std::move(words);
}

void fill_verdict(PlanResult& result, const Terms& terms, const EngineArgs& args,
                  const ModelShape& whole, const std::vector<KvPlan>& caches,
                  const hardware::Gpu* gpu) {
  if (result.fits.value_or(false) && result.cuda_graphs > 0 && result.has_kv) {
    refuse(result, state_blocks_refusal(args, terms.limits, whole, gpu, result.num_gpu_blocks));
  }
  if (gpu == nullptr) return;
  result.gpu = gpu->name;
  result.total_bytes = gpu->visible_bytes();
  result.budget_bytes = budget_bytes(terms.limits, *gpu);
  if (args.available_kv > 0) return;
  const auto check = [&](const StageFigures& stage, Amount bytes_per_block) {
    refuse(result, start_refusal(args, terms.limits, *gpu, stage, bytes_per_block));
  };
  check(result, result.bytes_per_block);
  for (size_t i = 0; i < result.stages.size(); ++i) {
    check(result.stages[i], caches[i].bytes_per_block());
  }
}

Terms resolve_terms(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu,
                    PlanResult& result) {
  Terms terms;
  terms.dtype = resolve_dtype(config, args, gpu);
  terms.element = element_size(terms.dtype);
  terms.quantization = quantization_of(config, args);
  const std::string& method = terms.quantization.method();
  if (std::string note = quantization_note(config, args, terms.quantization); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  check_card(method, args.version, gpu);
  check_dtype(method, terms.dtype, args.version);
  const ModelLength length = model_length(config, args.version);
  const int64_t planned = args.max_model_len > 0 ? args.max_model_len : length.usual;
  terms.limits = resolve_limits(args, gpu, planned);
  if (args.max_num_batched_tokens == 0) {
    terms.limits.max_num_batched_tokens = std::max(
        terms.limits.max_num_batched_tokens, std::min(least_batched_tokens(config, args), planned));
  }
  check_arguments(config, args, terms.limits, length, planned);
  result.quantized = !method.empty();
  result.dtype = terms.dtype;
  result.max_model_len = planned;
  result.max_num_seqs = terms.limits.max_num_seqs;
  result.max_num_batched_tokens = terms.limits.max_num_batched_tokens;
  result.gpu_memory_utilization = terms.limits.utilization;
  if (std::string note = length_note(length, planned, args.version); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  return terms;
}

}  // namespace

PlanResult plan_vllm(const ConfigView& config, const EngineArgs& given, const hardware::Gpu* gpu) {
  EngineArgs args = given;
  if (!args.chunked_prefill && reads_whole_prompts(config)) args.chunked_prefill = false;
  PlanResult result;
  result.engine = "vllm";
  result.version =
      fmt::format("{}.{}.{}", args.version.major, args.version.minor, args.version.patch);
  const Terms terms = resolve_terms(config, args, gpu, result);
  result.gpus = args.tensor_parallel * args.pipeline_parallel * args.data_parallel;

  const ShapeOptions options = shape_options(args, terms, gpu);
  std::vector<Stage> stages = build_stages(config, options, terms.quantization);
  for (Stage& stage : stages) weigh_by_headers(stage, args, terms.element);
  add_draft(stages.back(), args, options, result.max_model_len);
  const ModelShape whole = whole_shape(stages);
  result.architecture = whole.architecture;
  const KvPlan kv(
      whole, kv_options(args, terms.limits, whole, result.max_model_len, options.kv_element == 1));
  check_model(whole, kv, args);
  std::vector<StageLaunch> launches;
  std::vector<KvPlan> caches;
  size_t first = 0;
  for (const Stage& stage : stages) {
    launches.push_back(
        launch_stage(stage, {args, terms.limits, whole, gpu, terms.element, result.max_model_len}));
    if (args.kv_cache_memory > 0) launches.back().left = args.kv_cache_memory;
    if (args.available_kv > 0) launches.back().left = args.available_kv;
    caches.push_back(kv.part(first, stage.shape.kv_layers.size()));
    first += stage.shape.kv_layers.size();
  }
  const size_t chosen = tightest(launches, args, caches, result);
  result.cuda_graphs = launches[chosen].graphs;
  fill_layout(result, caches[chosen]);
  add_notes(result, stages.front(), terms.quantization, args);
  for (const auto& [modality, tokens] : launches.front().encoder.tokens) {
    if (modality == "image") result.image_tokens = tokens;
  }
  if (std::string note = encoder_note(launches.front().encoder); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  const std::string not_served = served_refusal(whole.architecture, args.version);
  if (gpu == nullptr && !not_served.empty()) result.notes.push_back(not_served);
  if (gpu == nullptr && args.available_kv == 0 && args.kv_cache_memory == 0) return result;
  fill_cache(result, caches[chosen], launches[chosen].left, args);
  fill_verdict(result, terms, args, whole, caches, gpu);
  result.refused = gpu != nullptr && !not_served.empty();
  if (result.refused) refuse(result, not_served);
  add_arguments(result, args);
  if (result.has_kv) {
    result.parts.push_back({"kv cache", result.kv_cache_bytes,
                            fmt::format("{} blocks x {} B", result.num_gpu_blocks,
                                        caches[chosen].bytes_per_block().value()),
                            "what is left of the budget"});
  }
  return result;
}

}  // namespace plimsoll::plan
