#include "vllm/items/item_geometry.h"

#include <algorithm>
#include <cmath>

#include "base/amount.h"
#include "base/rounding.h"

namespace plimsoll::vllm {

int64_t setting(const EngineArgs& args, const std::string& scope,
                std::initializer_list<const char*> keys, int64_t fallback, int64_t most) {
  for (const auto* source : {&args.processor, &args.processor_file}) {
    for (const std::string& prefix : {scope + ".", std::string()}) {
      const bool of_images = source == &args.processor_file && scope == kVideoScope;
      if (of_images && prefix.empty()) continue;
      for (const char* key : keys) {
        const auto at = source->find(prefix + key);
        if (at != source->end()) return std::clamp<int64_t>(at->second, 0, most);
      }
    }
  }
  return fallback;
}

Size shrunk(Size size, const EngineArgs& args, const char* modality) {
  const auto hint = args.limits.find(modality);
  if (hint == args.limits.end()) return size;
  if (hint->second.width > 0) size.width = std::min(size.width, hint->second.width);
  if (hint->second.height > 0) size.height = std::min(size.height, hint->second.height);
  return size;
}

int64_t shrunk_frames(int64_t frames, const EngineArgs& args) {
  const auto hint = args.limits.find("video");
  if (hint == args.limits.end() || hint->second.frames <= 0) return frames;
  return std::min(frames, hint->second.frames);
}

PixelBounds pixel_bounds(const EngineArgs& args, const char* scope, int64_t least, int64_t most) {
  return {setting(args, scope, {"min_pixels", "size.shortest_edge"}, least, kMostPixels),
          setting(args, scope, {"max_pixels", "size.longest_edge"}, most, kMostPixels)};
}

Size smart_resize(Size size, int64_t frames, int64_t temporal, int64_t factor, PixelBounds bounds) {
  const auto f = static_cast<double>(factor);
  auto width = static_cast<double>(size.width);
  auto height = static_cast<double>(size.height);
  const auto rounded = [&](double side) {
    return std::max(factor, static_cast<int64_t>(std::nearbyint(side / f)) * factor);
  };
  const auto count = static_cast<double>(frames);
  const auto steps = static_cast<int64_t>(std::nearbyint(count / static_cast<double>(temporal)));
  Size result{rounded(width), rounded(height)};
  const Amount volume = Amount{steps} * temporal * result.width * result.height;
  if (volume > Amount{bounds.most}) {
    const double beta = std::sqrt(count * width * height / static_cast<double>(bounds.most));
    result.width = std::max(factor, static_cast<int64_t>(std::floor(width / beta / f)) * factor);
    result.height = std::max(factor, static_cast<int64_t>(std::floor(height / beta / f)) * factor);
  } else if (volume < Amount{bounds.least}) {
    const double beta = std::sqrt(static_cast<double>(bounds.least) / (count * width * height));
    result.width = static_cast<int64_t>(std::ceil(width * beta / f)) * factor;
    result.height = static_cast<int64_t>(std::ceil(height * beta / f)) * factor;
  }
  return result;
}

Size fullest_size(int64_t pixels, int64_t unit) {
  constexpr int64_t kMostAspect = 200;
  for (int64_t units = std::max<int64_t>(1, pixels / (unit * unit)); units > 1; --units) {
    auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(units)));
    while (side > 1 && units % side != 0) --side;
    if (units / side <= kMostAspect * side) return {units / side * unit, side * unit};
  }
  return {unit, unit};
}

LargestItem patches_item(const VisionShape& vision, Size size, int64_t frames) {
  const int64_t steps = divide_up(frames, vision.temporal_patch);
  const Amount rows = Amount{size.width / vision.patch} * (size.height / vision.patch) * steps;
  LargestItem item;
  item.rows = rows.value();
  item.tokens = item.rows / (vision.merge * vision.merge);
  item.elements = (rows * kColours * vision.temporal_patch * vision.patch * vision.patch).value();
  return item;
}

int64_t unit_of(const VisionShape& vision) {
  return vision.patch * vision.merge;
}

Size fullest_image(const VisionShape& vision, const EngineArgs& args) {
  const PixelBounds bounds =
      pixel_bounds(args, kImageScope, vision.default_min_pixels, vision.default_max_pixels);
  return fullest_size(bounds.most, unit_of(vision));
}

LargestItem volume_item(const VisionShape& vision, Size size, int64_t frames, PixelBounds bounds) {
  const int64_t counted = std::max(frames, vision.temporal_patch);
  return patches_item(
      vision, smart_resize(size, counted, vision.temporal_patch, unit_of(vision), bounds), frames);
}

PixelBounds volume_bounds(const VisionShape& vision, const EngineArgs& args, const char* scope) {
  const bool image = scope == std::string(kImageScope);
  return pixel_bounds(args, scope, vision.default_min_pixels,
                      image ? vision.default_max_pixels : vision.video_max_pixels);
}

Size volume_size(const VisionShape& vision, const EngineArgs& args) {
  constexpr Size kHuge{9999999, 9999999};  // larger than any image that is kept as it is
  return smart_resize(kHuge, vision.temporal_patch, vision.temporal_patch, unit_of(vision),
                      volume_bounds(vision, args, kImageScope));
}

LargestItem tiles_item(const VisionShape& vision, int64_t tiles) {
  const int64_t side = vision.image_size / vision.patch;
  const int64_t rows = vision.rows_per_tile > 0 ? vision.rows_per_tile : side * side;
  return {tiles * vision.tokens_per_image, tiles * rows,
          tiles * kColours * vision.image_size * vision.image_size};
}

}  // namespace plimsoll::vllm
