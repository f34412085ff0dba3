#include "vllm/launch/prefixes.h"

#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "model/vllm/classes.h"
#include "model/vllm/types.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/runner.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kCachesStates{0, 11, 1};     // before: a recurrent model caches no prefixes
constexpr VllmVersion kStateModes{0, 15, 0};       // before: all states, where the class can
constexpr VllmVersion kStatesByDefault{0, 28, 0};  // before: on demand
constexpr VllmVersion kAlignsAlone{0, 32, 0};      // the mode "all" is gone
constexpr VllmVersion kModeIdle{0, 33, 0};         // --mamba-cache-mode has no effect
constexpr VllmVersion kDraftedInAll{0, 22, 0};
constexpr model::Releases kAlignOrDraft{kStateModes, {0, 17, 0}};  // one of them

// Tokens of which a hybrid's block is a multiple.
constexpr VllmVersion kLatentUnit{0, 11, 1};     // before: 16
constexpr VllmVersion kKernelUnit{0, 20, 0};     // before: the kernel's own block does not count
constexpr VllmVersion kPairedLatents{0, 27, 0};  // TensorRT-LLM's kernels take 128 tokens at once

bool keeps_all_states(const ModelShape& shape) {
  const auto known = model::find_class(shape.architecture);
  return known && known->all_states;
}

StateMode mode_of(const EngineArgs& args, const ModelShape& shape) {
  const VllmVersion& version = args.version;
  if (version < kStateModes) return StateMode::all;
  if (version >= kAlignsAlone || !keeps_all_states(shape)) return StateMode::align;
  const bool chosen = args.state_mode == "all" || args.state_mode == "align";
  const bool all = chosen ? args.state_mode == "all" : version < kStatesByDefault;
  return all ? StateMode::all : StateMode::align;
}

StateBlocks state_blocks(const EngineArgs& args, const ModelShape& shape, bool caches) {
  const VllmVersion& version = args.version;
  const bool latent =
      shape.kernel == AttentionKernel::mla || shape.kernel == AttentionKernel::sparse_mla;
  StateBlocks blocks;
  blocks.mode = caches ? mode_of(args, shape) : StateMode::none;
  blocks.unit_of_block = version >= kKernelUnit;
  if (latent && version >= kPairedLatents) blocks.unit = 128;
  if (latent && version >= kLatentUnit && version < kKernelUnit) blocks.unit = 64;
  blocks.chunk = args.state_block_size > 0 ? args.state_block_size : shape.state_chunk;
  blocks.drafted = args.draft_tokens;
  blocks.drafted_in_all = version >= kDraftedInAll;
  blocks.block_size = args.state_block_size;
  return blocks;
}

}  // namespace

std::optional<bool> usual_caching(const ConfigView& config, const EngineArgs& args) {
  if (runner_of(config, args).pools && !pools_in_parts(config, args)) return false;
  return std::nullopt;
}

PrefixCaching resolve_prefixes(const EngineArgs& args, const ModelShape& shape) {
  PrefixCaching caching;
  if (!shape.recurrent) {
    const bool able = !shape.attention_free && !shape.encoder_decoder && !shape.encoder;
    caching.on = args.prefix_caching.value_or(able && !runs_first_engine(args));
    return caching;
  }
  const VllmVersion& version = args.version;
  const bool usual = version >= kStatesByDefault && !shape.attention_free;
  const bool able = version >= kStateModes || (version >= kCachesStates && keeps_all_states(shape));
  caching.on = able && args.prefix_caching.value_or(usual);
  caching.states = state_blocks(args, shape, caching.on);
  return caching;
}

void check_state_flags(const EngineArgs& args) {
  const VllmVersion& version = args.version;
  const auto unknown = [](const char* flag, const std::string& value) {
    fail(ExitCode::usage, "unrecognized arguments: {} {}. Leave {} out.", flag, value, flag);
  };
  if (args.state_block_size > 0 && version < kCachesStates) {
    unknown("--mamba-block-size", std::to_string(args.state_block_size));
  }
  if (args.state_mode.empty()) return;
  if (version < kStateModes) unknown("--mamba-cache-mode", args.state_mode);
  constexpr auto kModes = std::to_array<std::string_view>({"align", "all", "none"});
  std::vector<std::string> modes;
  for (const std::string_view mode : kModes) {
    if (mode == args.state_mode && (mode != "all" || version < kAlignsAlone)) return;
    if (mode != "all" || version < kAlignsAlone) modes.push_back(fmt::format("'{}'", mode));
  }
  fail(ExitCode::usage,
       "argument --mamba-cache-mode: invalid choice: '{}' (choose from {}). Leave it out: it "
       "follows --enable-prefix-caching.",
       args.state_mode, fmt::join(modes, ", "));
}

void check_prefixes(const EngineArgs& args, const ModelShape& shape, const PrefixCaching& caching,
                    int64_t max_model_len) {
  if (args.state_block_size > 0 && args.state_block_size != max_model_len && !caching.on) {
    fail(ExitCode::usage,
         "--mamba-block-size can only be set with --enable-prefix-caching. Leave it out.");
  }
  if (!shape.recurrent || caching.states.mode != StateMode::align) return;
  if (!args.chunked_prefill.value_or(true)) {
    fail(ExitCode::usage,
         "Chunked prefill is required for {}. Use --enable-chunked-prefill, or "
         "--no-enable-prefix-caching.",
         args.version >= kAlignsAlone ? "Mamba prefix caching" : "mamba cache mode 'align'");
  }
  if (args.draft_tokens > 0 && kAlignOrDraft.hold(args.version)) {
    fail(ExitCode::usage,
         "Mamba cache mode 'align' is currently not compatible with speculative decoding. Use "
         "--no-enable-prefix-caching.");
  }
}

std::string prefixes_note(const EngineArgs& args) {
  if (args.state_mode.empty() || args.version < kModeIdle) return "";
  return "--mamba-cache-mode is deprecated. It has no effect: Mamba prefix caching follows "
         "--enable-prefix-caching.";
}

}  // namespace plimsoll::vllm
