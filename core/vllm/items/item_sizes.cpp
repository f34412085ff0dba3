// Sizes of processors' largest items: the rules of vLLM 0.32.0's processing infos
// (vllm/model_executor/models) and of the image processors they call (transformers).
#include "vllm/items/item_sizes.h"

#include <algorithm>
#include <cmath>

#include "base/amount.h"
#include "base/rounding.h"
#include "vllm/items/item_geometry.h"

namespace plimsoll::vllm {
namespace {

LargestItem patches_image(const VisionShape& vision, const EngineArgs& args, Size size) {
  const PixelBounds bounds =
      pixel_bounds(args, kImageScope, vision.default_min_pixels, vision.default_max_pixels);
  return patches_item(vision, smart_resize(size, 1, 1, unit_of(vision), bounds), 1);
}

/// MoonViT's resize: scaled until the patches are few enough, then padded to whole tokens.
LargestItem limited_item(const VisionShape& vision, const EngineArgs& args, Size size) {
  const int64_t limit = setting(
      args, kImageScope, {"in_token_limit", "in_patch_limit", "media_proc_cfg.in_patch_limit"},
      vision.patch_limit, kMostPixels);
  const int64_t patches = (size.width / vision.patch) * (size.height / vision.patch);
  if (patches > limit) {
    const double scale = std::sqrt(static_cast<double>(limit) / static_cast<double>(patches));
    size = {static_cast<int64_t>(static_cast<double>(size.width) * scale),
            static_cast<int64_t>(static_cast<double>(size.height) * scale)};
  }
  return patches_item(vision,
                      {plimsoll::round_up(size.width, unit_of(vision)),
                       plimsoll::round_up(size.height, unit_of(vision))},
                      1);
}

LargestItem edge_item(const VisionShape& vision, Size size) {
  LargestItem item =
      patches_item(vision,
                   {plimsoll::round_up(std::max<int64_t>(1, size.width), unit_of(vision)),
                    plimsoll::round_up(std::max<int64_t>(1, size.height), unit_of(vision))},
                   1);
  item.elements = kColours * size.width * size.height;
  return item;
}

Size whole_edge(const VisionShape& vision, const EngineArgs& args) {
  const int64_t edge =
      std::max<int64_t>(1, setting(args, kImageScope, {"size.longest_edge", "longest_edge"},
                                   vision.longest_edge, kMostSide));
  return {edge, edge};
}

bool makes_tiles(const VisionShape& vision, const EngineArgs& args) {
  if (vision.tiles_key == nullptr) return true;
  return setting(args, kImageScope, {vision.tiles_key}, vision.tiles_on ? 1 : 0, 1) != 0;
}

int64_t most_tiles(const VisionShape& vision, const EngineArgs& args) {
  if (!makes_tiles(vision, args)) return 1;
  return std::max<int64_t>(
      1,
      setting(args, kImageScope, {"max_dynamic_patch", "max_patches", "pan_and_scan_max_num_crops"},
              vision.max_tiles, kMostTiles));
}

int64_t with_thumbnail(const VisionShape& vision, int64_t tiles) {
  return tiles > 1 && vision.thumbnail ? tiles + 1 : tiles;
}

/// InternVL's choice: the grid of at most `most` tiles whose shape is closest to the image's, the
/// first unless a later one is not too large for the image.
int64_t tiles_for(const VisionShape& vision, Size size, int64_t most) {
  const double aspect = static_cast<double>(size.width) / static_cast<double>(size.height);
  const Amount area = Amount{size.width} * size.height * 2;
  double best = 1e300;
  int64_t chosen = 1;
  for (int64_t tiles = 1; tiles <= most; ++tiles) {
    for (int64_t across = 1; across <= tiles; ++across) {
      if (tiles % across != 0) continue;
      const int64_t rows = tiles / across;
      const auto down = static_cast<double>(rows);
      const double difference = std::abs(aspect - static_cast<double>(across) / down);
      const bool fills = area > Amount{vision.image_size} * vision.image_size * tiles;
      if (difference < best || (difference == best && fills)) chosen = tiles;
      best = std::min(best, difference);
    }
  }
  return chosen;
}

LargestItem tiled_image(const VisionShape& vision, const EngineArgs& args, bool profiled) {
  int64_t tiles = most_tiles(vision, args);
  const auto hint = args.limits.find("image");
  const bool hinted =
      hint != args.limits.end() && hint->second.width > 0 && hint->second.height > 0;
  if (profiled && hinted) {
    tiles = tiles_for(
        vision, {std::min(hint->second.width, kMostSide), std::min(hint->second.height, kMostSide)},
        tiles);
  }
  return tiles_item(vision, with_thumbnail(vision, tiles));
}

LargestItem split_image(const VisionShape& vision, const EngineArgs& args, Size size) {
  if (!makes_tiles(vision, args)) return tiles_item(vision, 1);
  const int64_t tile = std::max<int64_t>(
      1, setting(args, kImageScope, {"max_image_size.longest_edge"}, vision.image_size, kMostSide));
  const int64_t edge = std::max(
      tile, setting(args, kImageScope, {"size.longest_edge"}, vision.longest_edge, kMostSide));
  const int64_t longest = std::max<int64_t>(1, std::max(size.width, size.height));
  const int64_t across = divide_up(std::max<int64_t>(1, size.width * edge / longest), tile);
  const int64_t down = divide_up(std::max<int64_t>(1, size.height * edge / longest), tile);
  return tiles_item(vision, across * down > 1 ? across * down + 1 : 1);
}

struct Grid {
  int64_t across = 1;
  int64_t down = 1;
};

/// The listed size that keeps most of the image, then wastes least.
Grid best_grid(const VisionShape& vision, Size size) {
  Grid grid;
  int64_t kept = -1;
  int64_t wasted = 0;
  for (const auto& [height, width] : vision.pinpoints) {
    const double scale = std::min(static_cast<double>(width) / static_cast<double>(size.width),
                                  static_cast<double>(height) / static_cast<double>(size.height));
    const auto w = static_cast<int64_t>(static_cast<double>(size.width) * scale);
    const auto h = static_cast<int64_t>(static_cast<double>(size.height) * scale);
    const int64_t effective = std::min(w * h, size.width * size.height);
    const int64_t waste = width * height - effective;
    if (effective < kept || (effective == kept && waste >= wasted)) continue;
    kept = effective;
    wasted = waste;
    grid = {width / vision.image_size, height / vision.image_size};
  }
  return grid;
}

/// Tokens of the tiles without padding, and a newline after each row, and of the whole.
LargestItem any_resolution_item(const VisionShape& vision, Size size) {
  const int64_t patches = vision.image_size / vision.patch;
  const Grid grid = best_grid(vision, size);
  int64_t height = patches * grid.down;
  int64_t width = patches * grid.across;
  const auto h = static_cast<double>(size.height);
  const auto w = static_cast<double>(size.width);
  if (w / h > static_cast<double>(width) / static_cast<double>(height)) {
    const auto fit = static_cast<int64_t>(h * (static_cast<double>(width) / w) + 1e-7);
    height -= 2 * ((height - fit) / 2);
  } else {
    const auto fit = static_cast<int64_t>(w * (static_cast<double>(height) / h) + 1e-7);
    width -= 2 * ((width - fit) / 2);
  }
  if (vision.nine_tiles) {
    const double ratio =
        std::sqrt(static_cast<double>(height * width) / static_cast<double>(9 * patches * patches));
    if (ratio > 1.1) {
      height = static_cast<int64_t>(static_cast<double>(height) / ratio);
      width = static_cast<int64_t>(static_cast<double>(width) / ratio);
    }
  }
  LargestItem item = tiles_item(vision, grid.across * grid.down + 1);
  item.tokens = vision.tokens_per_image + height * width + height;
  return item;
}

/// The listed size of most tokens. LLaVA-OneVision's is a constant of vLLM.
Size largest_pinpoint(const VisionShape& vision) {
  if (vision.nine_tiles) return {1153, 944};
  Size best{vision.image_size, vision.image_size};
  int64_t most = 0;
  for (const auto& [height, width] : vision.pinpoints) {
    const int64_t tokens = any_resolution_item(vision, {width, height}).tokens;
    if (tokens <= most) continue;
    most = tokens;
    best = {width, height};
  }
  return best;
}

LargestItem image_item(const VisionShape& vision, const EngineArgs& args, bool profiled) {
  const auto sized = [&](Size size) { return profiled ? shrunk(size, args, "image") : size; };
  switch (vision.kind) {
    case VisionShape::Kind::none:
    case VisionShape::Kind::other:
      return {};
    case VisionShape::Kind::patches:
      return patches_image(vision, args, sized(fullest_image(vision, args)));
    case VisionShape::Kind::pixel_volume:
      return volume_item(vision, sized(volume_size(vision, args)), 1,
                         volume_bounds(vision, args, kImageScope));
    case VisionShape::Kind::patch_limit:
      return limited_item(vision, args, sized({vision.dummy_side, vision.dummy_side}));
    case VisionShape::Kind::longest_edge:
      return edge_item(vision, sized(whole_edge(vision, args)));
    case VisionShape::Kind::fixed_tokens: {
      LargestItem item = tiles_item(vision, 1);
      if (profiled && vision.profiled_tokens > 0) item.tokens = vision.profiled_tokens;
      // Lists of patches, padded to their largest number.
      if (vision.image_size == 0) {
        item.elements = item.rows * kColours * vision.patch * vision.patch;
      }
      return item;
    }
    case VisionShape::Kind::tiles:
      return tiled_image(vision, args, profiled);
    case VisionShape::Kind::split:
      return split_image(vision, args, sized({vision.image_size, vision.image_size}));
    case VisionShape::Kind::any_resolution:
      return any_resolution_item(vision, sized(largest_pinpoint(vision)));
  }
  return {};
}

/// A clip of the largest length, or of so many samples; 0: of the largest length. Those that fill
/// the context are padded to whole pieces (vllm/model_executor/models/voxtral.py:
/// get_max_audio_array_len; mistral_common's AudioEncoder.pad).
LargestItem clip_item(const SoundShape& sound, int64_t max_model_len, int64_t samples) {
  if (!sound.fills_context) return {sound.tokens, sound.rows, sound.elements};
  Amount length = Amount{max_model_len} * (sound.elements / sound.tokens);
  if (samples > 0) length = std::min(length, Amount{samples});
  const Amount pieces = ceil_div(length, sound.elements);
  return {(pieces * sound.tokens).value(), (pieces * sound.rows).value(),
          (pieces * sound.elements).value()};
}

}  // namespace

int64_t modality_limit(const EngineArgs& args, const std::string& modality) {
  constexpr int64_t kUnlimited = 999;
  if (args.language_only) return 0;
  const auto at = args.limits.find(modality);
  return at == args.limits.end() ? kUnlimited : at->second.count;
}

LargestItem largest_image(const VisionShape& vision, const EngineArgs& args) {
  return vision.images ? image_item(vision, args, false) : LargestItem{};
}

LargestItem largest_sound(const SoundShape& sound, int64_t max_model_len) {
  LargestItem item = clip_item(sound, max_model_len, 0);
  if (sound.fills_context) item.tokens = max_model_len;
  return item;
}

LargestItem profiled_image(const VisionShape& vision, const EngineArgs& args) {
  return vision.images ? image_item(vision, args, true) : LargestItem{};
}

LargestItem profiled_sound(const SoundShape& sound, const EngineArgs& args, int64_t max_model_len) {
  const auto limit = args.limits.find("audio");
  LargestItem item =
      clip_item(sound, max_model_len, limit == args.limits.end() ? 0 : limit->second.samples);
  if (sound.profiled_tokens > 0) item.tokens = sound.profiled_tokens;
  return item;
}

}  // namespace plimsoll::vllm
