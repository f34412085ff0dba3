// The limits of a launch.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/layout.h"

namespace plimsoll::engine {

namespace {

constexpr int64_t kDefaultSequences = 256;
constexpr int64_t kDefaultBatchedTokens = 2048;
/// Logits of one slice: enough rows that the head's weights are not read too often, few enough that
/// large vocabularies stay small.
constexpr int64_t kLogitsBytes = int64_t{64} << 20;
constexpr int64_t kLeastLogitsRows = 32, kMostLogitsRows = 256;
/// Absurd limits are refused before anything is sized by them.
constexpr int64_t kMostSequences = int64_t{1} << 20, kMostTokens = int64_t{1} << 24;

std::string gibibytes(uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1u << 30));
}

void check_limit(const char* flag, int64_t value, int64_t most) {
  if (value < 0 || value > most) {
    fail(ExitCode::usage, "{} {} is not between 1 and {}", flag, value, most);
  }
}

/// Sequences and tokens of a step. A default gives way to what the user asked for.
void resolve_step(const EngineOptions& options, StepLimits& limits) {
  check_limit("--max-num-seqs", options.max_num_seqs, kMostSequences);
  check_limit("--max-num-batched-tokens", options.max_num_batched_tokens, kMostTokens);
  limits.sequences = options.max_num_seqs;
  limits.batched_tokens = options.max_num_batched_tokens;
  if (limits.batched_tokens == 0) {
    limits.batched_tokens = std::max(kDefaultBatchedTokens, limits.sequences);
  }
  if (limits.sequences == 0) {
    limits.sequences = std::min(kDefaultSequences, limits.batched_tokens);
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
  return options.max_model_len == 0 ? spec.max_position : options.max_model_len;
}

/// The longest sequence that `blocks` hold, at most `length`; 0 when not even one token.
int64_t longest_length(const KvLayout& kv, int64_t blocks, int64_t length, int64_t batched_tokens) {
  int64_t fits = 0, fails = length + 1;
  while (fails - fits > 1) {
    const int64_t middle = fits + (fails - fits) / 2;
    (blocks_of_sequence(kv, middle, batched_tokens) <= blocks ? fits : fails) = middle;
  }
  return fits;
}

[[noreturn]] void refuse(const KvLayout& kv, const EngineOptions& options, int64_t length,
                         int64_t blocks, int64_t batched_tokens) {
  const int64_t needed = blocks_of_sequence(kv, length, batched_tokens);
  const int64_t fitting = longest_length(kv, blocks, length, batched_tokens);
  const uint64_t needed_bytes = static_cast<uint64_t>(needed) * kv.block_bytes;
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
  fail(ExitCode::does_not_fit,
       "one sequence of {} tokens needs {} of KV cache ({} blocks), the pool of {} holds {} "
       "blocks: {}--cpu-kvcache-space {:.2f}",
       length, gibibytes(needed_bytes), needed, gibibytes(options.kv_cache_bytes), blocks, shorter,
       // In GiB, rounded up to two decimals.
       static_cast<double>((needed_bytes * 100 + (uint64_t{1} << 30) - 1) >> 30) / 100);
}

}  // namespace

EngineLayout resolve_layout(const model::ModelSpec& spec, const EngineOptions& options,
                            const backend::Footprint& footprint) {
  check_limit("--block-size", options.block_size, 1024);
  EngineLayout layout;
  layout.dtype = options.dtype;
  StepLimits& limits = layout.limits;
  resolve_step(options, limits);
  layout.kv =
      make_kv_layout(spec, std::max<int64_t>(options.block_size, 1), options.dtype, footprint);
  layout.max_model_len = wanted_length(spec, options);
  layout.num_blocks = options.num_kv_blocks.value_or(
      static_cast<int64_t>(options.kv_cache_bytes / layout.kv.block_bytes));
  const int64_t fitting =
      longest_length(layout.kv, layout.num_blocks, layout.max_model_len, limits.batched_tokens);
  if (fitting == 0 || (fitting < layout.max_model_len && !options.auto_model_len)) {
    refuse(layout.kv, options, layout.max_model_len, layout.num_blocks, limits.batched_tokens);
  }
  layout.max_model_len = fitting;
  limits.batched_tokens = std::min(limits.batched_tokens, limits.sequences * fitting);
  limits.table_stride = (fitting + layout.kv.block_size - 1) / layout.kv.block_size;
  limits.logits_rows =
      std::min(limits.batched_tokens,
               std::clamp(kLogitsBytes / (spec.vocab_size * 4), kLeastLogitsRows, kMostLogitsRows));
  layout.sampling_threads = std::clamp<int64_t>(options.threads, 1, limits.logits_rows);
  if (!options.num_kv_blocks) {
    // More than all running sequences can hold serves nothing but the prefix cache.
    const int64_t most =
        blocks_of_sequence(layout.kv, fitting, limits.batched_tokens) * limits.sequences;
    layout.num_blocks = std::min(layout.num_blocks, most);
  }
  layout.scratch_bytes = step_scratch_bytes(spec, layout.dtype, layout.kv, limits, footprint);
  return layout;
}

}  // namespace plimsoll::engine
