// Parameters of rope_and_store for heads, by value, for its kernels.
#pragma once

#include "kernels/rows/rope.h"

namespace plimsoll::kernels {

/// A norm of heads and its parameters.
struct HeadNorm {
  model::Norm norm;
  HeadVector weight;
  HeadVector bias;
};

/// Changes to heads, by value.
struct HeadShape {
  int heads;
  int all;  // heads, those that are stored included
  float clamp;
  model::NormOrder order;
  model::RopePairs pairs;
  model::QueryGrowth growth;
  float stored_key, stored_value;  // factors on their way to the cache
  HeadNorm q, k, v;
};

inline HeadShape head_shape(const RopeAndStore& op) {
  const model::AttentionSpec& spec = *op.spec;
  const backend::CacheScales scales = op.cache->scales(spec);
  HeadShape shape{.heads = static_cast<int>(spec.heads),
                  .all = static_cast<int>(spec.heads + spec.stored_heads()),
                  .clamp = spec.clamp,
                  .order = spec.norm_order,
                  .pairs = spec.rope_pairs,
                  .growth = spec.query_growth,
                  .stored_key = 1 / scales.key,
                  .stored_value = 1 / scales.value,
                  .q = {spec.q_norm, op.q_norm, op.q_bias},
                  .k = {spec.k_norm, op.k_norm, op.k_bias},
                  .v = {spec.v_norm, {}, {}}};
  if (spec.norm_span == model::NormSpan::all_heads) {  // done by norm_all_heads
    shape.q.norm.present = shape.k.norm.present = false;
  }
  return shape;
}

/// rope_and_store with 16 bytes a lane and heads in registers (rope_wide.cu), for heads that are
/// 128, 256 or 512 bytes wide and rotate in whole pieces; false for other heads.
template <typename T, typename KV>
bool store_wide_heads(const RopeAndStore& op, const DeviceBatch& batch, cudaStream_t stream);

}  // namespace plimsoll::kernels
