#include "vllm/launch/terms.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/amount.h"
#include "base/error.h"
#include "hardware/capability.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/launch/activation.h"
#include "vllm/launch/defaults.h"
#include "vllm/launch/dtype.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/host.h"
#include "vllm/launch/length.h"
#include "vllm/launch/prefixes.h"
#include "vllm/launch/refusals.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kWindows{0, 8, 3};  // before: each layer keeps every token
constexpr VllmVersion kGroups{0, 9, 1};   // of layers; before: windows keep all where some do
constexpr VllmVersion kWiderGroups{0, 18, 0};
constexpr VllmVersion kTokensByConcurrency{0, 20, 1};
constexpr VllmVersion kInFlightTwice{0, 26, 0};
constexpr VllmVersion kNullBlockHeld{0, 29, 0};
constexpr VllmVersion kRefinesExpertBlocks{0, 29, 0};  // before: such a slice is refused
constexpr VllmVersion kOneFloatType{0, 33, 0};         // of model and cache
constexpr VllmVersion kStatesInOrder{0, 11, 1};        // of layers: before, attention went first
constexpr VllmVersion kEstimatesGroups{0, 14, 0};      // before: layers as they state their caches
constexpr VllmVersion kPagesOverlap{0, 27, 0};         // DeepSeek-V4's, of different groups
constexpr VllmVersion kPackedInOrder{0, 29, 0};        // of layers: before, latents went first
constexpr VllmVersion kOverrideChecked{0, 21, 0};      // kv_cache_utils.py: adjusted_memory
constexpr VllmVersion kLongFp8Blocks{0, 31, 0};        // FlashAttention 4's, on Hopper
constexpr VllmVersion kChunksInGroups{0, 14, 0};       // before: chunked attention has no groups

int64_t element_size(const std::string& dtype) {
  return dtype == "float32" ? 4 : 2;
}

bool is_fp8(const std::string& cache_dtype) {
  return cache_dtype.starts_with("fp8");
}

int64_t kv_element_size(const EngineArgs& args, const Quantization& quantization, int64_t element) {
  const std::string& dtype = args.kv_cache_dtype;
  if (dtype == "auto") return quantization.fp8_kv_cache() ? 1 : element;
  if (is_fp8(dtype) && !dtype.ends_with("head")) return 1;
  if (dtype == "bfloat16" || dtype == "float16") return 2;
  if (dtype == "float32") return 4;
  // Types of later releases that store scales beside the elements, or fewer bits.
  const bool of_vllm = dtype.starts_with("nvfp4") || dtype.starts_with("turboquant") ||
                       dtype.starts_with("octave") || dtype.starts_with("ultraquant") ||
                       dtype.ends_with("_per_token_head");
  fail(ExitCode::usage,
       "--kv-cache-dtype {}: {}expected auto, fp8, fp8_e4m3, fp8_e5m2, bfloat16 or float16", dtype,
       of_vllm ? "vLLM has this type, and plan does not know what it takes; " : "");
}

/// A 16-bit cache of another type than the model's.
void check_cache_type(const EngineArgs& args, const std::string& model) {
  const std::string& cache = args.kv_cache_dtype;
  if (args.version < kOneFloatType || (cache != "float16" && cache != "bfloat16")) return;
  if (cache == model) return;
  const bool short_type = model == "float16" || model == "bfloat16";
  fail(ExitCode::usage,
       "kv_cache_dtype=\"{}\" is incompatible with dtype=\"{}\". Please set `--kv-cache-dtype` to "
       "{}.",
       cache, model, short_type ? fmt::format("`auto` or `{}`", model) : "`auto`");
}

/// Layers of unlike kinds have groups of their own; chunked attention's fall back to one
/// (vllm/config/vllm.py: VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE).
bool keeps_groups(const EngineArgs& args, const ModelShape& shape) {
  if (args.version < kGroups) return false;
  const bool chunked = std::ranges::any_of(
      shape.kv_layers, [](const KvLayer& layer) { return layer.kind == KvKind::chunked; });
  const bool drafts = args.draft_method.starts_with("eagle");
  return args.hybrid_kv && !(chunked && (drafts || args.version < kChunksInGroups));
}

}  // namespace

Terms resolve_terms(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu) {
  Terms terms;
  terms.runner = runner_of(config, args);
  if (terms.runner.converts != Converts::nothing) {
    const bool classes = terms.runner.converts == Converts::to_classes;
    terms.notes.push_back(
        fmt::format("answers with {}, as {} asks: no logits are computed and nothing is sampled",
                    classes ? "classes" : "vectors",
                    args.pooling.asked() ? "its command line" : "modules.json beside the model"));
  }
  terms.dtype = resolve_dtype(config, args, gpu);
  terms.element = element_size(terms.dtype);
  terms.quantization = quantization_of(config, args);
  const std::string& method = terms.quantization.method();
  if (std::string note = quantization_note(config, args, terms.quantization); !note.empty()) {
    terms.notes.push_back(std::move(note));
  }
  check_card(method, args.version, gpu);
  check_dtype(method, terms.dtype, args.version);
  check_cache_type(args, terms.dtype);
  check_state_flags(args);
  const ModelLength length = model_length(config, args.version);
  const int64_t planned = args.max_model_len > 0 ? args.max_model_len : length.usual;
  terms.limits = resolve_limits(args, gpu, planned, least_tokens(config, args));
  if (args.max_num_batched_tokens == 0) {
    terms.limits.max_num_batched_tokens = std::max(
        terms.limits.max_num_batched_tokens, std::min(least_batched_tokens(config, args), planned));
  }
  check_arguments(config, args, terms.limits, length, planned);
  terms.max_model_len = planned;
  if (std::string note = length_note(length, planned, args.version); !note.empty()) {
    terms.notes.push_back(std::move(note));
  }
  return terms;
}

ShapeOptions shape_options(const EngineArgs& args, const Terms& terms, const hardware::Gpu* gpu) {
  ShapeOptions options;
  options.tensor_parallel = args.tensor_parallel;
  options.pipeline_parallel = args.pipeline_parallel;
  options.data_parallel = runs_first_engine(args) ? 1 : args.data_parallel;
  options.pipeline_partition = args.pipeline_partition;
  options.expert_parallel = args.expert_parallel;
  options.refined_blocks = args.version >= kRefinesExpertBlocks || terms.quantization.is_online();
  options.element = terms.element;
  options.version = args.version;
  options.card = hardware::capability_of(gpu).architecture;
  options.kv_element = kv_element_size(args, terms.quantization, terms.element);
  options.cache = cache_type(args.kv_cache_dtype, terms.quantization.fp8_kv_cache());
  options.absent = absent_modalities(args);
  options.ngrams_on_host = keeps_ngrams_on_host(args);
  if (args.tables.over_replicas) options.ngram_replicas = args.data_parallel;
  options.draft_tokens = args.draft_tokens;
  options.first_engine = runs_first_engine(args);
  options.pools = terms.runner.pools;
  options.converts = terms.runner.converts;
  options.state_dtype = args.state_dtype;
  options.lora_slots = args.lora ? args.lora_slots : 0;
  options.lora_rank = args.lora ? args.lora_rank : 0;
  options.mxfp4 = expert_kernel(args.version, gpu);
  return options;
}

KvOptions kv_options(const EngineArgs& args, const Terms& terms, const ModelShape& shape,
                     const ShapeOptions& layout) {
  const bool first = runs_first_engine(args);
  KvOptions options;
  options.keeps_windows = !first && args.version >= kWindows;
  options.attention_alone = first;
  options.block_size = args.block_size;
  options.max_model_len = terms.max_model_len;
  const bool overlaps = args.version >= kInFlightTwice && args.async_scheduling && !shape.pools &&
                        (args.pipeline_parallel == 1 || uses_second_runner(args, shape));
  int64_t batches = args.version >= kInFlightTwice ? args.pipeline_parallel : 1;
  if (overlaps) ++batches;
  options.in_flight_tokens = (Amount{terms.limits.max_num_batched_tokens} * batches).value();
  options.hybrid = keeps_groups(args, shape);
  options.context_ranks = args.context_ranks;
  options.encoder_tokens = terms.limits.max_num_batched_tokens;  // CrossAttentionSpec of 0.32
  options.states = resolve_prefixes(args, shape).states;
  options.long_fp8_blocks = layout.kv_element == 1 && args.version >= kLongFp8Blocks &&
                            layout.card == hardware::Architecture::hopper;
  options.states_last = args.version < kStatesInOrder;
  options.estimates_by_layer = args.version < kEstimatesGroups && !first;
  options.latents_first = args.version < kPackedInOrder;
  options.pages_apart = args.version < kPagesOverlap;
  options.group_factor = args.version >= kWiderGroups ? 1.5 : 1.25;
  options.tokens_by_concurrency = args.version >= kTokensByConcurrency;
  options.null_block = args.version >= kNullBlockHeld;
  options.blocks_override = args.blocks_override;
  options.override_checked = first || args.version >= kOverrideChecked;
  return options;
}

}  // namespace plimsoll::vllm
