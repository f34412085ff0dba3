// The loops of resizing, for the instruction sets of the machine; all give equal bits.
#pragma once

#include <span>

#include "image/resample.h"

namespace plimsoll::image {

/// Destinations of the three channels of a row: [pixels] each.
using Planes = std::array<uint8_t*, 3>;

struct AxisPasses {
  const char* name;
  bool (*takes)(const AxisWeights& axis);
  /// Resample the pixels of each row (across) or column (down) by `axis`. `out`: [rows of `in`,
  /// outputs, 3] or [outputs, columns of `in`, 3].
  void (*across)(const Rows& in, const AxisWeights& axis, uint8_t* out);
  void (*down)(const Rows& in, const AxisWeights& axis, uint8_t* out);
  void (*split)(const uint8_t* rgb, int64_t pixels, const Planes& planes);
};

/// The loops that this machine can run, the fastest first. The last one takes any weights.
std::span<const AxisPasses> axis_passes();

}  // namespace plimsoll::image
