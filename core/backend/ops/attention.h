// Attention and the ops that prepare it.
#pragma once

#include <cstddef>

#include "backend/batch_meta.h"
#include "backend/footprint.h"
#include "backend/operands.h"
#include "backend/ops/op.h"

namespace plimsoll::backend::ops {

/// out [T, rotary_dim] f32: cos in the first half of a row, sin in the second.
struct RopeAngles {
  static constexpr const char* kName = "rope_angles";
  View out;
  Ref<model::RopeSpec> rope;
  Ref<BatchMeta> batch;
  void check() const;
};

/// qkv [T, (H + 2K) d], in place: clamp, norms and rotation of q and k heads in the spec's order,
/// growth of q by position; then k and v of each row into its cache slot. `angles` has no rows when
/// the layer has no RoPE. v in qkv is not kept.
struct RopeAndStore {
  static constexpr const char* kName = "rope_and_store";
  View qkv, angles;
  Ref<model::AttentionSpec> spec;
  HeadNorms norms;
  KvLayer cache;
  Ref<BatchMeta> batch;
  void check() const;
  [[nodiscard]] View written() const { return qkv; }
};

/// chosen [T, n] i32: the positions of the n keys with the best scores among those that a row sees,
/// ascending; of equal scores the first. The score of a key is the sum over heads of weight *
/// max(q.k * scale, 0). Rows that see no more than n keys are left unchanged. `spec` is
/// AttentionSpec::index_heads(), `keys` the cache that RopeAndStore fills for it.
struct ChooseKeys {
  static constexpr const char* kName = "choose_keys";
  View chosen;
  IndexInputs in;
  Ref<model::AttentionSpec> spec;
  KvLayer keys;
  Ref<BatchMeta> batch;
  void check() const;
  [[nodiscard]] size_t workspace(const Footprint& footprint) const;
  [[nodiscard]] View written() const { return chosen; }
};

/// out [T, H d] = causal attention of the q columns of qkv over the cache; over the chosen keys
/// alone where there is a choice.
struct Attention {
  static constexpr const char* kName = "attention";
  View out, qkv;
  Ref<model::AttentionSpec> spec;
  ScoreTerms terms;
  KvLayer cache;
  Ref<BatchMeta> batch;
  void check() const;
  [[nodiscard]] size_t workspace(const Footprint& footprint) const;
};

}  // namespace plimsoll::backend::ops
