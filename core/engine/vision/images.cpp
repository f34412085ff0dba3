#include "engine/vision/images.h"

#include <algorithm>
#include <utility>

#include "engine/vision/rope_positions.h"

namespace plimsoll::engine {

std::vector<std::vector<ImageRun>> find_runs(std::span<const int32_t> prompt, int32_t placeholder,
                                             std::span<const int64_t> counts) {
  std::vector<std::vector<ImageRun>> images;
  int64_t embedding = 0;  // of the image at hand
  for (size_t at = 0; at < prompt.size(); ++at) {
    if (prompt[at] != placeholder) continue;
    if (images.empty() || embedding == counts[images.size() - 1]) {
      if (images.size() == counts.size()) return images;
      images.emplace_back();
      embedding = 0;
    }
    std::vector<ImageRun>& runs = images.back();
    const auto position = static_cast<int64_t>(at);
    if (runs.empty() || runs.back().end() != position) runs.push_back({position, 0, embedding});
    ++runs.back().count;
    ++embedding;
  }
  return images;
}

Images place_images(const model::VisionSpec& vision, std::vector<Image> items, int64_t prompt) {
  Images images;
  images.items = std::move(items);
  std::ranges::sort(images.items, {}, [](const Image& image) { return image.runs.front().first; });
  images.two_way = vision.two_way();
  if (vision.kind != model::VisionKind::qwen2_vl) return images;
  std::vector<ImageGrid> grids;
  for (const Image& image : images.items) {
    const image::Layout& layout = image.pixels->layout;
    grids.push_back({.first = image.runs.front().first,
                     .frames = layout.frames,
                     .rows = layout.rows / vision.merge,
                     .columns = layout.columns / vision.merge,
                     .frame_step = vision.positions_per_second > 0
                                       ? vision.positions_per_second * layout.frame_seconds
                                       : 1.0});
  }
  RopePositions turned = rope_positions(prompt, grids);
  images.rope_positions = std::move(turned.positions);
  images.rope_delta = turned.delta;
  return images;
}

int64_t ImageOptions::largest_image() const {
  const auto is_image = [](const image::Layout& layout) { return layout.frames == 1; };
  return std::ranges::find_if(extremes, is_image)->tokens;
}

}  // namespace plimsoll::engine
