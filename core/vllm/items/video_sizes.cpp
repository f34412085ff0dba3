// Videos: how many frames of which size vLLM 0.32.0 counts on (see item_sizes.cpp).
#include <algorithm>

#include "vllm/items/item_geometry.h"

namespace plimsoll::vllm {
namespace {

/// Qwen2-VL: as many frames of the largest image as the context holds.
LargestItem framed_video(const VisionShape& vision, const EngineArgs& args, int64_t room,
                         bool profiled) {
  const PixelBounds bounds =
      pixel_bounds(args, kVideoScope, vision.default_min_pixels, vision.default_max_pixels);
  const auto of = [&](Size size, int64_t frames) {
    return patches_item(vision, smart_resize(size, 1, 1, unit_of(vision), bounds), frames);
  };
  Size size = fullest_image(vision, args);
  int64_t frames = 1;
  while (frames < vision.most_frames && of(size, frames + 1).tokens <= room) ++frames;
  if (!profiled) return of(size, frames);
  const PixelBounds run{bounds.least, vision.profiled_frame_pixels > 0
                                          ? std::min(bounds.most, vision.profiled_frame_pixels)
                                          : bounds.most};
  size = smart_resize(shrunk(size, args, "video"), 1, 1, unit_of(vision), run);
  return patches_item(vision, size, shrunk_frames(frames, args));
}

/// Qwen3-VL: two frames stand for a video that fills its budget of pixels.
LargestItem budget_video(const VisionShape& vision, const EngineArgs& args, bool profiled) {
  const PixelBounds bounds =
      pixel_bounds(args, kVideoScope, vision.video_min_pixels, vision.video_max_pixels);
  constexpr int64_t kFrames = 2;
  Size size = fullest_size(bounds.most / vision.temporal_patch, unit_of(vision));
  size = smart_resize(size, kFrames, vision.temporal_patch, unit_of(vision), bounds);
  if (profiled) size = shrunk(size, args, "video");
  return volume_item(vision, size, kFrames, bounds);
}

LargestItem volume_video(const VisionShape& vision, const EngineArgs& args, int64_t room,
                         bool profiled) {
  const PixelBounds bounds = volume_bounds(vision, args, kVideoScope);
  Size size = volume_size(vision, args);
  if (vision.frame_marks > 0 && !profiled) {
    constexpr int64_t kSampledFrames = 640;
    const int64_t steps = kSampledFrames / vision.temporal_patch;
    const int64_t patch = vision.temporal_patch * unit_of(vision) * unit_of(vision);
    return {bounds.most / patch + steps * (2 + vision.frame_marks) + 2, 0, 0};
  }
  int64_t frames = 1;
  int64_t best = 0;
  for (int64_t count = 1; count <= vision.most_frames; ++count) {
    const int64_t tokens = volume_item(vision, size, count, bounds).tokens;
    if (tokens <= room && tokens > best) {
      frames = count;
      best = tokens;
    }
  }
  if (profiled) {
    size = shrunk(size, args, "video");
    frames = shrunk_frames(frames, args);
  }
  return volume_item(vision, size, std::max(frames, vision.temporal_patch), bounds);
}

LargestItem counted_video(const VisionShape& vision, const EngineArgs& args, int64_t frames,
                          bool profiled) {
  if (vision.most_frames > 0) frames = std::min(frames, vision.most_frames);
  frames = std::clamp<int64_t>(frames, 1, kMostFrames);
  if (profiled || vision.video == VisionShape::Video::fixed) frames = shrunk_frames(frames, args);
  LargestItem item = tiles_item(vision, frames);
  const bool small = profiled && vision.profiled_frame_tokens > 0;
  item.tokens = frames * (small ? vision.profiled_frame_tokens : vision.tokens_per_frame) +
                vision.video_tokens;
  if (vision.frame_rows > 0) {
    item.rows = frames * vision.frame_rows;
    item.elements = item.rows * kColours * vision.patch * vision.patch;
  }
  return item;
}

LargestItem video_item(const VisionShape& vision, const EngineArgs& args, int64_t max_model_len,
                       bool profiled) {
  // Budgets are counted for a request with one item of each modality; the profile runs one alone.
  const bool beside = !profiled && modality_limit(args, "image") > 0;
  const auto room = [&] {
    return beside ? max_model_len - largest_image(vision, args).tokens : max_model_len;
  };
  switch (vision.video) {
    case VisionShape::Video::none:
      return {};
    case VisionShape::Video::patches:
      return framed_video(vision, args, max_model_len, profiled);
    case VisionShape::Video::budget:
      return budget_video(vision, args, profiled);
    case VisionShape::Video::volume:
      return volume_video(vision, args, room(), profiled);
    case VisionShape::Video::tiles:
      return counted_video(vision, args, room() / std::max<int64_t>(1, vision.tokens_per_frame),
                           profiled);
    case VisionShape::Video::pooled:
      return counted_video(
          vision, args,
          (max_model_len - vision.video_tokens) / std::max<int64_t>(1, vision.tokens_per_frame),
          profiled);
    case VisionShape::Video::fixed:
      return counted_video(vision, args, vision.most_frames, profiled);
  }
  return {};
}

}  // namespace

LargestItem largest_video(const VisionShape& vision, const EngineArgs& args,
                          int64_t max_model_len) {
  return video_item(vision, args, max_model_len, false);
}

LargestItem profiled_video(const VisionShape& vision, const EngineArgs& args,
                           int64_t max_model_len) {
  return video_item(vision, args, max_model_len, true);
}

}  // namespace plimsoll::vllm
