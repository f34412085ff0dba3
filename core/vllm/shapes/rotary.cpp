#include "base/json.h"
#include "model/rope.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

int64_t table_rows(const Builder& build, int64_t positions, bool in_sections) {
  constexpr int64_t kEnlarged = 4;
  return positions * (in_sections && !build.counted_positions ? kEnlarged : 1);
}

RotaryTable rotary_table(const Builder& build, int64_t head_size, const std::string& layer_type) {
  const ConfigView& config = build.config;
  const bool by_type =
      config.child({"rope_parameters", "rope_scaling"}).has_child({"full_attention"}) ||
      build.family.windows == Windows::between;
  constexpr int64_t kUsual = 2048;
  const model::RopeSpec rope =
      model::read_rope(model::ConfigReader::describing(config.json()),
                       {.head_dim = head_size,
                        .max_position = build.dims.positions > 0 ? build.dims.positions : kUsual,
                        .layer_type = layer_type.empty() ? "full_attention" : layer_type,
                        .share = build.family.rotary_share})
          .spec;
  const bool sections = rope.vllm.in_sections || build.family.rotary_each;
  return {.positions = table_rows(build, rope.vllm.positions, sections),
          .dimensions = config.integer({"rotary_dim"}, rope.rotary_dim),
          .element = build.options.element,
          .key = rope.vllm.kind + (by_type ? "/" + layer_type : "")};
}

void add_rotary(Builder& build, int64_t head_size, const std::string& layer_type) {
  const RotaryTable table = rotary_table(build, head_size, layer_type);
  if (build.family.rotary_each) {
    build.weights.buffer(Amount{table.positions} * table.dimensions * table.element);
    return;
  }
  build.weights.rotary(table);
}

}  // namespace plimsoll::vllm
