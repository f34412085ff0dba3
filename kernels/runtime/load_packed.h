// Loads quantized weights to the device.
#pragma once

#include "kernels/runtime/loader.h"

namespace plimsoll::kernels {

/// Loads the parts of a quantized weight in the layout of backend/cuda/packed_layout.h, strip by
/// strip through the loader's ring; its plain parts row by row. `sliced`: each slice of its inputs
/// by itself (backend/cuda/slices.h).
void load_packed(Loader& loader, const backend::Weight& weight, const backend::RowReader& read,
                 bool sliced);

}  // namespace plimsoll::kernels
