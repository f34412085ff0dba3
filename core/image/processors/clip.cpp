// CLIP: the short side to a length, then a square of the middle. SigLIP: squashed to a square.
#include <fmt/format.h>

#include <algorithm>

#include "image/processors/processors.h"
#include "image/processors/settings.h"

namespace plimsoll::image::processors {
namespace {

constexpr int64_t kUsualSide = 224;

/// Values of a class where its settings have none.
struct Usual {
  Channels channels;
  bool crops = false;
  bool is_square = false;
};
constexpr Usual kClip{kClipChannels, true, false};
constexpr Usual kSiglip{kHalves, false, true};

/// Size to which images are resized: height and width as stated, or the length of the short side.
struct Target {
  std::optional<Size> exact;
  int64_t short_side = kUsualSide;
};

Target target_of(const Settings& settings, const Usual& usual) {
  Target target;
  const bool square = settings.flag("default_to_square", false);
  if (const auto side = settings.side("size", "shortest_edge")) {
    target.short_side = *side;
  } else if (const auto single = settings.single("size"); single && !square) {
    target.short_side = *single;
  } else {
    target.exact = settings.size("size");
    if (!target.exact && settings.has("size")) {
      throw SettingsError("size: expected shortest_edge, or height and width");
    }
    if (!target.exact && usual.is_square) target.exact = {kUsualSide, kUsualSide};
  }
  return target;
}

/// Size of the image that the tower gets: the crop, else the size that is resized to.
Size result_of(const Settings& settings, const Usual& usual) {
  if (settings.flag("do_center_crop", usual.crops)) {
    const std::optional<Size> crop = settings.size("crop_size");
    if (!crop && settings.has("crop_size")) {
      throw SettingsError("crop_size: expected height and width");
    }
    return crop.value_or(Size{kUsualSide, kUsualSide});
  }
  const Target target = target_of(settings, usual);
  return target.exact.value_or(Size{target.short_side, target.short_side});
}

class Clip : public Processor {
 public:
  Clip(const Settings& settings, const PatchShape& patches, const Usual& usual)
      : Processor(torchvision_tables(settings, usual.channels),
                  result_of(settings, usual).width * result_of(settings, usual).height,
                  clear_of(settings)),
        result_(result_of(settings, usual)),
        target_(target_of(settings, usual)),
        resizes_(settings.flag("do_resize", true)),
        crops_(settings.flag("do_center_crop", usual.crops)),
        patches_(patches),
        filter_(settings.filter(Filter::bicubic)) {}

  Layout layout(Size size) const override {
    const Size whole = resized_size(size);
    if (!crops_ && whole != result_) refuse_unsized(size, result_);
    if (std::max(whole.width, whole.height) > Settings::kLongestSide) {
      throw ImageError(
          code::too_large,
          fmt::format("{} x {} pixels would be resized to {} x {} before the middle "
                      "is cut out, and {} a side are the most",
                      size.width, size.height, whole.width, whole.height, Settings::kLongestSide));
    }
    return of_result();
  }

  std::vector<Layout> extremes(int64_t) const override { return {of_result()}; }

  Pixels make(const Image& image) const override {
    Pixels pixels{of_result(), {}};
    pixels.levels.resize(static_cast<size_t>(3 * result_.width * result_.height));
    write_planes(padded(middle_of(image)), 0, 0, result_, pixels.levels.data());
    return pixels;
  }

 private:
  [[nodiscard]] Layout of_result() const {
    Layout layout;
    layout.shape = {1, 3, result_.height, result_.width};
    const int64_t side = patches_.patch_size * patches_.shuffle;
    layout.tokens = patches_.tokens_per_tile;
    if (layout.tokens == 0) layout.tokens = (result_.height / side) * (result_.width / side);
    return layout;
  }
  [[nodiscard]] Size resized_size(Size size) const {
    if (!resizes_) return size;
    if (target_.exact) return *target_.exact;
    const int64_t side = target_.short_side;
    if (size.width <= size.height) return {side, side * size.height / size.width};
    return {side * size.width / size.height, side};
  }

  /// The middle of the resized image, which is not cut off.
  [[nodiscard]] Image middle_of(const Image& image) const {
    const Size whole = resized_size(image.size);
    const auto middle = [](int64_t all, int64_t most) {
      const int64_t count = std::min(all, most);
      return Outputs{(all - count) / 2, count};
    };
    return resize(image, whole, {filter_, Fraction::torchvision},
                  {middle(whole.width, result_.width), middle(whole.height, result_.height)});
  }

  /// The image with black around it where it is smaller than the result; the odd column and row
  /// of black lie behind.
  [[nodiscard]] Image padded(Image middle) const {
    const Size part = middle.size;
    if (part == result_) return middle;
    Image padded{result_, Levels(static_cast<size_t>(3 * result_.width * result_.height), 0)};
    const int64_t x = (result_.width - part.width) / 2;
    const int64_t y = (result_.height - part.height) / 2;
    for (int64_t row = 0; row < part.height; ++row) {
      std::copy_n(middle.rgb.data() + 3 * row * part.width, 3 * part.width,
                  padded.rgb.data() + 3 * ((y + row) * result_.width + x));
    }
    return padded;
  }

  Size result_;
  Target target_;
  bool resizes_, crops_;
  PatchShape patches_;
  Filter filter_;
};

ProcessorPtr make(const PatchShape& patches, const Json& settings, const Json& overrides,
                  const Usual& usual) {
  return std::make_unique<Clip>(
      Settings(settings, overrides,
               with_common({"size", "crop_size", "do_center_crop", "default_to_square"})),
      patches, usual);
}

}  // namespace

ProcessorPtr make_clip(const PatchShape& patches, const Json& settings, const Json& overrides) {
  return make(patches, settings, overrides, kClip);
}

ProcessorPtr make_siglip(const PatchShape& patches, const Json& settings, const Json& overrides) {
  return make(patches, settings, overrides, kSiglip);
}

}  // namespace plimsoll::image::processors
