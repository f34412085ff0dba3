#include "kernels/attention/xqa_attention.h"

namespace plimsoll::kernels {
namespace {

size_t row_bytes(const model::AttentionSpec& spec, DType kv) {
  return static_cast<size_t>(spec.head_dim) * dtype_size(kv);
}

}  // namespace

const XqaUnit* find_xqa_unit(int64_t head_dim, DType activation, DType kv) {
  for (const XqaUnit& unit : xqa_units()) {
    if (unit.head_dim == head_dim && unit.activation == activation && unit.kv == kv) return &unit;
  }
  return nullptr;
}

bool xqa_covers(const PagedLayer& layer, const model::AttentionSpec& spec, DType kv) {
  return layer.block_size == kXqaPage && layer.block_stride % row_bytes(spec, kv) == 0 &&
         layer.q_stride == (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
}

void xqa_attention(const PagedLayer& layer, const XqaCall& call, const model::AttentionSpec& spec,
                   cudaStream_t stream) {
  const size_t row = row_bytes(spec, call.unit->kv);
  call.unit->launch({.q = layer.q,
                     .out = layer.out,
                     .k = layer.kv,
                     .v = layer.kv + static_cast<size_t>(spec.kv_heads * layer.block_size) * row,
                     .block_stride = static_cast<int64_t>(layer.block_stride / row),
                     .block_table = layer.block_table,
                     .context_length = layer.context_length,
                     .table_stride = call.table_stride,
                     .sequences = call.sequences,
                     .heads = spec.heads,
                     .kv_heads = spec.kv_heads,
                     .parts = call.parts,
                     .scale = spec.scale,
                     .k_scale = call.k_scale,
                     .v_scale = call.v_scale,
                     .counters = call.counters,
                     .scratch = call.scratch},
                    stream);
}

}  // namespace plimsoll::kernels
