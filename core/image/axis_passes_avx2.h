#pragma once

#include "image/axis_passes.h"

namespace plimsoll::image {

/// Loops with AVX2, for weights that fit in 16 bits (torchvision's). Null where the processor has
/// no AVX2.
const AxisPasses* avx2_passes();

}  // namespace plimsoll::image
