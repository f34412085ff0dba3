// Prefill on Hopper: the kernels for a layer, and the launch.
#pragma once

#include <cstdint>

#include "kernels/attention/flash_attention.h"
#include "kernels/attention/hopper_kernel.h"

namespace plimsoll::kernels {

/// The kernels for a size of heads and a type of activations and cache, or null.
const HopperUnit* find_hopper_unit(int64_t head_dim, DType type);

/// Arguments of the kernels for Hopper beside the layer.
struct HopperCall {
  const HopperUnit* unit = nullptr;
  int64_t rows = 0;  // T
  int64_t table_stride = 0;
};

/// Enqueues the launch, if the step has works for it.
void hopper_attention(const PagedLayer& layer, const HopperCall& call,
                      const model::AttentionSpec& spec, cudaStream_t stream);

}  // namespace plimsoll::kernels
