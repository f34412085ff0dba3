#include "plan/multimodal.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/rounding.h"
#include "plan/amount.h"

namespace plimsoll::plan {
namespace {

/// A number of --mm-processor-kwargs, kept where products of such numbers stay countable.
int64_t processor_value(const EngineArgs& args, const char* key, int64_t fallback, int64_t most) {
  const auto at = args.processor.find(key);
  return at == args.processor.end() ? fallback : std::clamp<int64_t>(at->second, 1, most);
}

constexpr int64_t kMostPixels = int64_t{1} << 34;
constexpr int64_t kMostSide = 1 << 17;
constexpr int64_t kMostFramesHinted = 1 << 16;
constexpr int64_t kMostTiles = 1 << 10;

int64_t limit_of(const EngineArgs& args, const char* modality) {
  constexpr int64_t kUnlimited = 999;
  if (args.language_only) return 0;
  const auto at = args.limits.find(modality);
  return at == args.limits.end() ? kUnlimited : at->second.count;
}

/// The pair of factors of `units` that is closest to a square.
std::pair<int64_t, int64_t> closest_factors(int64_t units) {
  for (auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(units))); side > 1; --side) {
    if (units % side == 0) return {side, units / side};
  }
  return {1, units};
}

struct Size {
  int64_t width;
  int64_t height;
};

/// Qwen2-VL's resize: sides rounded to multiples of `factor`, area within bounds.
Size smart_resize(Size size, int64_t factor, int64_t least, int64_t most) {
  const auto rounded = [&](double side) {
    return std::max(
        factor, static_cast<int64_t>(std::nearbyint(side / static_cast<double>(factor))) * factor);
  };
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  Size result{rounded(width), rounded(height)};
  const auto f = static_cast<double>(factor);
  if (result.width * result.height > most) {
    const double beta = std::sqrt(width * height / static_cast<double>(most));
    result.width = std::max(factor, static_cast<int64_t>(std::floor(width / beta / f)) * factor);
    result.height = std::max(factor, static_cast<int64_t>(std::floor(height / beta / f)) * factor);
  } else if (result.width * result.height < least) {
    const double beta = std::sqrt(static_cast<double>(least) / (width * height));
    result.width = static_cast<int64_t>(std::ceil(width * beta / f)) * factor;
    result.height = static_cast<int64_t>(std::ceil(height * beta / f)) * factor;
  }
  return result;
}

constexpr int64_t kChannels = 3;

LargestItem patches_item(const VisionShape& vision, Size size, int64_t frames) {
  const int64_t steps = divide_up(frames, vision.temporal_patch);
  LargestItem item;
  item.patches = (size.width / vision.patch) * (size.height / vision.patch) * steps;
  item.tokens = item.patches / (vision.merge * vision.merge);
  item.pixel_elements =
      item.patches * kChannels * vision.temporal_patch * vision.patch * vision.patch;
  return item;
}

Size largest_size(const VisionShape& vision, const EngineArgs& args, const char* modality) {
  const int64_t factor = vision.patch * vision.merge;
  const int64_t most = processor_value(args, "max_pixels", vision.default_max_pixels, kMostPixels);
  const int64_t least = processor_value(args, "min_pixels", vision.default_min_pixels, kMostPixels);
  const auto hint = args.limits.find(modality);
  if (hint != args.limits.end() && hint->second.width > 0 && hint->second.height > 0) {
    return smart_resize(
        {std::min(hint->second.width, kMostSide), std::min(hint->second.height, kMostSide)}, factor,
        least, most);
  }
  const auto [a, b] = closest_factors(std::max<int64_t>(1, most / (factor * factor)));
  return {a * factor, b * factor};
}

}  // namespace

LargestItem largest_image(const VisionShape& vision, const EngineArgs& args) {
  switch (vision.kind) {
    case VisionShape::Kind::none:
    case VisionShape::Kind::other:
      return {};
    case VisionShape::Kind::patches:
      return patches_item(vision, largest_size(vision, args, "image"), 1);
    case VisionShape::Kind::fixed_tokens: {
      const int64_t side = vision.image_size / vision.patch;
      return {vision.tokens_per_image, side * side,
              kChannels * vision.image_size * vision.image_size};
    }
    case VisionShape::Kind::tiles: {
      const int64_t most = processor_value(args, "max_dynamic_patch", vision.max_tiles, kMostTiles);
      const int64_t tiles = most > 1 ? most + 1 : 1;  // and a thumbnail
      const int64_t side = vision.image_size / vision.patch;
      return {tiles * vision.tokens_per_image, tiles * (side * side + 1),
              tiles * kChannels * vision.image_size * vision.image_size};
    }
  }
  return {};
}

LargestItem largest_video(const VisionShape& vision, const EngineArgs& args,
                          int64_t max_model_len) {
  if (!vision.video || vision.kind != VisionShape::Kind::patches) return {};
  const auto hint = args.limits.find("video");
  const Size size = largest_size(vision, args, "video");
  constexpr int64_t kMostFrames = 14;
  int64_t frames = kMostFrames;
  if (hint != args.limits.end() && hint->second.frames > 0) {
    frames = std::min(hint->second.frames, kMostFramesHinted);
  } else {
    while (frames > vision.temporal_patch &&
           patches_item(vision, size, frames).tokens > max_model_len) {
      --frames;
    }
  }
  return patches_item(vision, size, frames);
}

EncoderMemory encoder_memory(const EngineArgs& args, const EngineLimits& limits,
                             const ModelShape& shape, int64_t element, int64_t max_model_len) {
  EncoderMemory memory;
  if (!shape.multimodal || args.language_only || args.skip_mm_profiling) return memory;
  const VisionShape& vision = shape.vision;
  LargestItem item = limit_of(args, "image") > 0 ? largest_image(vision, args) : LargestItem{};
  memory.modality = "image";
  const LargestItem video =
      limit_of(args, "video") > 0 ? largest_video(vision, args, max_model_len) : LargestItem{};
  if (video.tokens > item.tokens) {
    item = video;
    memory.modality = "video";
  }
  if (item.tokens <= 0) return memory;
  memory.budget_tokens = std::max(limits.max_num_batched_tokens, item.tokens);
  const int64_t each = std::max<int64_t>(
      1, std::min(limit_of(args, memory.modality.c_str()), max_model_len / item.tokens));
  memory.items = std::max<int64_t>(
      1, std::min(Amount{memory.budget_tokens / item.tokens}, Amount{limits.max_num_seqs} * each)
             .value());
  memory.tokens_per_item = item.tokens;
  const Amount outputs = Amount{memory.items} * item.tokens * shape.hidden * element;
  const Amount pixels = Amount{memory.items} * item.pixel_elements * element;
  memory.kept = (outputs + pixels).value();
  memory.formula =
      fmt::format("{} {} item(s) x ({} tokens x {} + {} pixel elements) x {} B", memory.items,
                  memory.modality, item.tokens, shape.hidden, item.pixel_elements, element);
  const Amount rows = Amount{memory.items} * item.patches;
  const Amount width = vision.kind == VisionShape::Kind::patches
                           ? Amount{vision.hidden} * 2 + Amount{vision.intermediate} * 3
                           : Amount{vision.hidden} * 3 + Amount{vision.intermediate} * 2;
  memory.peak = (rows * width * element).value();
  memory.peak_formula = fmt::format("{} rows x {} B x {}", rows.value(), element, width.value());
  return memory;
}

bool towers_unused(const ConfigView& config, const EngineArgs& args) {
  static_cast<void>(config);
  if (args.language_only) return args.version >= VllmVersion{0, 17, 0};
  if (args.version < VllmVersion{0, 15, 0} || args.limits.empty()) return false;
  const bool has_video = config.has("video_token_id") || config.has("video_token_index");
  return limit_of(args, "image") == 0 && (!has_video || limit_of(args, "video") == 0);
}

}  // namespace plimsoll::plan
