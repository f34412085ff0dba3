// Qwen2-VL and Qwen2.5-VL: pictures of any size, in patches of 14 x 14 pixels and two frames.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "image/processors/processors.h"
#include "image/processors/settings.h"

namespace plimsoll::image::processors {
namespace {

constexpr int64_t kWorstRatio = 200;
constexpr double kUsualFps = 2;

/// Numbers of pixels under either of two names; what the request says comes first.
int64_t pixels(const Settings& settings, std::string_view name, std::string_view edge,
               int64_t usual) {
  const auto sized = settings.side("size", edge);
  const bool size_first = settings.is_overridden("size") && !settings.is_overridden(name);
  return size_first && sized ? *sized : settings.count(name, sized.value_or(usual));
}

class Qwen2Vl : public Processor {
 public:
  Qwen2Vl(const Settings& settings, const PatchShape& patches)
      : Processor(torchvision_tables(settings, kClipChannels),
                  patch_of(settings) * patch_of(settings) * pair_of(settings), clear_of(settings)),
        patch_(patch_of(settings)),
        pair_(pair_of(settings)),
        merge_(settings.count("merge_size", 2, 64)),
        min_pixels_(pixels(settings, "min_pixels", "shortest_edge", 56 * 56)),
        max_pixels_(pixels(settings, "max_pixels", "longest_edge", 28 * 28 * 1280)),
        filter_(settings.filter(Filter::bicubic)),
        frame_seconds_(static_cast<double>(pair_) / settings.number("fps", kUsualFps)),
        resizes_(settings.flag("do_resize", true)) {
    if (!resizes_) {
      min_pixels_ = 1;
      max_pixels_ = Settings::kLargest;
    }
    if (patch_ != patches.patch_size || merge_ != patches.shuffle || pair_ != kPair) {
      throw SettingsError(fmt::format(
          "patch_size {}, merge_size {}, temporal_patch_size {}: the model has {}, {} and {}",
          patch_, merge_, pair_, patches.patch_size, patches.shuffle, kPair));
    }
  }

  Layout layout(Size size) const override { return video_layout(size, 1); }
  Pixels make(const Image& image) const override { return make_video({&image, 1}); }
  Layout video_layout(Size size, int64_t frames) const override;
  std::vector<Layout> extremes(int64_t tokens) const override;
  Pixels make_video(std::span<const Image> frames) const override;

 private:
  static constexpr int64_t kPair = 2;

  static int64_t patch_of(const Settings& settings) {
    return settings.count("patch_size", 14, 256);
  }
  static int64_t pair_of(const Settings& settings) {
    return settings.count("temporal_patch_size", 2, 16);
  }
  [[nodiscard]] Size resized(Size size) const;
  /// Of `frames` pairs of rows x columns merged units.
  [[nodiscard]] Layout of_units(int64_t frames, int64_t rows, int64_t columns) const;
  uint8_t* write_patch(std::span<const Image> frames, int64_t x, int64_t y, uint8_t* to) const;

  int64_t patch_, pair_, merge_, min_pixels_, max_pixels_;
  Filter filter_;
  double frame_seconds_;
  bool resizes_;
};

Size Qwen2Vl::resized(Size size) const {
  if (!resizes_) {
    const int64_t side = patch_ * merge_;
    if (size.width % side == 0 && size.height % side == 0) return size;
    throw ImageError(code::aspect_ratio,
                     fmt::format("{} x {} pixels: without do_resize sides are multiples of {}",
                                 size.width, size.height, side));
  }
  const int64_t longest = std::max(size.width, size.height);
  const int64_t shortest = std::min(size.width, size.height);
  if (longest > kWorstRatio * shortest) {
    throw ImageError(
        code::aspect_ratio,
        fmt::format("{} x {} pixels: one side is {:.1f} times the other, and {} times "
                    "is the most that the model takes",
                    size.width, size.height,
                    static_cast<double>(longest) / static_cast<double>(shortest), kWorstRatio));
  }
  const auto unit = static_cast<double>(patch_ * merge_);
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  const auto multiple = [unit](double units) { return static_cast<int64_t>(units * unit); };
  // nearbyint's halves go to even ones, as Python's round has them.
  const Size nearest{multiple(std::nearbyint(width / unit)),
                     multiple(std::nearbyint(height / unit))};
  const int64_t area = nearest.width * nearest.height;
  if (area > max_pixels_) {
    const double beta = std::sqrt(width * height / static_cast<double>(max_pixels_));
    const auto floored = [&](double side) {
      return std::max(multiple(1), multiple(std::floor(side / beta / unit)));
    };
    return {floored(width), floored(height)};
  }
  if (area < min_pixels_) {
    const double beta = std::sqrt(static_cast<double>(min_pixels_) / (width * height));
    const auto raised = [&](double side) { return multiple(std::ceil(side * beta / unit)); };
    return {raised(width), raised(height)};
  }
  return nearest;
}

Layout Qwen2Vl::video_layout(Size size, int64_t frames) const {
  const Size to = resized(size);
  const int64_t unit = patch_ * merge_;
  return of_units((frames + pair_ - 1) / pair_, to.height / unit, to.width / unit);
}

Layout Qwen2Vl::of_units(int64_t frames, int64_t rows, int64_t columns) const {
  Layout layout;
  layout.frames = frames;
  layout.rows = rows * merge_;
  layout.columns = columns * merge_;
  layout.frame_seconds = frame_seconds_;
  layout.tokens = frames * rows * columns;
  const int64_t patches = layout.tokens * merge_ * merge_;
  layout.shape = {patches, 3 * pair_ * patch_ * patch_};
  return layout;
}

/// A square, a strip, and a video of the smallest frames.
std::vector<Layout> Qwen2Vl::extremes(int64_t tokens) const {
  const int64_t unit = patch_ * merge_ * patch_ * merge_;
  const int64_t least = std::max<int64_t>(1, (min_pixels_ + unit - 1) / unit);
  const int64_t most = std::max<int64_t>(1, std::min(tokens, std::max(max_pixels_ / unit, least)));
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(most)));
  const int64_t height = (most + kWorstRatio - 1) / kWorstRatio;
  std::vector<Layout> all = {of_units(1, root, most / root), of_units(1, height, most / height)};
  // Other shapes have a few units more than a square of whole rows.
  all.push_back(of_units(1, 1, most));
  all.push_back(of_units(std::max<int64_t>(1, tokens / least), 1, least));
  std::ranges::stable_sort(all, std::ranges::greater{}, &Layout::tokens);
  return all;
}

/// [channel, time, row, column]; a last frame stands for those that lack.
uint8_t* Qwen2Vl::write_patch(std::span<const Image> frames, int64_t x, int64_t y,
                              uint8_t* to) const {
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t t = 0; t < pair_; ++t) {
      const Image& frame = frames[static_cast<size_t>(std::min(t, std::ssize(frames) - 1))];
      for (int64_t row = 0; row < patch_; ++row) {
        const uint8_t* from = frame.rgb.data() + 3 * ((y + row) * frame.size.width + x) + c;
        for (int64_t column = 0; column < patch_; ++column) *to++ = from[3 * column];
      }
    }
  }
  return to;
}

/// Patches in blocks of merge x merge: block row, block column, row and column in the block.
Pixels Qwen2Vl::make_video(std::span<const Image> frames) const {
  const Size size = frames.front().size;
  Pixels pixels{video_layout(size, std::ssize(frames)), {}};
  const Layout& layout = pixels.layout;
  pixels.levels.resize(static_cast<size_t>(layout.shape[0] * layout.shape[1]));
  const Size to{layout.columns * patch_, layout.rows * patch_};
  uint8_t* at = pixels.levels.data();
  for (size_t first = 0; first < frames.size(); first += static_cast<size_t>(pair_)) {
    std::vector<Image> pair;
    for (size_t i = first; i < std::min(first + static_cast<size_t>(pair_), frames.size()); ++i) {
      if (frames[i].size != size) {
        throw ImageError(code::unreadable, "frames of a video have different sizes");
      }
      pair.push_back(resize(frames[i], to, {filter_, Fraction::torchvision}));
    }
    for (int64_t block_row = 0; block_row < layout.rows; block_row += merge_) {
      for (int64_t block = 0; block < layout.columns; block += merge_) {
        for (int64_t i = 0; i < merge_ * merge_; ++i) {
          at = write_patch(pair, (block + i % merge_) * patch_, (block_row + i / merge_) * patch_,
                           at);
        }
      }
    }
  }
  return pixels;
}

}  // namespace

ProcessorPtr make_qwen2_vl(const PatchShape& patches, const Json& settings, const Json& overrides) {
  return std::make_unique<Qwen2Vl>(

      Settings(settings, overrides, with_common({"min_pixels", "max_pixels", "size", "fps"})),
      patches);
}

}  // namespace plimsoll::image::processors
