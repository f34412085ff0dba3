// The slow honest twin of core/image's resizing: one value after the other, from the definition.
#pragma once

#include "image/resample.h"

namespace plimsoll::testing {

/// Both passes over every pixel, with weights computed anew for each.
image::Image resize_plainly(const image::Image& image, image::Size to,
                            image::Resampling resampling);

}  // namespace plimsoll::testing
