// Ops that take rows one by one: tables, norms, sums, scales.
#pragma once

#include <cstdint>

#include "backend/batch_meta.h"
#include "backend/operands.h"
#include "backend/ops/op.h"

namespace plimsoll::backend::ops {

/// out[t] = table[batch.token_ids[t]] * scale. An id past the table takes row 0, as Gemma 3n's
/// inputs by layer do. Where ranks share the table (Weight::ranks), tokens of other ranks give -0,
/// so that the sum over all ranks equals one rank's result to the bit.
struct Embed {
  static constexpr const char* kName = "embed";
  View out;
  Weight table;
  Ref<BatchMeta> batch;
  float scale = 1;
  void check() const;
};

/// out[t] += table[batch.positions[t] + offset].
struct EmbedPositions {
  static constexpr const char* kName = "embed_positions";
  View out;
  Weight table;
  Ref<BatchMeta> batch;
  int64_t offset = 0;
  void check() const;
};

/// out[batch.embedded_rows[i]] = batch.embeddings[batch.embedding_rows[i]]. Only where
/// Footprint::sees_images.
struct PlaceEmbeddings {
  static constexpr const char* kName = "place_embeddings";
  View out;
  Ref<BatchMeta> batch;
  void check() const;
};

/// out[i] = in[batch.logits_rows[i]].
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  View out, in;
  Ref<BatchMeta> batch;
  void check() const;
};

/// out = norm(in) * (weight + offset) + bias; in place allowed. Weight and bias may be empty. A
/// weight of several times a row's width is a matrix of w rows, and row t takes weight row t mod w.
struct Norm {
  static constexpr const char* kName = "norm";
  View out, in;
  model::Norm spec;
  Weight weight{}, bias{};
  void check() const;
};

/// residual += delta.
struct Add {
  static constexpr const char* kName = "add";
  View residual, delta;
  void check() const;
  [[nodiscard]] View written() const { return residual; }
};

/// residual += delta; out = norm(residual), which may be in place of delta.
struct AddNorm {
  static constexpr const char* kName = "add_norm";
  View out, residual, delta;
  model::Norm spec;
  Weight weight{}, bias{};
  void check() const;
};

/// out's columns = in's, or zeros where `in` has no rows; other columns of out are unchanged.
struct CopyHeads {
  static constexpr const char* kName = "copy_heads";
  View out, in;
  HeadColumns columns;
  void check() const;
  [[nodiscard]] View written() const { return columns.width > 0 ? out : View{}; }
};

/// out [T, n] = mean of the k parts of in [T, k n]. Only where Footprint::sees_images.
struct AverageParts {
  static constexpr const char* kName = "average_parts";
  View out, in;
  void check() const;
};

/// x [T, n] *= weight [n] (of any shape with n elements), in place. Only where
/// Footprint::sees_images.
struct ScaleColumns {
  static constexpr const char* kName = "scale_columns";
  View x;
  Weight weight;
  void check() const;
};

/// x = cap * tanh(x / cap), in place.
struct SoftCap {
  static constexpr const char* kName = "soft_cap";
  View x;
  float cap;
};

/// x [T, n] *= factors, in place: x[t, i] by factors[indices[t, i]] (i32), or all of x by the one
/// factor where `indices` is empty.
struct MultiplyFactors {
  static constexpr const char* kName = "multiply_factors";
  View x;
  Weight factors;
  View indices{};
  void check() const;
};

/// x *= factor, in place.
struct Scale {
  static constexpr const char* kName = "scale";
  View x;
  float factor;
};

/// x *= like's root mean square / x's own, row by row; x's own mean square counts as at least 1e-5.
struct MatchSize {
  static constexpr const char* kName = "match_size";
  View x, like;
  void check() const;
};

/// x = max(x - mean - deviations * deviation, 0), with each row's mean and deviation.
struct KeepAbove {
  static constexpr const char* kName = "keep_above";
  View x;
  float deviations;
};

}  // namespace plimsoll::backend::ops
