// Quantized weights of random codes, for benchmarks.
#pragma once

#include <memory>

#include "model/packing.h"

namespace plimsoll::backend {

/// Rows of codes that the seed gives; weights are about `scale` at most.
std::unique_ptr<model::PackedRows> random_rows(const model::Packing& packing, int64_t columns,
                                               uint64_t seed, float scale);

}  // namespace plimsoll::backend
