// Idefics3 and SmolVLM: enlarged to a multiple of the tower's square, cut into tiles, the whole
// image as a last one.
#include <algorithm>
#include <cmath>

#include "image/processors/processors.h"
#include "image/processors/settings.h"

namespace plimsoll::image::processors {
namespace {

constexpr int64_t kLongestSide = 4096;

/// Sides whose longer one becomes `length`; `other` makes the shorter one of its unrounded length.
template <typename F>
Size with_long_side(Size size, int64_t length, F other) {
  const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  const auto side = static_cast<double>(length);
  if (size.width >= size.height) return {length, other(static_cast<int64_t>(side / ratio))};
  return {other(static_cast<int64_t>(side * ratio)), length};
}

class Idefics3 : public Processor {
 public:
  Idefics3(const Settings& settings, const PatchShape& patches)
      : Idefics3(
            settings, patches,
            settings.side("max_image_size", "longest_edge", Settings::kLongestSide).value_or(364)) {
  }

  Layout layout(Size size) const override {
    Layout layout;
    const Size first = to_long_side(size);
    check_resized(size, first);
    if (splits_) {
      const Size enlarged = to_multiples(first);
      check_resized(size, enlarged);
      layout.rows = enlarged.height / tile_;
      layout.columns = enlarged.width / tile_;
      if (layout.rows * layout.columns == 1) layout.rows = layout.columns = 0;
    }
    fill_tiles(layout);
    return layout;
  }

  std::vector<Layout> extremes(int64_t tokens) const override {
    Layout layout;
    fill_tiles(layout);
    if (splits_) {
      const int64_t most = (std::min(long_side_, kLongestSide) + tile_ - 1) / tile_;
      const int64_t tiles = std::min(most * most, tokens / layout.tokens - 1);
      if (tiles > 1) {
        layout.rows = 1;
        layout.columns = tiles;
        fill_tiles(layout);
      }
    }
    return {layout};
  }

  /// Each resize takes the rounded result of the one before.
  Pixels make(const Image& image) const override {
    Pixels pixels{layout(image.size), {}};
    pixels.levels.resize(static_cast<size_t>(pixels.layout.tiles * 3 * tile_ * tile_));
    const Resampling resampling{filter_, Fraction::torchvision};
    Image at = resize(image, to_long_side(image.size), resampling);
    if (splits_) at = resize(at, to_multiples(at.size), resampling);
    uint8_t* to = pixels.levels.data();
    const Size tile{tile_, tile_};
    for (int64_t row = 0; row < pixels.layout.rows; ++row) {
      for (int64_t column = 0; column < pixels.layout.columns; ++column) {
        to = write_planes(at, column * tile_, row * tile_, tile, to);
      }
    }
    write_planes(resize(at, tile, resampling), 0, 0, tile, to);
    return pixels;
  }

 private:
  Idefics3(const Settings& settings, const PatchShape& patches, int64_t tile)
      : Processor(torchvision_tables(settings), tile * tile, clear_of(settings)),
        patches_(patches),
        tile_(tile),
        sides_(settings.size("size")),
        long_side_(settings.side("size", "longest_edge").value_or(4 * tile)),
        splits_(settings.flag("do_image_splitting", true)),
        resizes_(settings.flag("do_resize", true)),
        filter_(settings.filter(Filter::lanczos)) {}

  /// Fills in the sizes that follow from the grid's rows and columns.
  void fill_tiles(Layout& layout) const {
    layout.tiles = layout.rows * layout.columns + 1;
    layout.shape = {layout.tiles, 3, tile_, tile_};
    const int64_t side = tile_ / patches_.patch_size / patches_.shuffle;
    layout.tokens = layout.tiles * side * side;
  }

  [[nodiscard]] Size to_long_side(Size size) const {
    if (!resizes_) return size;
    if (sides_) return *sides_;
    const Size even = with_long_side(
        size, long_side_, [](int64_t side) { return std::max<int64_t>(1, side + side % 2); });
    if (std::max(even.width, even.height) <= kLongestSide) return even;
    return with_long_side(even, kLongestSide,
                          [](int64_t side) { return std::max<int64_t>(1, side); });
  }
  [[nodiscard]] Size to_multiples(Size size) const {
    const auto multiple = [this](int64_t side) { return (side + tile_ - 1) / tile_ * tile_; };
    return with_long_side(size, multiple(std::max(size.width, size.height)),
                          [&](int64_t side) { return std::max(tile_, multiple(side)); });
  }

  PatchShape patches_;
  int64_t tile_;
  std::optional<Size> sides_;
  int64_t long_side_;
  bool splits_, resizes_;
  Filter filter_;
};

}  // namespace

ProcessorPtr make_idefics3(const PatchShape& patches, const Json& settings, const Json& overrides) {
  return std::make_unique<Idefics3>(
      // Padding evens out images of a batch, and one alone has nothing of it.
      Settings(settings, overrides,
               with_common({"size", "max_image_size", "do_image_splitting", "do_pad"})),
      patches);
}

}  // namespace plimsoll::image::processors
