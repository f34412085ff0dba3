#include "engine/vision/pictures.h"

#include <algorithm>
#include <utility>

#include "engine/vision/rope_positions.h"

namespace plimsoll::engine {

std::vector<std::vector<PictureRun>> find_runs(std::span<const int32_t> prompt, int32_t placeholder,
                                               std::span<const int64_t> counts) {
  std::vector<std::vector<PictureRun>> pictures;
  int64_t embedding = 0;  // of the picture at hand
  for (size_t at = 0; at < prompt.size(); ++at) {
    if (prompt[at] != placeholder) continue;
    if (pictures.empty() || embedding == counts[pictures.size() - 1]) {
      if (pictures.size() == counts.size()) return pictures;
      pictures.emplace_back();
      embedding = 0;
    }
    std::vector<PictureRun>& runs = pictures.back();
    const auto position = static_cast<int64_t>(at);
    if (runs.empty() || runs.back().end() != position) runs.push_back({position, 0, embedding});
    ++runs.back().count;
    ++embedding;
  }
  return pictures;
}

Pictures place_pictures(const model::VisionSpec& vision, std::vector<Picture> items,
                        int64_t prompt) {
  Pictures pictures;
  pictures.items = std::move(items);
  std::ranges::sort(pictures.items, {},
                    [](const Picture& picture) { return picture.runs.front().first; });
  pictures.two_way = vision.two_way();
  if (vision.kind != model::VisionKind::qwen2_vl) return pictures;
  std::vector<PictureGrid> grids;
  for (const Picture& picture : pictures.items) {
    const image::Layout& layout = picture.pixels->layout;
    grids.push_back({.first = picture.runs.front().first,
                     .frames = layout.frames,
                     .rows = layout.rows / vision.merge,
                     .columns = layout.columns / vision.merge,
                     .frame_step = vision.positions_per_second > 0
                                       ? vision.positions_per_second * layout.frame_seconds
                                       : 1.0});
  }
  RopePositions turned = rope_positions(prompt, grids);
  pictures.rope_positions = std::move(turned.positions);
  pictures.rope_delta = turned.delta;
  return pictures;
}

int64_t PictureOptions::largest_image() const {
  const auto is_image = [](const image::Layout& layout) { return layout.frames == 1; };
  return std::ranges::find_if(extremes, is_image)->tokens;
}

}  // namespace plimsoll::engine
