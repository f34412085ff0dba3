// Which layers see a window of tokens only.
#include "base/error.h"
#include "plan/builder.h"

namespace plimsoll::plan {
namespace {

Window sliding(int64_t tokens) {
  return tokens > 0 ? Window{KvKind::sliding, tokens} : Window{};
}

/// Cohere counts the token itself besides the window.
int64_t stated_window(const Builder& build) {
  const int64_t window = build.config.integer({"sliding_window"}, 0, {0, int64_t{1} << 40});
  const bool besides = build.family.architecture.starts_with("Cohere");
  return window > 0 && besides ? window + 1 : window;
}

Window chunk_or_full(const Builder& build, int64_t layer) {
  const std::vector<int64_t> rotary = build.config.integers({"no_rope_layers"});
  const auto i = static_cast<size_t>(layer);
  // 1: the layer has rotary positions and sees its chunk alone. Every fourth layer has none.
  const bool chunked = i < rotary.size() ? rotary[i] != 0 : (layer + 1) % 4 != 0;
  const int64_t chunk = build.config.integer({"attention_chunk_size"}, 8192);
  return chunked && chunk > 0 ? Window{KvKind::chunked, chunk} : Window{};
}

}  // namespace

Window layer_window(const Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  const int64_t window = stated_window(build);
  if (build.family.windows == Windows::chunked) return chunk_or_full(build, layer);
  if (build.family.windows == Windows::hybrid_list) {
    const std::vector<int64_t> pattern = config.integers({"hybrid_layer_pattern"});
    const auto i = static_cast<size_t>(layer);
    return i < pattern.size() && pattern[i] == 1 ? sliding(window) : Window{};
  }
  const std::string type = build.layer_type(layer);
  if (!type.empty() && build.family.windows != Windows::every) {
    if (type == "sliding_attention") return sliding(window);
    return {};
  }
  switch (build.family.windows) {
    case Windows::every:
      return sliding(window);
    case Windows::alternate:
      return layer % 2 == 0 ? sliding(window) : Window{};
    case Windows::pattern: {
      const int64_t fallback = build.family.architecture == "Cohere2ForCausalLM" ? 4 : 6;
      const int64_t pattern = config.integer({"sliding_window_pattern", "_sliding_window_pattern"},
                                             fallback, {1, 1 << 20});
      return (layer + 1) % pattern != 0 ? sliding(window) : Window{};
    }
    default:
      return {};
  }
}

}  // namespace plimsoll::plan
