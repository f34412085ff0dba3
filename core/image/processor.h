// What a model's image processor makes of pictures: sizes and tokens from their sizes alone, and
// the values that its vision tower gets.
#pragma once

#include <array>
#include <memory>

#include "base/json.h"
#include "image/image.h"

namespace plimsoll::image {

enum class ProcessorKind : uint8_t { qwen2_vl, gemma3, clip, siglip, idefics3, internvl };

/// What of a model's config its processor has to know.
struct PatchShape {
  int64_t patch_size = 14;      // pixels of a side
  int64_t shuffle = 1;          // patches of a side that become one token
  int64_t tokens_per_tile = 0;  // stated by the model (Gemma 3); 0: patches / shuffle^2
};

/// What becomes of one picture, or of the frames of one video.
struct Layout {
  std::vector<int64_t> shape;  // of the values
  int64_t tokens = 0;          // embeddings, placeholders of the prompt
  int64_t tiles = 1;           // squares that the tower sees one by one, the whole picture included
  /// The grid of tiles, 0 where the picture is not cut; Qwen: of patches, and frames in pairs.
  int64_t rows = 0, columns = 0;
  int64_t frames = 1;
};

/// Grey levels in the order of the values: what is left is a table look-up for each.
struct Pixels {
  Layout layout;
  std::vector<uint8_t> levels;
};

/// A setting of a processor that is none: the message names it.
class SettingsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Processor {
 public:
  virtual ~Processor() = default;
  /// Throws ImageError where the model takes no such picture.
  [[nodiscard]] virtual Layout layout(Size size) const = 0;
  [[nodiscard]] virtual Pixels process(const Image& image) const = 0;
  /// Frames of one video, all of the first one's size. Throws ImageError where the model takes
  /// none.
  [[nodiscard]] virtual Layout video_layout(Size size, int64_t frames) const;
  [[nodiscard]] virtual Pixels process_video(std::span<const Image> frames) const;

  /// values[i] = (level - mean) / std of i's channel, as many as there are levels.
  void normalize(const Pixels& pixels, float* values) const;

 protected:
  /// How levels become values: of each channel, [256].
  using Tables = std::array<std::array<float, 256>, 3>;
  Processor(const Tables& tables, int64_t channel_run) : tables_(tables), run_(channel_run) {}

 private:
  Tables tables_;
  int64_t run_;  // values of one channel behind each other
};

/// `settings` as preprocessor_config.json has them (InternVL: config.json), changed by `overrides`,
/// the mm_processor_kwargs. Throws SettingsError.
std::unique_ptr<const Processor> make_processor(ProcessorKind kind, const PatchShape& patches,
                                                const Json& settings,
                                                const Json& overrides = Json::object());

}  // namespace plimsoll::image
