// CLIP: the short side to a length, then a square of the middle. SigLIP: squashed to a square.
#include <algorithm>

#include "image/processors/processors.h"
#include "image/processors/settings.h"

namespace plimsoll::image::processors {
namespace {

constexpr std::array<std::string_view, 3> kClipSettings = {"size", "crop_size", "do_center_crop"};

/// What the tower gets: the crop, else the size that is resized to.
Size result_of(const Settings& settings) {
  const std::optional<Size> crop = settings.size("crop_size");
  const std::optional<Size> size = settings.size("size");
  const bool crops = settings.flag("do_center_crop", crop.has_value());
  if (crops && crop) return *crop;
  if (!crops && size) return *size;
  throw SettingsError("size: expected {\"height\", \"width\"} of the result");
}

class Clip : public Processor {
 public:
  Clip(const Settings& settings, const PatchShape& patches)
      : Processor(torchvision_tables(settings),
                  result_of(settings).width * result_of(settings).height),
        result_(result_of(settings)),
        square_(settings.size("size")),
        short_side_(settings.side("size", "shortest_edge")),
        patches_(patches),
        filter_(settings.filter(Filter::bicubic)) {
    settings.require("do_resize");
    if (!square_ && !short_side_) throw SettingsError("size: expected shortest_edge");
  }

  Layout layout(Size) const override {
    Layout layout;
    layout.shape = {1, 3, result_.height, result_.width};
    const int64_t side = patches_.patch_size * patches_.shuffle;
    layout.tokens = (result_.height / side) * (result_.width / side);
    return layout;
  }

  std::vector<Layout> extremes(int64_t) const override { return {layout(result_)}; }

  Pixels make(const Image& image) const override {
    Pixels pixels{layout(image.size), {}};
    const Image resized = resize(image, resized_size(image.size), {filter_, Fraction::torchvision});
    pixels.levels.resize(static_cast<size_t>(3 * result_.width * result_.height));
    write_planes(cut_middle(resized), 0, 0, result_, pixels.levels.data());
    return pixels;
  }

 private:
  [[nodiscard]] Size resized_size(Size size) const {
    if (square_) return *square_;
    if (size.width <= size.height) return {*short_side_, *short_side_ * size.height / size.width};
    return {*short_side_ * size.width / size.height, *short_side_};
  }

  /// Around what is smaller than the result there is black, the odd column and row of it behind.
  [[nodiscard]] Image cut_middle(const Image& image) const {
    if (image.size == result_) return image;
    const Size part{std::min(image.size.width, result_.width),
                    std::min(image.size.height, result_.height)};
    const Image middle = crop(image, (image.size.width - part.width) / 2,
                              (image.size.height - part.height) / 2, part);
    if (part == result_) return middle;
    Image padded{result_,
                 std::vector<uint8_t>(static_cast<size_t>(3 * result_.width * result_.height))};
    const int64_t x = (result_.width - part.width) / 2;
    const int64_t y = (result_.height - part.height) / 2;
    for (int64_t row = 0; row < part.height; ++row) {
      std::copy_n(middle.rgb.data() + 3 * row * part.width, 3 * part.width,
                  padded.rgb.data() + 3 * ((y + row) * result_.width + x));
    }
    return padded;
  }

  Size result_;
  std::optional<Size> square_;
  std::optional<int64_t> short_side_;
  PatchShape patches_;
  Filter filter_;
};

}  // namespace

ProcessorPtr make_clip(const PatchShape& patches, const Json& settings, const Json& overrides) {
  return std::make_unique<Clip>(Settings(settings, overrides, kClipSettings), patches);
}

}  // namespace plimsoll::image::processors
