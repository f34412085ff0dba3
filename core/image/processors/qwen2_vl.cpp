// Qwen2-VL and Qwen2.5-VL: images of any size, in patches of 14 x 14 pixels and two frames.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/axis_passes.h"
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

/// Copies a patch's row: a few bytes, whose usual number is a constant for the compiler.
void copy_row(const uint8_t* from, int64_t count, uint8_t* to) {
  if (count == 14) {
    std::memcpy(to, from, 14);
  } else if (count == 16) {
    std::memcpy(to, from, 16);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count));
  }
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
  /// Layout of `frames` pairs of frames, each of rows x columns merged units.
  [[nodiscard]] Layout of_units(int64_t frames, int64_t rows, int64_t columns) const;
  void write_frame(const Image& frame, uint8_t* to, int64_t run) const;

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
  Layout layout = of_units((frames + pair_ - 1) / pair_, to.height / unit, to.width / unit);
  if (frames == 1) layout.repeats = pair_;
  return layout;
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

/// Into patches of [channel, row, column], a channel's `run` levels behind the one before; patches
/// in blocks of merge x merge: block row, block column, row and column in the block.
void Qwen2Vl::write_frame(const Image& frame, uint8_t* to, int64_t run) const {
  const int64_t width = frame.size.width, columns = width / patch_;
  std::vector<int64_t> across;  // levels from a row's first patch to each
  for (int64_t i = 0; i < columns; ++i) {
    across.push_back((i / merge_ * merge_ * merge_ + i % merge_) * 3 * run);
  }
  std::vector<uint8_t> planes(static_cast<size_t>(3 * width));
  for (int64_t y = 0; y < frame.size.height; ++y) {
    uint8_t* plane = planes.data();
    axis_passes().front().split(frame.rgb.data() + 3 * y * width, width,
                                {plane, plane + width, plane + 2 * width});
    const int64_t row = y / patch_;
    const int64_t before = row / merge_ * merge_ * columns + row % merge_ * merge_;
    for (int64_t c = 0; c < 3; ++c) {
      uint8_t* line = to + (3 * before + c) * run + y % patch_ * patch_;
      for (const int64_t offset : across) {
        copy_row(plane, patch_, line + offset);
        plane += patch_;
      }
    }
  }
}

/// Patches of [channel, time, row, column]; a last frame stands for those that lack. One frame
/// alone is kept once.
Pixels Qwen2Vl::make_video(std::span<const Image> frames) const {
  const Size size = frames.front().size;
  Pixels pixels{video_layout(size, std::ssize(frames)), {}};
  const Layout& layout = pixels.layout;
  pixels.levels.resize(static_cast<size_t>(layout.levels()));
  const Size to{layout.columns * patch_, layout.rows * patch_};
  const int64_t area = patch_ * patch_, kept = pair_ / layout.repeats;
  uint8_t* pair = pixels.levels.data();
  Image resized;
  for (int64_t first = 0; first < std::ssize(frames); first += pair_) {
    for (int64_t i = 0; i < kept; ++i) {
      if (first + i < std::ssize(frames)) {
        const Image& frame = frames[static_cast<size_t>(first + i)];
        if (frame.size != size) {
          throw ImageError(code::unreadable, "frames of a video have different sizes");
        }
        resized = resize(frame, to, {filter_, Fraction::torchvision});
      }
      write_frame(resized, pair + i * area, kept * area);
    }
    pair += 3 * kept * to.width * to.height;
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
