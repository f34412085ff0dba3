#include "launch/context.h"

#include <algorithm>

#include "base/error.h"
#include "engine/longest_context.h"
#include "launch/images.h"

namespace plimsoll::launch {

void resolve_context(const Arguments& arguments, const backend::Footprint& footprint,
                     ResolvedLaunch& launch) {
  engine::EngineOptions& engine = launch.engine;
  if (!engine.auto_model_len) return;
  const model::ModelSpec& spec = launch.spec;
  const std::vector<engine::StageView> stages = launch.stage_views();
  const auto at = [&](int64_t length) {
    Arguments shorter = arguments;
    shorter.args.max_model_len = length;
    engine::EngineOptions options = engine;
    options.max_model_len = length;
    options.images = image_options(spec, shorter, footprint);
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
  const int64_t length = engine::longest_context(most, at_most, block,
                                                 [&](int64_t tokens) { return held(at(tokens)); });
  if (length == 0) return;  // refused with its reason when the engine is made
  engine = at(length);
  engine.auto_model_len = false;
}

}  // namespace plimsoll::launch
