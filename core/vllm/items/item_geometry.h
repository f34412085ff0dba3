// Sizes of images and frames after a processor has resized them. Internal to the item sizes.
#pragma once

#include <initializer_list>
#include <string>

#include "model/vision_spec.h"
#include "vllm/items/item_sizes.h"

namespace plimsoll::vllm {

// Bounds of numbers that users state, so that their products do not overflow.
inline constexpr int64_t kMostPixels = int64_t{1} << 34;
inline constexpr int64_t kMostSide = 1 << 17;
inline constexpr int64_t kMostFrames = 1 << 16;
inline constexpr int64_t kMostTiles = 1 << 10;
inline constexpr int64_t kColours = 3;
using model::kImageScope;
using model::kVideoScope;

/// A size in pixels.
struct Size {
  int64_t width;
  int64_t height;
};

/// Bounds of the pixels of an image, or of all frames together.
struct PixelBounds {
  int64_t least;
  int64_t most;
};

/// A number of --mm-processor-kwargs, else of the processor's own file, else the fallback; from 0
/// to `most`.
int64_t setting(const EngineArgs& args, const std::string& scope,
                std::initializer_list<const char*> keys, int64_t fallback, int64_t most);

/// The size, or the count of frames, that --limit-mm-per-prompt leaves of a processor's largest.
Size shrunk(Size size, const EngineArgs& args, const char* modality);
int64_t shrunk_frames(int64_t frames, const EngineArgs& args);

PixelBounds pixel_bounds(const EngineArgs& args, const char* scope, int64_t least, int64_t most);

/// Qwen's and GLM's resize: sides rounded to multiples of `factor`, the volume of all frames within
/// bounds.
Size smart_resize(Size size, int64_t frames, int64_t temporal, int64_t factor, PixelBounds bounds);

/// The size whose units fill `pixels` best: the most units that have factors close enough to a
/// square. Processors refuse images whose sides differ by a factor of 200.
Size fullest_size(int64_t pixels, int64_t unit);

/// Pixels on a side of one token.
int64_t unit_of(const VisionShape& vision);

LargestItem patches_item(const VisionShape& vision, Size size, int64_t frames);
Size fullest_image(const VisionShape& vision, const EngineArgs& args);

/// GLM's items, whose bounds hold for all frames together.
LargestItem volume_item(const VisionShape& vision, Size size, int64_t frames, PixelBounds bounds);
PixelBounds volume_bounds(const VisionShape& vision, const EngineArgs& args, const char* scope);
Size volume_size(const VisionShape& vision, const EngineArgs& args);

LargestItem tiles_item(const VisionShape& vision, int64_t tiles);

}  // namespace plimsoll::vllm
