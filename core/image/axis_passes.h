// The loops of resizing, for what a machine can do; all give the same bits.
#pragma once

#include <span>

#include "image/resample.h"

namespace plimsoll::image {

/// Where the three channels of a row go: [pixels] each.
using Planes = std::array<uint8_t*, 3>;

struct AxisPasses {
  const char* name;
  bool (*takes)(const AxisWeights& axis);
  /// Both fill `out`, which has its size, from `in`: each row's pixels by `axis`, each column's.
  void (*across)(const Image& in, const AxisWeights& axis, Image& out);
  void (*down)(const Image& in, const AxisWeights& axis, Image& out);
  void (*split)(const uint8_t* rgb, int64_t pixels, const Planes& planes);
};

/// Those of this machine, the fastest first. The last one takes any weights.
std::span<const AxisPasses> axis_passes();

}  // namespace plimsoll::image
