#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "plan/shapes/builder.h"

namespace plimsoll::plan {
namespace {

/// The rope settings of one layer type: newer configs nest them by type under `rope_parameters`.
ConfigView rope_settings(const ConfigView& config, const std::string& layer_type) {
  ConfigView settings = config.child({"rope_parameters", "rope_scaling"});
  if (!layer_type.empty() && settings.has_child({layer_type.c_str()})) {
    return settings.child({layer_type.c_str()});
  }
  return settings;
}

double rotary_share(const Builder& build, const ConfigView& settings) {
  double share = build.config.number({"partial_rotary_factor", "rotary_pct", "rope_pct"},
                                     build.family.rotary_share);
  share = settings.number({"partial_rotary_factor"}, share);
  if (!(share > 0.0 && share <= 1.0)) {
    fail(ExitCode::checkpoint_unusable,
         "{}: the partial rotary factor is {}, expected a number above 0 and at most 1",
         build.config.path(), share);
  }
  return share;
}

}  // namespace

RotaryTable rotary_table(const Builder& build, int64_t head_size, const std::string& layer_type) {
  const ConfigView& config = build.config;
  const ConfigView settings = rope_settings(config, layer_type);
  RotaryTable table;
  table.element = build.options.element;
  table.positions = build.dims.positions > 0 ? build.dims.positions : 2048;
  table.dimensions =
      static_cast<int64_t>(static_cast<double>(head_size) * rotary_share(build, settings));
  table.dimensions = settings.integer({"rope_dim"}, table.dimensions);
  table.dimensions = config.integer({"rotary_dim"}, table.dimensions);
  const std::string type = settings.text({"rope_type", "type"}, "default");
  const double factor = settings.number({"factor"}, 1.0);
  const int64_t original =
      settings.integer({"original_max_position_embeddings"},
                       config.integer({"original_max_position_embeddings"}, table.positions));
  const auto stretched = [&](int64_t positions) {
    constexpr double kMost = 1e15;  // far beyond any memory, and still an integer
    const double length = static_cast<double>(positions) * std::max(1.0, factor);
    return static_cast<int64_t>(std::min(length, kMost));
  };
  if (type == "linear") {
    table.positions = stretched(table.positions);
  } else if (type.ends_with("yarn")) {
    table.positions = stretched(original);
  } else if (type == "longrope" || type == "su") {
    table.positions += original;  // the short table and the long one, one after the other
  }
  // Sections in time, height and width: the table is enlarged for videos.
  const bool sections = settings.has("mrope_section") || build.family.rotary_each;
  if ((type == "default" || type == "mrope" || type == "yarn") && sections) {
    constexpr int64_t kEnlarged = 4;
    if (!build.counted_positions) table.positions *= kEnlarged;
  }
  table.key = type + "/" + layer_type;
  const bool by_type =
      config.child({"rope_parameters", "rope_scaling"}).has_child({"full_attention"}) ||
      config.has("swa_rope_theta") || build.family.windows == Windows::between;
  if (!by_type) table.key = type;
  return table;
}

void add_rotary(Builder& build, int64_t head_size, const std::string& layer_type) {
  const RotaryTable table = rotary_table(build, head_size, layer_type);
  if (build.family.rotary_each) {
    build.weights.buffer(Amount{table.positions} * table.dimensions * table.element);
    return;
  }
  build.weights.rotary(table);
}

}  // namespace plimsoll::plan
