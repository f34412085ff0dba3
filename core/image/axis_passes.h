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
  /// Both fill `out`, [rows of `in`, outputs, 3] and [outputs, columns of `in`, 3]: each row's
  /// pixels by `axis`, each column's.
  void (*across)(const Rows& in, const AxisWeights& axis, uint8_t* out);
  void (*down)(const Rows& in, const AxisWeights& axis, uint8_t* out);
  void (*split)(const uint8_t* rgb, int64_t pixels, const Planes& planes);
};

/// Those of this machine, the fastest first. The last one takes any weights.
std::span<const AxisPasses> axis_passes();

}  // namespace plimsoll::image
