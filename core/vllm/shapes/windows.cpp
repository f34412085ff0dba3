// Which layers see a window of tokens only.
#include "base/error.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

Window sliding(int64_t tokens) {
  return tokens > 0 ? Window{KvKind::sliding, tokens} : Window{};
}

}  // namespace

Window layer_window(const Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  const std::string type = build.layer_type(layer);
  const bool between = build.family.windows == Windows::between;
  const auto window = [&] {
    return between ? config.integer({"local_attention"}, 128)
                   : config.integer({"sliding_window"}, 0, {0, int64_t{1} << 40});
  };
  if (!type.empty()) return type == "sliding_attention" ? sliding(window()) : Window{};
  if (!between) return {};
  const int64_t each = config.integer({"global_attn_every_n_layers"}, 3, {1, 1 << 20});
  return layer % each != 0 ? sliding(window()) : Window{};
}

}  // namespace plimsoll::vllm
