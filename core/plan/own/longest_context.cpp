#include "plan/own/longest_context.h"

#include <algorithm>

#include "base/error.h"
#include "plan/own/pictures.h"

namespace plimsoll::plan::own {

int64_t longest_context(int64_t most, int64_t at_most, int64_t block, const HeldTokens& held) {
  int64_t fits = 0, high = most - 1, next = at_most;  // nothing above `high` fits
  while (high - fits >= block || (next > fits && next <= high)) {
    if (next == 0 && fits == 0) {
      next = std::min(block, high);
    } else if (next <= fits || next > high) {
      next = fits + std::max(block, (high - fits) / 2 / block * block);
    }
    const int64_t tokens = held(next);
    if (tokens >= next) {
      fits = next;
      high = std::min(high, tokens);
      next = high;
    } else {
      high = next - 1;
      next = tokens;
    }
  }
  return fits;
}

void settle_context(const model::ModelSpec& spec, const std::vector<engine::StageView>& stages,
                    const Arguments& arguments, const backend::Footprint& footprint,
                    engine::EngineOptions& engine) {
  if (!engine.auto_model_len) return;
  const auto at = [&](int64_t length) {
    Arguments shorter = arguments;
    shorter.args.max_model_len = length;
    engine::EngineOptions options = engine;
    options.max_model_len = length;
    options.pictures = picture_options(spec, shorter, footprint);
    return options;
  };
  const int64_t most = spec.usual_length > 0 ? spec.usual_length : spec.max_position;
  const auto held = [&](const engine::EngineOptions& options) -> int64_t {
    try {
      const engine::EngineLayout layout =
          engine::resolve_stages(spec, stages, options, footprint).front();
      return engine::longest_sequence(layout.kv, layout.num_blocks, most,
                                      layout.limits.batched_tokens);
    } catch (const Error& error) {
      if (error.code() != ExitCode::does_not_fit) throw;
      return 0;
    }
  };
  const int64_t at_most = held(engine);
  if (at_most >= most) return;
  const int64_t block = std::max<int64_t>(1, engine.block_size);
  const int64_t length =
      longest_context(most, at_most, block, [&](int64_t tokens) { return held(at(tokens)); });
  if (length == 0) return;  // refused with its reason when the engine is made
  engine = at(length);
  engine.auto_model_len = false;
}

}  // namespace plimsoll::plan::own
