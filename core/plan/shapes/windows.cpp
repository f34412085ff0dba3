// Which layers see a window of tokens only.
#include "base/error.h"
#include "plan/shapes/builder.h"

namespace plimsoll::plan {
namespace {

Window sliding(int64_t tokens) {
  return tokens > 0 ? Window{KvKind::sliding, tokens} : Window{};
}

/// Cohere counts the token itself besides.
int64_t stated_window(const Builder& build) {
  const int64_t window = build.config.integer({"sliding_window"}, 0, {0, int64_t{1} << 40});
  return window > 0 && build.family.own_besides_window ? window + 1 : window;
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

/// vLLM's Qwen2 has windows in all layers or in none.
void check_qwen2_windows(const Builder& build) {
  const ConfigView& config = build.config;
  if (!config.flag({"use_sliding_window"}, false) || !config.has("sliding_window")) return;
  const int64_t from = config.integer({"max_window_layers"}, 28, {0, 1 << 20});
  const int64_t layers = build.dims.layers;
  if (from <= 0 || from >= layers) return;
  fail(
      ExitCode::usage,
      "{}: Sliding window for some but all layers is not supported. This model uses sliding window "
      "but `max_window_layers` = {} is less than `num_hidden_layers` = {}.",
      config.path(), from, layers);
}

Window layer_window(const Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  if (build.family.windows_in_all) check_qwen2_windows(build);
  const int64_t window = stated_window(build);
  if (build.family.windows == Windows::chunked) return chunk_or_full(build, layer);
  if (build.family.windows == Windows::hybrid_list) {
    const std::vector<int64_t> pattern = config.integers({"hybrid_layer_pattern"});
    const auto i = static_cast<size_t>(layer);
    return i < pattern.size() && pattern[i] == 1 ? sliding(window) : Window{};
  }
  const std::string type = build.layer_type(layer);
  if (!type.empty() && build.family.windows != Windows::every) {
    const bool local = build.family.windows == Windows::between;
    if (type == "sliding_attention")
      return sliding(local ? config.integer({"local_attention"}, 128) : window);
    return {};
  }
  switch (build.family.windows) {
    case Windows::every:
      return sliding(window);
    case Windows::alternate:
      return layer % 2 == 0 ? sliding(window) : Window{};
    case Windows::pattern: {
      const int64_t pattern = config.integer({"sliding_window_pattern", "_sliding_window_pattern"},
                                             build.family.window_period, {1, 1 << 20});
      return (layer + 1) % pattern != 0 ? sliding(window) : Window{};
    }
    case Windows::between: {
      const int64_t each = config.integer({"global_attn_every_n_layers"}, 3, {1, 1 << 20});
      return layer % each != 0 ? sliding(config.integer({"local_attention"}, 128)) : Window{};
    }
    default:
      return {};
  }
}

}  // namespace plimsoll::plan
