#include "kernels/attention/hopper_attention.h"

#include <stdexcept>

namespace plimsoll::kernels {

const HopperUnit* find_hopper_unit(int64_t head_dim, DType type) {
  for (const HopperUnit& unit : hopper_units()) {
    if (unit.head_dim == head_dim && unit.type == type) return &unit;
  }
  return nullptr;
}

void hopper_attention(const PagedLayer& layer, const HopperCall& call,
                      const model::AttentionSpec& spec, cudaStream_t stream) {
  const int64_t blocks = layer.plan->hopper_blocks();
  if (blocks == 0) return;
  if (call.unit == nullptr)
    throw std::logic_error("attention: works for Hopper without their kernels");
  const size_t element = dtype_size(call.unit->type);
  const int64_t keys = spec.kv_heads * layer.block_size * spec.head_dim;
  HopperWorks works = layer.plan->hopper_works(layer.slab);
  works.query_start = layer.query_start;
  works.context_length = layer.context_length;
  works.table_stride = static_cast<int32_t>(call.table_stride);
  call.unit->launch({.q = layer.q,
                     .q_stride = layer.q_stride,
                     .rows = call.rows,
                     .out = layer.out,
                     .k = layer.kv,
                     .v = layer.kv + static_cast<size_t>(keys) * element,
                     .block_stride = static_cast<int64_t>(layer.block_stride / element),
                     .block_size = layer.block_size,
                     .block_table = layer.block_table,
                     .heads = spec.heads,
                     .kv_heads = spec.kv_heads,
                     .window_left = spec.window - 1,
                     .scale = spec.scale,
                     .works = works},
                    blocks, stream);
}

}  // namespace plimsoll::kernels
