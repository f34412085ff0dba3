#include "engine/ranks/stage_layouts.h"

#include <algorithm>

#include "base/error.h"
#include "engine/ranks/message_team.h"

namespace plimsoll::engine {
namespace {

EngineLayout resolve(const model::ModelSpec& spec, const std::vector<StageView>& stages,
                     size_t index, EngineOptions options, const backend::Footprint& footprint) {
  options.stage = StageOf{&spec, stages[index].first_layer, std::ssize(stages)};
  try {
    return resolve_layout(*stages[index].spec, options, footprint);
  } catch (const Error& error) {
    if (error.code() != ExitCode::does_not_fit) throw;
    fail(error.code(), "rank {} of {}: {}", index, stages.size(), error.what());
  }
}

}  // namespace

std::vector<EngineLayout> resolve_stages(const model::ModelSpec& spec,
                                         const std::vector<StageView>& stages,
                                         const EngineOptions& options,
                                         const backend::Footprint& footprint) {
  if (stages.size() == 1) return {resolve_layout(*stages.front().spec, options, footprint)};
  std::vector<EngineLayout> layouts;
  for (size_t i = 0; i < stages.size(); ++i) {
    layouts.push_back(resolve(spec, stages, i, options, footprint));
  }
  const auto least = [&](auto of) { return of(*std::ranges::min_element(layouts, {}, of)); };
  const int64_t blocks = least([](const EngineLayout& layout) { return layout.num_blocks; });
  EngineOptions same = options;
  same.auto_model_len = false;
  same.max_model_len = least([](const EngineLayout& layout) { return layout.max_model_len; });
  same.max_num_seqs = least([](const EngineLayout& layout) { return layout.limits.sequences; });
  same.max_num_batched_tokens =
      least([](const EngineLayout& layout) { return layout.limits.batched_tokens; });
  for (size_t i = 0; i < stages.size(); ++i) {
    layouts[i] = resolve(spec, stages, i, same, footprint);
    layouts[i].num_blocks = std::min(layouts[i].num_blocks, blocks);
  }
  return layouts;
}

void spread_ranks(std::vector<EngineLayout>& layouts, int64_t tensor, int64_t processes,
                  const backend::Footprint& footprint) {
  const int64_t each = std::ssize(layouts) / processes;
  const auto last = layouts.size() - static_cast<size_t>(tensor);
  if (each <= static_cast<int64_t>(last)) {
    const int64_t slices = layouts[last].staging_rows;
    layouts.front().staging_rows = slices > 0 ? slices : layouts[last].limits.logits_rows;
    layouts.front().sampling_threads = layouts[last].sampling_threads;
    for (size_t i = last; i < layouts.size(); ++i) layouts[i].sampling_threads = 0;
  }
  if (each % tensor == 0 || !footprint.shares_memory()) return;  // whole stages, or devices
  for (EngineLayout& layout : layouts) layout.message_bytes = kMessageBytes;
}

}  // namespace plimsoll::engine
