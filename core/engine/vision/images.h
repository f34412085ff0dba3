// Images of a prompt, for the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/cache/hash.h"
#include "image/pixels.h"
#include "model/vision_spec.h"

namespace plimsoll::engine {

/// Consecutive positions of the prompt that take an image's embeddings, from `embedding` on.
struct ImageRun {
  int64_t first = 0;
  int64_t count = 0;
  int64_t embedding = 0;
  [[nodiscard]] int64_t end() const { return first + count; }
};

struct Image {
  Hash128 key;  // of its contents and its processor's settings: equal keys, equal embeddings
  std::shared_ptr<const image::Pixels> pixels;
  std::vector<ImageRun> runs;  // in order; text may stand between them

  [[nodiscard]] int64_t tokens() const { return pixels->layout.tokens; }
};

struct Images {
  std::vector<Image> items;  // in the prompt's order
  bool two_way = false;      // tokens of a run see each other both ways (Gemma 3)
  /// [3, prompt] positions by kind; empty where the model has one kind. Token k after the prompt is
  /// at prompt length + k + rope_delta in all kinds.
  std::vector<int32_t> rope_positions;
  int32_t rope_delta = 0;
};

/// Positions of images' embeddings: the prompt's placeholders in order, `counts[i]` of them for
/// image i. Fewer runs than counts, or a last one too short, where the placeholders do not
/// suffice.
std::vector<std::vector<ImageRun>> find_runs(std::span<const int32_t> prompt, int32_t placeholder,
                                             std::span<const int64_t> counts);

/// Puts images in the prompt's order, with positions by kind where the model has them.
Images place_images(const model::VisionSpec& vision, std::vector<Image> items, int64_t prompt);

/// Limits of a launch for images.
struct ImageOptions {
  /// image::Processor::extremes: layouts that take most to encode, the one with most embeddings
  /// first; images are among them.
  std::vector<image::Layout> extremes;
  /// Embeddings that the cache holds, at least those of one image; 0: default.
  int64_t cache_tokens = 0;
  /// Default size of the cache: the embeddings of so many of the largest images, within so many
  /// bytes. vLLM's default, one step's worth, would encode images that many lines share once for
  /// each line.
  int64_t kept_images = 64;
  uint64_t kept_bytes = uint64_t{512} << 20;

  [[nodiscard]] int64_t largest() const { return extremes.front().tokens; }  // in embeddings
  /// Tokens of the largest image (videos left out).
  [[nodiscard]] int64_t largest_image() const;
};

}  // namespace plimsoll::engine
