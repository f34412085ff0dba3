// The limits of a launch.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backend/cuda/footprint.h"
#include "base/amount.h"
#include "base/error.h"
#include "base/rounding.h"
#include "base/size_text.h"
#include "engine/layout.h"
#include "engine/longest_context.h"

namespace plimsoll::engine {

namespace {

/// Default limits of a launch, and bytes of logits of one slice: enough rows that the head's
/// weights are not read too often, few enough that large vocabularies stay small.
struct Defaults {
  int64_t sequences = 256;
  int64_t batched_tokens = 2048;
  int64_t logits_bytes = int64_t{64} << 20;
};
constexpr Defaults kHost;
/// A device is fast enough to be hurt by small steps; vLLM's defaults on large cards are alike.
constexpr Defaults kDevice = {1024, 8192, int64_t{160} << 20};
/// States of recurrent mixers, unless more sequences are asked for: of large models a sequence has
/// over a hundred MiB of them.
constexpr size_t kStateBytes = size_t{2} << 30;
constexpr int64_t kLeastLogitsRows = 32, kMostLogitsRows = 256;
constexpr int64_t kStagingBytes = int64_t{16} << 20;  // of logits that the host reads at a time
/// Absurd limits are refused before anything is sized by them.
constexpr int64_t kMostSequences = int64_t{1} << 20, kMostTokens = int64_t{1} << 24;

void check_limit(const char* flag, int64_t value, int64_t most) {
  if (value < 0 || value > most) {
    fail(ExitCode::usage, "{} {} is not between 1 and {}", flag, value, most);
  }
}

/// Bytes of so many blocks must be a number.
void check_blocks(int64_t blocks, size_t block_bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  if (static_cast<uint64_t>(blocks) <= kMost / std::max<size_t>(1, block_bytes)) return;
  fail(ExitCode::does_not_fit, "--num-gpu-blocks-override {}: no memory holds so many blocks of {}",
       blocks, size_text(block_bytes));
}

/// Sequences and tokens of a step. A default gives way to what the user asked for.
void resolve_step(const EngineOptions& options, const Defaults& defaults, StepLimits& limits) {
  check_limit("--max-num-seqs", options.max_num_seqs, kMostSequences);
  check_limit("--max-num-batched-tokens", options.max_num_batched_tokens, kMostTokens);
  limits.sequences = options.max_num_seqs;
  limits.batched_tokens = options.max_num_batched_tokens;
  if (limits.batched_tokens == 0) {
    limits.batched_tokens = std::max(defaults.batched_tokens, limits.sequences);
  }
  if (limits.sequences == 0) {
    limits.sequences = std::min(defaults.sequences, limits.batched_tokens);
  }
  if (limits.batched_tokens < limits.sequences) {
    fail(ExitCode::usage,
         "--max-num-batched-tokens {} is less than --max-num-seqs {}: every running sequence "
         "needs one token of a step",
         limits.batched_tokens, limits.sequences);
  }
}

int64_t wanted_length(const model::ModelSpec& spec, const EngineOptions& options) {
  if (options.max_model_len < 0 || options.max_model_len > spec.max_position) {
    fail(ExitCode::usage, "--max-model-len {} is not between 1 and the model's longest context, {}",
         options.max_model_len, spec.max_position);
  }
  const int64_t usual = spec.usual_length == 0 ? spec.max_position : spec.usual_length;
  return options.max_model_len == 0 ? usual : options.max_model_len;
}

/// The draft model beside the model that it proposes for.
std::shared_ptr<const DraftLayout> resolve_draft(const EngineLayout& layout,
                                                 const EngineOptions& options,
                                                 const backend::Footprint& footprint) {
  if (!options.draft) return nullptr;
  EngineOptions own;
  own.dtype = options.dtype;
  own.block_size = options.block_size;
  own.max_model_len = std::min(layout.max_model_len, options.draft->spec->max_position);
  own.max_num_seqs = layout.limits.sequences;
  own.max_num_batched_tokens = layout.limits.batched_tokens;
  own.kv_cache_bytes = uint64_t{1} << 60;  // blocks follow the other model's
  own.borrows_weights = options.borrows_weights;
  DraftLayout draft{*options.draft, resolve_layout(*options.draft->spec, own, footprint)};
  draft.layout.sampling_threads = 0;
  draft.layout.num_blocks = draft.blocks_beside(layout.kv, layout.num_blocks);
  return std::make_shared<const DraftLayout>(std::move(draft));
}

/// A pool that is too small for one sequence.
struct Shortage {
  const KvLayout& kv;
  size_t block_bytes = 0;  // with the draft model's share
  const EngineOptions& options;
  int64_t length = 0;
  int64_t blocks = 0;
  int64_t batched_tokens = 0;
  uint64_t rest = 0;    // of the launch, beside the KV blocks
  int64_t fitting = 0;  // the longest context that would fit
};

/// So many bytes or a little more in GiB of two decimals, for flags to be set to.
std::string gib_that_hold(uint64_t bytes) {
  constexpr uint64_t gib = kGiB;
  const uint64_t hundredths = (bytes * 100 + gib - 1) / gib;
  return fmt::format("{:.2f}", static_cast<double>(hundredths) / 100);
}

[[noreturn]] void refuse(const Shortage& shortage) {
  const KvLayout& kv = shortage.kv;
  const EngineOptions& options = shortage.options;
  const int64_t length = shortage.length, blocks = shortage.blocks;
  const int64_t needed = blocks_of_sequence(kv, length, shortage.batched_tokens);
  const int64_t fitting = shortage.fitting;
  const uint64_t needed_bytes = static_cast<uint64_t>(needed) * shortage.block_bytes;
  const std::string shorter =
      fitting > 0
          ? fmt::format("--max-model-len {} (or auto) would fit; for all of it set ", fitting)
          : "set ";
  if (options.num_kv_blocks) {
    fail(ExitCode::does_not_fit,
         "one sequence of {} tokens needs {} KV blocks, there are {}: {}--num-gpu-blocks-override "
         "{}",
         length, needed, blocks, shorter, needed);
  }
  if (options.memory_budget) {
    fail(ExitCode::does_not_fit,
         "one sequence of {} tokens needs {} of KV cache ({} blocks); weights and step take {} of "
         "the device's budget of {}, which leaves {} blocks: {}a budget of {} GiB "
         "(--gpu-memory-utilization, --gpu-memory)",
         length, size_text(needed_bytes), needed, size_text(shortage.rest),
         size_text(*options.memory_budget), blocks, shorter,
         gib_that_hold(shortage.rest + needed_bytes));
  }
  // --kv-cache-memory takes the place of --cpu-kvcache-space, which is in GiB.
  const std::string pool = options.kv_cache_memory
                               ? fmt::format("--kv-cache-memory {}", needed_bytes)
                               : "--cpu-kvcache-space " + gib_that_hold(needed_bytes);
  fail(ExitCode::does_not_fit,
       "one sequence of {} tokens needs {} of KV cache ({} blocks), the pool of {} holds {} "
       "blocks: {}{}",
       length, size_text(needed_bytes), needed,
       size_text(options.kv_cache_memory.value_or(options.kv_cache_bytes)), blocks, shorter, pool);
}

DType kv_dtype(const EngineOptions& options, const backend::Footprint& footprint) {
  const DType kv = options.kv_dtype.value_or(options.dtype);
  if (!footprint.stores_kv(kv, options.dtype)) {
    fail(ExitCode::usage, "--kv-cache-dtype {}: the {} backend keeps a {} model's cache in {} only",
         torch_name(kv), footprint.name(), torch_name(options.dtype), torch_name(options.dtype));
  }
  return kv;
}

/// Sets all sizes that follow from the length of the longest sequence.
void size_step(const model::ModelSpec& spec, const EngineOptions& options,
               const backend::Footprint& footprint, EngineLayout& layout) {
  StepLimits& limits = layout.limits;
  limits.batched_tokens = std::min(limits.batched_tokens, limits.sequences * layout.max_model_len);
  limits.table_stride = divide_up(layout.max_model_len, layout.kv.block_size);
  const int64_t slice = (footprint.shares_memory() ? kHost : kDevice).logits_bytes;
  const int64_t row = spec.vocab_size * 4;
  limits.logits_rows =
      std::min(limits.batched_tokens, std::clamp(slice / row, kLeastLogitsRows, kMostLogitsRows));
  const bool samples = spec.head != model::kNoWeight;
  layout.sampling_threads =
      samples ? std::clamp<int64_t>(options.threads, 1, limits.logits_rows) : 0;
  if (!footprint.shares_memory()) {
    layout.staging_rows = std::clamp<int64_t>(kStagingBytes / row, 1, limits.logits_rows);
  }
  layout.recorded_sizes.clear();
  if (layout.stages == 1)
    layout.recorded_sizes = recorded_sizes(options, limits.sequences, footprint);
  layout.scratch_bytes = layout.image_staging_bytes = 0;
  const VisionTower::Memory step = measure_step(spec, layout, footprint);
  layout.scratch_bytes = step.scratch;
  layout.image_staging_bytes = step.staging;
}

/// Bytes of a launch on the device beside its KV blocks.
uint64_t bytes_beside_blocks(const model::ModelSpec& spec, const EngineLayout& layout,
                             const backend::Footprint& footprint) {
  EngineLayout none = layout;
  none.num_blocks = 0;
  return plan_layout(spec, none, footprint).total_bytes;
}

/// A launch for contexts of layout.max_model_len tokens: as many blocks as it leaves of the budget.
/// Returns what else it takes.
uint64_t fill_budget(const model::ModelSpec& spec, const EngineOptions& options,
                     const backend::Footprint& footprint, EngineLayout& layout) {
  size_step(spec, options, footprint, layout);
  const uint64_t rest = bytes_beside_blocks(spec, layout, footprint);
  constexpr uint64_t kAlignment = memory::Arena::kAlignment;
  const uint64_t budget = *options.memory_budget / kAlignment * kAlignment;
  const uint64_t left = budget - std::min(budget, rest);
  layout.num_blocks = static_cast<int64_t>(left / layout.kv.block_bytes);
  return rest;
}

/// Number of embeddings that are kept by default.
int64_t usual_image_tokens(const model::ModelSpec& spec, const EngineOptions& options,
                           const backend::Footprint& footprint) {
  const ImageOptions& images = *options.images;
  const uint64_t row = static_cast<uint64_t>(spec.hidden_size) *
                       dtype_size(footprint.activation_dtype(options.dtype));
  return std::min(images.kept_images * images.largest(),
                  static_cast<int64_t>(images.kept_bytes / row));
}

/// A number of blocks that was asked for must not lead over the line.
void check_budget(const EngineOptions& options, uint64_t rest, const EngineLayout& layout) {
  const uint64_t budget = *options.memory_budget;
  const uint64_t blocks = static_cast<uint64_t>(layout.num_blocks) * layout.kv.block_bytes;
  const uint64_t left = budget - std::min(budget, rest);
  if (blocks <= left) return;
  const uint64_t fitting = left / layout.kv.block_bytes;
  fail(ExitCode::does_not_fit,
       "{} KV blocks take {}, weights and step {}; the device's budget is {}: {} would fit",
       layout.num_blocks, size_text(blocks), size_text(rest), size_text(budget),
       options.num_kv_blocks
           ? fmt::format("--num-gpu-blocks-override {}", fitting)
           : fmt::format("--kv-cache-memory {}", fitting * layout.kv.block_bytes));
}

void check_cache_scales(const model::ModelSpec& spec) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const model::AttentionSpec& attention = spec.layers[i].attention;
    if (attention.key_scale > 0 && attention.value_scale > 0) continue;
    fail(ExitCode::usage,
         "--kv-cache-dtype fp8: the checkpoint's scales of keys and values (layer {}) are not one "
         "positive number each; --kv-cache-dtype auto does without them",
         i);
  }
}

KvLayout resolve_kv(const model::ModelSpec& spec, const EngineOptions& options,
                    const backend::Footprint& footprint) {
  const auto whole = [&](const model::ModelSpec& model) {
    return make_kv_layout(model, std::max<int64_t>(options.block_size, 1),
                          kv_dtype(options, footprint), footprint);
  };
  if (!options.stage) return whole(spec);
  return cut_kv_layout(whole(*options.stage->model), spec, options.stage->first_layer, footprint);
}

}  // namespace

EngineLayout resolve_layout(const model::ModelSpec& spec, const EngineOptions& options,
                            const backend::Footprint& footprint) {
  check_limit("--block-size", options.block_size, 1024);
  EngineLayout layout;
  layout.dtype = options.dtype;
  layout.borrows_weights = options.borrows_weights;
  layout.tensor_ranks = options.tensor_ranks;
  if (spec.vision != nullptr && footprint.sees_images()) {
    layout.image_arrays = options.images.has_value();
    if (spec.embedding != model::kNoWeight) layout.images = options.images;
  }
  StepLimits& limits = layout.limits;
  layout.states = make_state_layout(spec);
  if (options.stage) layout.stages = options.stage->stages;
  layout.state_arrays = (options.stage ? *options.stage->model : spec).is_recurrent();
  Defaults defaults = footprint.shares_memory() ? kHost : kDevice;
  if (layout.states.slot_bytes > 0) {
    defaults.sequences = std::clamp<int64_t>(
        static_cast<int64_t>(kStateBytes / layout.states.slot_bytes), 1, defaults.sequences);
  }
  resolve_step(options, defaults, limits);
  const int64_t batched_tokens = limits.batched_tokens;
  if (layout.images) {
    int64_t& kept = layout.images->cache_tokens;
    const int64_t largest = layout.images->largest();
    if (kept == 0) kept = std::max(batched_tokens, usual_image_tokens(spec, options, footprint));
    kept = std::max(kept, largest);
  }
  layout.kv = resolve_kv(spec, options, footprint);
  if (layout.kv.dtype == DType::f8_e4m3) check_cache_scales(spec);
  backend::check_card_limits(footprint, spec, layout.kv.groups.size());
  layout.max_model_len = wanted_length(spec, options);
  std::optional<KvLayout> draft;
  if (options.draft) {
    draft = make_kv_layout(*options.draft->spec, layout.kv.block_size, layout.dtype, footprint);
  }
  const size_t block_bytes = bytes_per_block(layout.kv, draft ? &*draft : nullptr);
  uint64_t rest = 0;
  bool fills_budget = false;
  if (options.num_kv_blocks) {
    layout.num_blocks = *options.num_kv_blocks;
    check_blocks(layout.num_blocks, block_bytes);
  } else if (options.kv_cache_memory) {
    layout.num_blocks = static_cast<int64_t>(*options.kv_cache_memory / block_bytes);
  } else if (options.memory_budget) {
    fills_budget = true;
    rest = fill_budget(spec, options, footprint, layout);
  } else {
    layout.num_blocks = static_cast<int64_t>(options.kv_cache_bytes / block_bytes);
  }
  const int64_t wanted = layout.max_model_len;
  int64_t fitting = longest_sequence(layout.kv, layout.num_blocks, wanted, batched_tokens);
  EngineLayout shorter = layout;
  if (fills_budget && fitting < wanted) {
    const int64_t block = layout.kv.block_size;
    const auto held = [&](int64_t length) {
      shorter.max_model_len = length;
      shorter.limits.batched_tokens = batched_tokens;
      fill_budget(spec, options, footprint, shorter);
      return longest_sequence(layout.kv, shorter.num_blocks, wanted, batched_tokens);
    };
    fitting = longest_context(wanted, fitting, block, held);
    if (fitting > 0) held(fitting);
  }
  if (fitting == 0 || (fitting < wanted && !options.auto_model_len)) {
    refuse({layout.kv, block_bytes, options, wanted, layout.num_blocks, batched_tokens, rest,
            fitting});
  }
  layout.num_blocks = shorter.num_blocks;
  layout.max_model_len = fitting;
  limits.batched_tokens = batched_tokens;
  size_step(spec, options, footprint, layout);
  const bool holds_nothing = std::ranges::none_of(
      spec.layers, [](const model::LayerSpec& layer) { return layer.has_attention(); });
  if (!options.num_kv_blocks && (!options.memory_budget || holds_nothing)) {
    // More than all running sequences can hold serves nothing but the prefix cache.
    const int64_t most =
        blocks_of_sequence(layout.kv, fitting, limits.batched_tokens) * limits.sequences;
    layout.num_blocks = std::min(layout.num_blocks, most);
  }
  if ((options.num_kv_blocks || options.kv_cache_memory) && options.memory_budget) {
    check_budget(options, bytes_beside_blocks(spec, layout, footprint), layout);
  }
  layout.draft = resolve_draft(layout, options, footprint);
  return layout;
}

}  // namespace plimsoll::engine
