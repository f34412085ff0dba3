// Gemma 3: squashed to a square; on demand ("pan and scan") parts of long images beside the
// whole.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "image/processors/processors.h"
#include "image/processors/settings.h"

namespace plimsoll::image::processors {
namespace {

class Gemma3 : public Processor {
 public:
  Gemma3(const Settings& settings, const PatchShape& patches)
      : Gemma3(settings, patches, settings.size("size").value_or(Size{224, 224})) {}

  Layout layout(Size size) const override {
    if (!resizes_ && !pan_and_scan_ && size != size_) refuse_unsized(size, size_);
    return of_tiles(1 + crops(size));
  }

  std::vector<Layout> extremes(int64_t tokens) const override {
    const int64_t most = pan_and_scan_ ? 1 + std::max<int64_t>(2, max_crops_) : 1;
    return {of_tiles(std::clamp<int64_t>(tokens / tokens_per_tile_, 1, most))};
  }

  Pixels make(const Image& image) const override {
    Pixels pixels{layout(image.size), {}};
    pixels.levels.resize(static_cast<size_t>(pixels.layout.tiles * 3 * size_.width * size_.height));
    uint8_t* to = write(image, pixels.levels.data());
    const int64_t parts = pixels.layout.tiles - 1;
    const bool wide = image.size.width >= image.size.height;
    const int64_t length = wide ? image.size.width : image.size.height;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t step = (length + parts - 1) / parts;
      const int64_t first = i * step;
      const int64_t extent = std::min(step, length - first);
      to = wide ? write(crop(image, first, 0, {extent, image.size.height}), to)
                : write(crop(image, 0, first, {image.size.width, extent}), to);
    }
    return pixels;
  }

 private:
  Gemma3(const Settings& settings, const PatchShape& patches, Size size)
      : Processor(torchvision_tables(settings), size.width * size.height, clear_of(settings)),
        size_(size),
        tokens_per_tile_(patches.tokens_per_tile),
        filter_(settings.filter(Filter::bilinear)),
        pan_and_scan_(settings.flag("do_pan_and_scan", false)),
        min_crop_size_(settings.count("pan_and_scan_min_crop_size", 256)),
        max_crops_(settings.count("pan_and_scan_max_num_crops", 4, 4096)),
        min_ratio_(settings.number("pan_and_scan_min_ratio_to_activate", 1.2)),
        resizes_(settings.flag("do_resize", true)) {}

  [[nodiscard]] Layout of_tiles(int64_t tiles) const {
    Layout layout;
    layout.tiles = tiles;
    layout.shape = {tiles, 3, size_.height, size_.width};
    layout.tokens = tiles * tokens_per_tile_;
    return layout;
  }

  /// Parts along the long side; 0: the image stays whole.
  [[nodiscard]] int64_t crops(Size size) const {
    const auto longest = static_cast<double>(std::max(size.width, size.height));
    const auto shortest = static_cast<double>(std::min(size.width, size.height));
    if (!pan_and_scan_ || longest / shortest < min_ratio_) return 0;
    const auto by_size = static_cast<int64_t>(longest / static_cast<double>(min_crop_size_));
    const auto by_ratio = static_cast<int64_t>(std::floor(longest / shortest + 0.5));
    const int64_t count = std::min(max_crops_, std::max<int64_t>(2, std::min(by_size, by_ratio)));
    const auto step = std::ceil(longest / static_cast<double>(count));
    if (std::min(step, shortest) < static_cast<double>(min_crop_size_)) return 0;
    if (step * static_cast<double>(count - 1) >= longest) {
      throw ImageError(code::aspect_ratio,
                       fmt::format("{} x {} pixels: of {} crops of {:.0f} pixels the last has none",
                                   size.width, size.height, count, step));
    }
    return count;
  }
  uint8_t* write(const Image& part, uint8_t* to) const {
    return write_planes(resize(part, size_, {filter_, Fraction::torchvision}), 0, 0, size_, to);
  }

  Size size_;
  int64_t tokens_per_tile_;
  Filter filter_;
  bool pan_and_scan_;
  int64_t min_crop_size_, max_crops_;
  double min_ratio_;
  bool resizes_;
};

}  // namespace

ProcessorPtr make_gemma3(const PatchShape& patches, const Json& settings, const Json& overrides) {
  return std::make_unique<Gemma3>(
      Settings(settings, overrides,
               with_common({"do_pan_and_scan", "pan_and_scan_min_crop_size",
                            "pan_and_scan_max_num_crops", "pan_and_scan_min_ratio_to_activate",
                            "size"})),
      patches);
}

}  // namespace plimsoll::image::processors
