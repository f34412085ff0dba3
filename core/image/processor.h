// What a model's image processor makes of pictures: sizes and tokens from their sizes alone, and
// the values that its vision tower gets.
#pragma once

#include <memory>

#include "base/json.h"
#include "image/image.h"
#include "image/pixels.h"

namespace plimsoll::image {

enum class ProcessorKind : uint8_t { qwen2_vl, gemma3, clip, siglip, idefics3, internvl };

/// What of a model's config its processor has to know.
struct PatchShape {
  int64_t patch_size = 14;      // pixels of a side
  int64_t shuffle = 1;          // patches of a side that become one token
  int64_t tokens_per_tile = 0;  // stated by the model (Gemma 3, LLaVA); 0: patches / shuffle^2
};

/// A setting of a processor that is none: the message names it.
class SettingsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Pixels of the colour that stands for none (Image::clear).
enum class Clear : uint8_t { white, as_stored };

class Processor {
 public:
  virtual ~Processor() = default;
  /// Throws ImageError where the model takes no such picture.
  [[nodiscard]] virtual Layout layout(Size size) const = 0;
  [[nodiscard]] Pixels process(const Image& image) const;
  /// Frames of one video, all of the first one's size. Throws ImageError where the model takes
  /// none.
  [[nodiscard]] virtual Layout video_layout(Size size, int64_t frames) const;
  [[nodiscard]] Pixels process_video(std::span<const Image> frames) const;
  /// What takes most to encode of all that become at most `tokens` embeddings: the first has the
  /// most of them, others are of more uneven shapes. At least one, of one tile or unit.
  [[nodiscard]] virtual std::vector<Layout> extremes(int64_t tokens) const = 0;

 protected:
  Processor(const LevelTables& tables, int64_t channel_run, Clear clear)
      : tables_(std::make_shared<const LevelTables>(tables)), run_(channel_run), clear_(clear) {}

 private:
  /// Layout and levels.
  [[nodiscard]] virtual Pixels make(const Image& image) const = 0;
  [[nodiscard]] virtual Pixels make_video(std::span<const Image> frames) const;

  std::shared_ptr<const LevelTables> tables_;
  int64_t run_;
  Clear clear_;
};

/// `settings` as preprocessor_config.json has them (InternVL: config.json), changed by `overrides`,
/// the mm_processor_kwargs. Throws SettingsError.
std::unique_ptr<const Processor> make_processor(ProcessorKind kind, const PatchShape& patches,
                                                const Json& settings,
                                                const Json& overrides = Json::object());

}  // namespace plimsoll::image
