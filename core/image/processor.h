// A model's image processor: sizes and tokens of images from their sizes alone, and the values
// that its vision tower gets.
#pragma once

#include <memory>

#include "base/json.h"
#include "image/image.h"
#include "image/pixels.h"

namespace plimsoll::image {

enum class ProcessorKind : uint8_t { qwen2_vl, gemma3, clip, siglip, idefics3, internvl };

/// Numbers of a model's config that its processor needs.
struct PatchShape {
  int64_t patch_size = 14;      // pixels of a side
  int64_t shuffle = 1;          // patches of a side that become one token
  int64_t tokens_per_tile = 0;  // stated by the model (Gemma 3, LLaVA); 0: patches / shuffle^2
};

/// An invalid setting of a processor; the message names it.
class SettingsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Value of pixels of the transparent colour (Image::clear).
enum class Clear : uint8_t { white, as_stored };

class Processor {
 public:
  virtual ~Processor() = default;
  /// Layout of an image of this size. Throws ImageError where the model takes no such image.
  [[nodiscard]] virtual Layout layout(Size size) const = 0;
  [[nodiscard]] Pixels process(const Image& image) const;
  /// Layout of a video, all frames of the first one's size. Throws ImageError where the model takes
  /// no videos.
  [[nodiscard]] virtual Layout video_layout(Size size, int64_t frames) const;
  [[nodiscard]] Pixels process_video(std::span<const Image> frames) const;
  /// The layouts that take most to encode of all with at most `tokens` embeddings: the first has
  /// the most embeddings, others are of more uneven shapes. At least one, of one tile or unit.
  [[nodiscard]] virtual std::vector<Layout> extremes(int64_t tokens) const = 0;

 protected:
  Processor(const LevelTables& tables, int64_t channel_run, Clear clear)
      : tables_(std::make_shared<const LevelTables>(tables)), run_(channel_run), clear_(clear) {}

 private:
  /// Layout and levels of an image.
  [[nodiscard]] virtual Pixels make(const Image& image) const = 0;
  [[nodiscard]] virtual Pixels make_video(std::span<const Image> frames) const;

  std::shared_ptr<const LevelTables> tables_;
  int64_t run_;
  Clear clear_;
};

/// Makes a processor. `settings` is preprocessor_config.json (InternVL: config.json), changed by
/// `overrides`, the mm_processor_kwargs. Throws SettingsError.
std::unique_ptr<const Processor> make_processor(ProcessorKind kind, const PatchShape& patches,
                                                const Json& settings,
                                                const Json& overrides = Json::object());

}  // namespace plimsoll::image
