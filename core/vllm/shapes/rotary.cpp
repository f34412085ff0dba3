#include <algorithm>

#include "base/json.h"
#include "model/rope.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

namespace {

constexpr model::VllmVersion kDynamicByLength{0, 22, 0};  // before: the length times the factor

constexpr model::VllmVersion kFloatTable{0, 14, 0};
constexpr model::VllmVersion kIndexerTable{0, 12, 0};  // before: the attention's

}  // namespace

bool has_float_table(const Builder& build, std::string_view kind) {
  return kind != "default" && build.options.version >= kFloatTable;
}

bool has_indexer_table(const Builder& build) {
  return build.options.version >= kIndexerTable;
}

int64_t table_rows(const Builder& build, const model::RotaryRows& rows, bool in_sections) {
  constexpr int64_t kEnlarged = 4;
  constexpr double kMost = 1e15;  // far beyond any memory, and still an integer
  double stretch = 1;
  const ConfigView rope = build.config.child({"rope_parameters", "rope_scaling"});
  if (rows.kind == "dynamic" && !rope.has("alpha") && build.options.version < kDynamicByLength) {
    stretch = std::max(1.0, rope.number({"factor"}, 1));
  }
  const double positions = static_cast<double>(rows.positions) * stretch;
  return static_cast<int64_t>(std::min(positions, kMost)) *
         (in_sections && !build.counted_positions ? kEnlarged : 1);
}

}  // namespace plimsoll::vllm
