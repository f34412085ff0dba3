#include "model/vision_spec.h"

#include <cmath>

namespace plimsoll::model {
namespace {

constexpr double kRotaryBase = 10000;

}  // namespace

RopeSpec image_rope(int64_t head_dim) {
  RopeSpec rope;
  const int64_t speeds = head_dim / 4;
  rope.rotary_dim = 4 * speeds;
  for (int kind = 0; kind < 2; ++kind) {
    for (int64_t i = 0; i < speeds; ++i) {
      const auto power = static_cast<float>(2 * i) / static_cast<float>(2 * speeds);
      rope.table.inverse_frequencies.push_back(
          1.0f / static_cast<float>(std::pow(kRotaryBase, static_cast<double>(power))));
    }
    rope.sections.push_back(speeds);
  }
  return rope;
}

AttentionSpec VisionSpec::attention(const VisionLayer& layer) const {
  const int64_t head_dim = hidden / heads;
  return {.heads = heads,
          .kv_heads = heads,
          .head_dim = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
          .rope = rope ? 0 : -1,
          .q_norm = layer.q_norm,
          .k_norm = layer.k_norm,
          .norm_span = NormSpan::all_heads,
          .qkv = layer.qkv,
          .out = layer.out};
}

}  // namespace plimsoll::model
