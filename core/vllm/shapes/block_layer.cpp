// Nemotron-NAS: a search has chosen heads and width of each layer, or left parts out.
#include "base/error.h"
#include "base/json.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

ConfigView block_of(const Builder& build, int64_t layer) {
  const auto blocks = build.config.json().find("block_configs");
  const auto i = static_cast<size_t>(layer);
  if (blocks == build.config.json().end() || !blocks->is_array() || i >= blocks->size()) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"block_configs\" says nothing of layer {}; expected a list of one object for each "
         "layer",
         build.config.path(), layer);
  }
  return {(*blocks)[i], build.config.path() + ": block_configs[" + std::to_string(layer) + "]"};
}

/// Two thirds of 2 x multiplier x hidden size, up to a multiple of 256.
int64_t block_width(const Builder& build, const ConfigView& feed_forward) {
  if (!feed_forward.has("ffn_mult")) return feed_forward.required({"intermediate_size"});
  const double multiplier = feed_forward.number({"ffn_mult"}, 0);
  if (!(multiplier > 0 && multiplier < 1e3)) {
    fail(ExitCode::checkpoint_unusable,
         "{}: \"ffn_mult\" is {}, expected a number above 0 and below 1000", feed_forward.path(),
         multiplier);
  }
  constexpr int64_t kMultiple = 256;
  const double width = 2.0 * multiplier * static_cast<double>(build.dims.hidden) / 3.0;
  return round_up(Amount{static_cast<int64_t>(width)}, kMultiple).value();
}

}  // namespace

void add_block_layer(Builder& build, int64_t layer) {
  const ConfigView block = block_of(build, layer);
  const ConfigView attention = block.child({"attention"});
  const ConfigView feed_forward = block.child({"ffn"});
  if (!attention.flag({"no_op"}, false)) {
    const int64_t group = attention.required({"n_heads_in_group"}, {1, 1 << 20});
    build.dims.kv_heads = std::max<int64_t>(1, build.dims.heads / group);
    build.norm(build.dims.hidden);
    add_attention(build, layer);
  }
  if (!feed_forward.flag({"no_op"}, false)) {
    build.dims.intermediate = block_width(build, feed_forward);
    build.norm(build.dims.hidden);
    add_feed_forward(build, layer);
  }
}

}  // namespace plimsoll::vllm
