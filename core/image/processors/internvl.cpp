// InternVL: a grid of tiles near the image's aspect ratio, and a thumbnail behind them.
#include <cmath>
#include <limits>

#include "image/processors/processors.h"
#include "image/processors/settings.h"

namespace plimsoll::image::processors {
namespace {

constexpr std::array<std::string_view, 5> kInternVlSettings = {
    "image_size", "min_dynamic_patch", "max_dynamic_patch", "dynamic_image_size", "use_thumbnail"};
constexpr int64_t kMostTiles = 4096;

class InternVl : public Processor {
 public:
  InternVl(const Settings& settings, const PatchShape& patches)
      : InternVl(settings, patches,
                 settings.count("image_size",
                                settings.count("force_image_size", 448, Settings::kLongestSide),
                                Settings::kLongestSide)) {}

  Layout layout(Size size) const override { return of_grid(closest_grid(size)); }

  std::vector<Layout> extremes(int64_t tokens) const override {
    const int64_t each = of_grid({}).tokens;
    int64_t most = std::min(most_, tokens / std::max<int64_t>(1, each));
    if (thumbnail_ && most > 1 && of_grid({most, 1}).tokens > tokens) --most;
    return {of_grid({std::max<int64_t>(1, most), 1})};
  }

  Pixels make(const Image& image) const override {
    Pixels pixels{layout(image.size), {}};
    const Layout& layout = pixels.layout;
    pixels.levels.resize(static_cast<size_t>(layout.tiles * 3 * tile_ * tile_));
    const Resampling resampling{Filter::bicubic, Fraction::pillow};
    const Size tile{tile_, tile_};
    const Image cut = resize(image, {layout.columns * tile_, layout.rows * tile_}, resampling);
    uint8_t* to = pixels.levels.data();
    for (int64_t row = 0; row < layout.rows; ++row) {
      for (int64_t column = 0; column < layout.columns; ++column) {
        to = write_planes(cut, column * tile_, row * tile_, tile, to);
      }
    }
    if (layout.tiles > layout.rows * layout.columns) {
      write_planes(resize(image, tile, resampling), 0, 0, tile, to);
    }
    return pixels;
  }

 private:
  struct Grid {
    int64_t columns = 1, rows = 1;
  };

  InternVl(const Settings& settings, const PatchShape& patches, int64_t tile)
      : Processor(stepwise_tables(settings), tile * tile, Clear::as_stored),
        patches_(patches),
        tile_(tile),
        thumbnail_(settings.flag("use_thumbnail", true)) {
    if (!settings.flag("dynamic_image_size", true)) return;
    least_ = settings.count("min_dynamic_patch", 1, kMostTiles);
    most_ = settings.count("max_dynamic_patch", 12, kMostTiles);
  }

  [[nodiscard]] Layout of_grid(Grid grid) const {
    Layout layout;
    layout.rows = grid.rows;
    layout.columns = grid.columns;
    const int64_t cut = grid.rows * grid.columns;
    layout.tiles = cut + (thumbnail_ && cut > 1 ? 1 : 0);
    layout.shape = {layout.tiles, 3, tile_, tile_};
    const int64_t side = tile_ / patches_.patch_size / patches_.shuffle;
    layout.tokens = layout.tiles * side * side;
    return layout;
  }

  /// The grid whose shape is closest to the image's. The larger of two equally close grids is
  /// taken where the image fills half of it.
  [[nodiscard]] Grid closest_grid(Size size) const {
    const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
    const double area = static_cast<double>(size.width) * static_cast<double>(size.height);
    double least = std::numeric_limits<double>::infinity();
    Grid best;
    for (int64_t tiles = least_; tiles <= most_; ++tiles) {
      for (int64_t columns = 1; columns <= tiles; ++columns) {
        if (tiles % columns != 0) continue;
        const int64_t rows = tiles / columns;
        const double distance =
            std::abs(ratio - static_cast<double>(columns) / static_cast<double>(rows));
        const bool fills = area > 0.5 * static_cast<double>(tile_ * tile_ * tiles);
        if (distance < least || (distance == least && fills)) best = {columns, rows};
        least = std::min(least, distance);
      }
    }
    return best;
  }

  PatchShape patches_;
  int64_t tile_;
  bool thumbnail_;
  int64_t least_ = 1, most_ = 1;
};

}  // namespace

ProcessorPtr make_internvl(const PatchShape& patches, const Json& settings, const Json& overrides) {
  return std::make_unique<InternVl>(Settings(settings, overrides, kInternVlSettings), patches);
}

}  // namespace plimsoll::image::processors
