#include "plan/vllm_plan.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/error.h"
#include "base/size_text.h"
#include "model/config.h"
#include "plan/arguments.h"
#include "vllm/launch/defaults.h"
#include "vllm/launch/draft.h"
#include "vllm/launch/dtype.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/host.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/messages.h"
#include "vllm/launch/prefixes.h"
#include "vllm/launch/refusals.h"
#include "vllm/launch/served.h"
#include "vllm/launch/stage.h"
#include "vllm/launch/stage_launch.h"
#include "vllm/launch/tables.h"
#include "vllm/launch/terms.h"

namespace plimsoll::plan {
namespace {

using namespace vllm;

void fill_terms(PlanResult& result, const Terms& terms) {
  result.quantized = !terms.quantization.method().empty();
  result.dtype = terms.dtype;
  result.max_model_len = terms.max_model_len;
  result.max_num_seqs = terms.limits.max_num_seqs;
  result.max_num_batched_tokens = terms.limits.max_num_batched_tokens;
  result.gpu_memory_utilization = terms.limits.utilization;
  result.notes = terms.notes;
}

/// Fills in the figures that follow from the layout alone, without a budget.
void fill_layout(PlanResult& result, const KvPlan& kv) {
  result.kv_bytes_per_token = kv.bytes_per_token().value();
  result.kv_kinds = kv.kinds();
  result.group_sizes = kv.group_sizes();
  result.block_size = kv.block_size();
  result.bytes_per_block = kv.bytes_per_block().value();
  result.group_needs = kv.group_needs();
}

/// PlanResult::shared_windows. Not forecast: recurrent states and chunked attention (whose prefixes
/// are found by other rules: vllm/v1/core/single_type_kv_cache_manager.py), speculation, data
/// parallelism (a scheduler for each replica), pipelines (several batches under way), decode
/// context parallelism (longer blocks).
std::vector<int64_t> shared_windows(const KvPlan& kv, const EngineArgs& args, bool caching) {
  const bool one_scheduler = args.data_parallel == 1 && args.pipeline_parallel == 1;
  if (!caching || !one_scheduler || !args.draft_method.empty() || args.context_ranks > 1) return {};
  std::vector<int64_t> windows;
  for (const KvGroup& group : kv.groups()) {
    const KvSpec& layer = group.layers.front();
    const bool has_rule = layer.kind == KvKind::full || layer.kind == KvKind::latent ||
                          layer.kind == KvKind::sliding || layer.kind == KvKind::sliding_latent;
    if (!has_rule || layer.block_size != kv.block_size()) return {};
    windows.push_back(layer.window);
  }
  return windows;
}

/// Why a cache of `usable` bytes does not hold one request of `length` tokens.
std::string shortage_message(const EngineArgs& args, int64_t length, Amount needed, Amount usable,
                             int64_t longest) {
  if (args.max_model_len == -1) return no_length_message();
  if (usable <= Amount{0}) return no_memory_message(args.version);
  return too_long_message(args, length, needed.value(), usable.value(), longest);
}

/// Bytes of the cache that one request may take: in the first engine with stages its share of the
/// blocks (worker/worker.py: raise_if_cache_size_invalid).
Amount usable_by_one(const KvPlan& kv, Amount budget, int64_t blocks, const EngineArgs& args) {
  const bool shared = vllm::runs_first_engine(args) && args.version >= vllm::kTwoEngines;
  if (!shared || args.pipeline_parallel == 1) return kv.usable(budget);
  return kv.bytes_per_block() * (blocks / args.pipeline_parallel);
}

/// What the cache comes to for a budget in bytes.
CacheFigures cache_figures(const KvPlan& kv, Amount budget, int64_t length,
                           const EngineArgs& args) {
  CacheFigures figures;
  figures.kv_cache_bytes = std::max<int64_t>(0, budget.value());
  figures.num_gpu_blocks = kv.blocks_for(budget);
  const Amount usable = usable_by_one(kv, budget, figures.num_gpu_blocks, args);
  figures.longest = usable > Amount{0} ? kv.longest_request(usable, length) : 0;
  const Amount needed = kv.bytes_per_request(length);
  const int64_t counted = needed > usable && figures.longest > 0 ? figures.longest : length;
  figures.fits = needed <= usable || (args.max_model_len == -1 && counted < length);
  if (!figures.fits)
    figures.reason = shortage_message(args, length, needed, usable, figures.longest);
  figures.max_concurrency = kv.concurrency(figures.num_gpu_blocks, counted);
  figures.kv_tokens = kv.tokens(figures.num_gpu_blocks, counted);
  return figures;
}

/// The cache's part of the answer, for a budget in bytes.
void fill_cache(PlanResult& result, const KvPlan& kv, Amount budget, const EngineArgs& args) {
  result.has_kv = !kv.empty();
  if (kv.empty()) return;
  const int64_t length = result.max_model_len;
  CacheFigures figures = cache_figures(kv, budget, length, args);
  result.kv_cache_bytes = figures.kv_cache_bytes;
  result.num_gpu_blocks = figures.num_gpu_blocks;
  result.kv_tokens = figures.kv_tokens;
  result.max_concurrency = figures.max_concurrency;
  result.fits = figures.fits;
  result.reason = std::move(figures.reason);
  result.estimated_max_model_len = figures.longest;
  if (figures.longest > 0 && figures.longest < length) result.auto_max_model_len = figures.longest;
}

/// The edges of what is estimated, and the first boot beside the later ones.
void fill_bounds(PlanResult& result, const KvPlan& kv, const StageLaunch& launch,
                 const EngineArgs& args) {
  if (kv.empty() || launch.less + launch.more == 0) return;
  const int64_t length = result.max_model_len;
  const auto at = [&](Amount budget) { return cache_figures(kv, budget, length, args); };
  result.bounds = PlanResult::CacheBounds{at(launch.left - launch.less), at(launch.left),
                                          at(launch.left + launch.more)};
  result.assume = args.assume;
  if (launch.figures.cold_peak_bytes == 0) return;
  const int64_t peak =
      std::max(launch.figures.cold_peak_bytes, launch.figures.activation_peak_bytes);
  const Amount left = launch.left - (peak - launch.figures.activation_peak_bytes);
  // On two of five machines what the compiler loads stayed: 0.53 and 0.64 GiB.
  constexpr int64_t kLoaded = 600 * kMiB;
  const Amount low = left - launch.less - kLoaded;
  result.cold =
      ColdBoot{.activation_peak_bytes = peak,
               .cache = at(args.assume == Assume::worst ? low : left),
               .kv_cache = {std::max<int64_t>(0, low.value()), std::max<int64_t>(0, left.value()),
                            std::max<int64_t>(0, (left + launch.more).value())}};
}

/// The stage that has room for the fewest blocks, whose figures become the answer's.
size_t tightest(const std::vector<StageLaunch>& launches, const EngineArgs& args,
                const std::vector<KvPlan>& caches, PlanResult& result) {
  size_t best = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    StageFigures figures = launches[i].figures;
    figures.stage = static_cast<int64_t>(i);
    const Amount left = launches[i].at(args.assume);
    figures.num_gpu_blocks = caches[i].blocks_for(left);
    figures.kv_cache_bytes = std::max<int64_t>(0, left.value());
    result.stages.push_back(std::move(figures));
    if (caches[i].empty()) result.stages.back().kv_cache_bytes = 0;
    const StageFigures& held = result.stages[best];
    const StageFigures& own = result.stages[i];
    const bool sized = left != Amount{0} || args.blocks_override > 0;
    if (sized && !caches[i].empty() ? own.num_gpu_blocks < held.num_gpu_blocks
                                    : own.weights_bytes > held.weights_bytes) {
      best = i;
    }
  }
  static_cast<StageFigures&>(result) = result.stages[best];
  if (launches.size() == 1) result.stages.clear();
  return best;
}

/// vLLM's refusal of weights that MLX has quantized; empty: they are not.
std::string mlx_refusal(const ConfigView& config) {
  const std::string name = model::mlx_quantization(config.json());
  if (name.empty()) return "";
  return fmt::format(
      "The weights are quantized ({}), which vLLM does not load. Use the original "
      "checkpoint, "
      "or one in AWQ, GPTQ, FP8 or compressed-tensors.",
      name);
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
  if (!result.has_kv) {
    const Amount needed = Amount{result.weights_bytes} - result.offloaded_bytes +
                          result.activation_peak_bytes + result.non_torch_bytes +
                          result.persistent_bytes;
    result.fits = needed <= Amount{result.total_bytes};
    if (!*result.fits) {
      result.reason = fmt::format(
          "CUDA out of memory: weights and activations of {} GiB per GPU on a card of {} GiB.",
          format_gib(needed.value()), format_gib(result.total_bytes));
    }
  }
  const auto check = [&](const StageFigures& stage, Amount bytes_per_block) {
    refuse(result, start_refusal(args, terms.limits, *gpu, stage, bytes_per_block));
  };
  check(result, result.bytes_per_block);
  for (size_t i = 0; i < result.stages.size(); ++i) {
    check(result.stages[i], caches[i].bytes_per_block());
  }
}

/// Turns a verdict that holds at the middle alone into "may fit", or by --assume worst into a
/// refusal.
void weigh_edges(PlanResult& result, const EngineArgs& args) {
  if (!result.fits.value_or(false) || !result.bounds) return;
  const bool refused_cold = result.cold && !result.cold->cache.fits;
  const std::string cure = fmt::format("--kv-cache-memory-bytes {}", result.kv_cache_bytes);
  if (refused_cold && args.assume == Assume::worst) {
    refuse(result, fmt::format("The first boot, with an empty compile cache: {}",
                               result.cold->cache.reason));
    return;
  }
  if (refused_cold) {
    result.may_fit = true;
    result.notes.push_back(fmt::format(
        "the first boot, whose compile cache is empty, measures a peak of {} and is refused; the "
        "second fits, and so does the first with {}: {}",
        size_text(result.cold->activation_peak_bytes), cure, result.cold->cache.reason));
  }
  if (result.bounds->low.fits) return;
  result.may_fit = true;
  result.notes.push_back(fmt::format(
      "it fits at the middle of the bounds, not at their worst edge (a KV cache of {}; --assume "
      "worst goes by it): {}",
      size_text(result.bounds->low.kv_cache_bytes), result.bounds->low.reason));
}

/// A cache of a size that is told: nothing of it is estimated.
void tell_cache(StageLaunch& launch, int64_t bytes) {
  launch.left = bytes;
  launch.less = launch.more = 0;
  launch.figures.cold_peak_bytes = 0;
}

PlanResult plan_once(const ConfigView& config, const EngineArgs& given, const hardware::Gpu* gpu) {
  EngineArgs args = given;
  EngineChoice engine;
  PlanResult result;
  result.engine = "vllm";
  result.version = version_text(args.version);
  result.planned_as = newest_known(args.version);
  const Terms terms = [&] {
    try {
      engine = choose_engine(config, args, gpu);
      args.first_engine = engine.first;
      args.chunked_prefill = resolve_chunking(config, args);
      if (!args.prefix_caching) args.prefix_caching = usual_caching(config, args);
      args.kv_cache_dtype = resolve_cache_dtype(config, args, gpu);
      return resolve_terms(config, args, gpu);
    } catch (const Error& error) {
      // A release without the model's class gets no further than that.
      const std::string absent = served_refusal(architecture_name(config), args.version);
      throw absent.empty() ? error : Error(error.code(), absent);
    }
  }();
  fill_terms(result, terms);
  result.first_engine = engine.first;
  if (!engine.note.empty()) result.notes.push_back(engine.note);
  result.gpus = args.tensor_parallel * args.pipeline_parallel * args.data_parallel;

  const ShapeOptions options = shape_options(args, terms, gpu);
  std::vector<Stage> stages = build_stages(config, options, terms.quantization);
  for (Stage& stage : stages) {
    check_stage(stage.shape, args);
    weigh_by_headers(stage, args, terms.element);
  }
  add_draft(stages.back(), args, options, {config, terms.quantization, result.max_model_len});
  const ModelShape whole = whole_shape(stages);
  result.architecture = whole.architecture;
  const PrefixCaching caching = resolve_prefixes(args, whole);
  check_prefixes(args, whole, caching, result.max_model_len);
  result.prefix_caching = caching.on;
  const KvPlan kv(whole, kv_options(args, terms, whole, options));
  check_model(whole, kv, args, caching.on);
  if (options.cache != CacheType::whole && options.cache != CacheType::other)
    check_fp8_cache(whole, args, gpu);
  result.shared_windows = shared_windows(kv, args, caching.on);
  std::vector<StageLaunch> launches;
  std::vector<KvPlan> caches;
  size_t first = 0;
  for (const Stage& stage : stages) {
    launches.push_back(launch_stage(stage, {args, terms, whole, gpu, kv, options.kv_element == 1}));
    const int64_t told = args.available_kv > 0 ? args.available_kv : args.kv_cache_memory;
    if (told > 0) tell_cache(launches.back(), told);
    caches.push_back(kv.part(first, stage.shape.kv_layers.size()));
    first += stage.shape.kv_layers.size();
  }
  const size_t chosen = tightest(launches, args, caches, result);
  result.cuda_graphs = launches[chosen].graphs;
  fill_layout(result, caches[chosen]);
  for (std::string& note : launch_notes(stages.front(), terms.quantization, args)) {
    result.notes.push_back(std::move(note));
  }
  if (std::string note = draft_note(config, args); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  for (const auto& [modality, tokens] : launches.front().encoder.tokens) {
    if (modality == "image") result.image_tokens = tokens;
  }
  if (std::string note = encoder_note(launches.front().encoder); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  std::string not_served = served_refusal(whole.architecture, args.version);
  if (not_served.empty() && args.available_kv == 0) not_served = mlx_refusal(config);
  if (gpu == nullptr && !not_served.empty()) result.notes.push_back(not_served);
  if (gpu == nullptr && args.available_kv == 0 && args.kv_cache_memory == 0) return result;
  fill_cache(result, caches[chosen], launches[chosen].at(args.assume), args);
  fill_bounds(result, caches[chosen], launches[chosen], args);
  result.machine = machine_facts(args, gpu, whole);
  fill_verdict(result, terms, args, whole, caches, gpu);
  weigh_edges(result, args);
  if (args.available_kv == 0) {
    result.host = host_parts(
        args, {result.max_num_seqs, result.launched_model_len(), result.offloaded_bytes}, whole);
    result.host_processes = host_processes(args);
  }
  result.refused = gpu != nullptr && !not_served.empty();
  if (result.refused) refuse(result, not_served);
  if (!whole.uncounted.empty() && !result.refused) {
    result.fits.reset();
    result.reason = fmt::format(
        "{} is not known, and its config speaks of layers that are not counted ({}). The figures "
        "below leave them out.",
        whole.architecture, whole.uncounted);
  }
  add_arguments(result, args);
  const bool flashinfer = attends_with_flashinfer(args, gpu, whole, options.kv_element == 1);
  for (PlanPart& part : table_parts(Made::with_cache,
                                    {.args = args,
                                    .limits = terms.limits,
                                    .element = terms.element,
                                    .max_model_len = result.launched_model_len(),
                                    .flashinfer = flashinfer,
                                    .last = stages[chosen].last,
                                    .late = launches[chosen].late,
                                    .workspace = launches[chosen].workspace},
                                    stages[chosen].shape, kv))
    result.parts.push_back(std::move(part));
  if (result.has_kv) {
    result.parts.push_back({"kv cache", result.kv_cache_bytes,
                            fmt::format("{} blocks x {} B", result.num_gpu_blocks,
                                        caches[chosen].bytes_per_block().value()),
                            "what is left of the budget"});
  }
  return result;
}

/// The launch of the longest context, up to `most`, that holds a request of it; nothing: none does.
std::optional<PlanResult> longest_launch(const ConfigView& config, EngineArgs args,
                                         const hardware::Gpu* gpu, int64_t most) {
  constexpr int64_t kStep = 16;  // tokens
  std::optional<PlanResult> best;
  int64_t low = 0, high = most / kStep + 1;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    args.max_model_len = middle * kStep;
    PlanResult result = plan_once(config, args, gpu);
    const bool holds = result.estimated_max_model_len >= args.max_model_len;
    (holds ? low : high) = middle;
    if (holds) best = std::move(result);
  }
  return best;
}

}  // namespace

PlanResult plan_vllm(const ConfigView& config, const EngineArgs& given, const hardware::Gpu* gpu) {
  PlanResult result = plan_once(config, given, gpu);
  const int64_t longest = result.estimated_max_model_len;
  // The first engine may read a shorter context as a whole by default, which takes other memory.
  EngineArgs launched = given;
  launched.first_engine = result.first_engine;
  EngineArgs shorter = launched;
  shorter.max_model_len = longest;
  const bool jumps = !given.chunked_prefill && longest > 0 && longest < result.max_model_len &&
                     vllm::resolve_chunking(config, launched) == true &&
                     vllm::resolve_chunking(config, shorter) == false;
  if (!jumps) return result;
  const std::optional<PlanResult> launch = longest_launch(config, given, gpu, longest);
  result.estimated_max_model_len = launch ? launch->max_model_len : 0;
  result.max_concurrency = launch ? launch->max_concurrency : 0;
  if (result.auto_max_model_len > 0) result.auto_max_model_len = result.estimated_max_model_len;
  return result;
}

}  // namespace plimsoll::plan
