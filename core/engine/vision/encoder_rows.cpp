#include "engine/vision/encoder_rows.h"

namespace plimsoll::engine {

EncoderRows tile_rows(const model::VisionSpec& spec) {
  const int64_t merge = spec.merge, side = spec.image / spec.patch, across = side / merge;
  const int64_t all = side * side + (spec.class_token == model::kNoWeight ? 0 : 1);
  EncoderRows rows;
  if (!spec.layers.empty()) rows.frames = {all};
  for (int64_t i = 0; i < all - spec.first_row; ++i) {
    const int64_t block = i / (merge * merge), within = i % (merge * merge);
    const int64_t row = block / across * merge + within / merge;
    const int64_t column = block % across * merge + within % merge;
    rows.order.push_back(static_cast<int32_t>(spec.first_row + row * side + column));
  }
  return rows;
}

EncoderRows frame_rows(const model::VisionSpec& spec, const image::Layout& layout,
                       const WindowOrder& windows) {
  const int64_t merge = spec.merge, unit = merge * merge, across = layout.columns / merge;
  const auto units = static_cast<int64_t>(windows.units.size());
  EncoderRows rows;
  rows.order.resize(windows.units.size());
  for (int64_t i = 0; i < units; ++i) {
    rows.order[windows.units[static_cast<size_t>(i)]] = static_cast<int32_t>(i);
  }
  if (spec.layers.empty()) return rows;
  rows.frames = {units * unit};
  if (spec.window > 0) rows.windows = windows.lengths;
  for (int64_t& length : rows.windows) length *= unit;
  if (!spec.rope) return rows;
  rows.places.resize(2 * units * unit);
  for (int64_t row = 0; row < units * unit; ++row) {
    const int64_t block = windows.units[row / unit], within = row % unit;
    rows.places[row] = static_cast<int32_t>(block / across * merge + within / merge);
    rows.places[units * unit + row] = static_cast<int32_t>(block % across * merge + within % merge);
  }
  return rows;
}

}  // namespace plimsoll::engine
