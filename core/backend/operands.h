// Operands of ops: matrices, weights, caches, states, and groups of operands that belong together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/dtype.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// A matrix in memory that somebody else owns: [rows, columns], `stride` elements from row to row.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;

  /// Columns [first, first + count) of every row.
  [[nodiscard]] View slice_columns(int64_t first, int64_t count) const;
  [[nodiscard]] View slice_rows(int64_t first, int64_t count) const;
  [[nodiscard]] size_t bytes() const { return rows * stride * dtype_size(dtype); }
};

/// Collectives of ranks that have some of a product's inputs each, or some of a mixture's experts.
/// All make equal calls, with an f32 matrix of one shape without gaps, and each has its result when
/// the call returns.
class InputRanks {
 public:
  [[nodiscard]] virtual int64_t rank() const = 0;
  /// All-reduce: the matrices become their sum.
  virtual void all_reduce_sum(View values) = 0;
  /// All-reduce: the matrices become their maximum, element by element.
  virtual void all_reduce_max(View values) = 0;
  /// All-gather of rows: row t of all ranks becomes the row of rank owners[t].
  virtual void all_gather_rows(View rows, std::span<const int32_t> owners) = 0;

 protected:
  ~InputRanks() = default;
};

/// A weight as the backend stores it (CPU: packed for its kernels).
struct Weight {
  const model::WeightSpec* spec = nullptr;
  DType dtype = DType::f32;
  void* data = nullptr;
  /// The ranks that have the other shares, for a share of the inputs or the experts; null: the
  /// weight is whole. linear() leaves sums to the caller.
  InputRanks* ranks = nullptr;
  explicit operator bool() const { return spec != nullptr; }
  /// First input of a share, among all inputs.
  [[nodiscard]] int64_t first_input() const {
    const bool some = ranks != nullptr && spec->split == model::Split::row;
    return some ? ranks->rank() * spec->columns() : 0;
  }
  /// The row of a token in a table that may be a share. A token that the whole table lacks has
  /// token 0's row; none where another rank has the row.
  [[nodiscard]] std::optional<int64_t> own_row(int64_t token) const {
    const int64_t row = token < all_rows() ? token - first_row() : -first_row();
    if (row < 0 || row >= spec->rows()) return std::nullopt;
    return row;
  }
  /// Rows of all ranks together (all_rows), and the first of this rank among them (first_row).
  [[nodiscard]] int64_t all_rows() const {
    if (ranks == nullptr) return spec->rows();
    // Parts of a quantized weight are a rank's share; the tensor has the rows of all.
    const model::Part& part = spec->parts.front();
    return spec->is_packed() ? part.stored_shape.front() : part.rows();
  }
  [[nodiscard]] int64_t first_row() const {
    return ranks == nullptr ? 0 : ranks->rank() * spec->rows();
  }
  /// True when the weight is a share of the experts.
  [[nodiscard]] bool some_experts() const { return spec->split == model::Split::experts; }
  /// First of this rank's experts, among all experts.
  [[nodiscard]] int64_t first_expert() const {
    return some_experts() && ranks != nullptr ? ranks->rank() * spec->matrices() : 0;
  }
  [[nodiscard]] int64_t end_expert() const { return first_expert() + spec->matrices(); }
};

/// Factors by which keys and values are divided before they are stored in a cache.
struct CacheScales {
  float key = 1, value = 1;
};

/// KV blocks of one layer. Block b's part for this layer lies at pool + b * block_stride +
/// layer_offset and holds `block_size` tokens of K and V; the order inside is up to the backend.
struct KvLayer {
  std::byte* pool = nullptr;
  size_t block_stride = 0;  // bytes
  size_t layer_offset = 0;  // bytes
  DType dtype = DType::bf16;
  int64_t block_size = 16;
  int32_t group = 0;   // index of the block table
  int64_t blocks = 0;  // of the pool; 0: known by the engine's tables alone

  /// The checkpoint's scales, which are for float8 caches.
  [[nodiscard]] CacheScales scales(const model::AttentionSpec& spec) const {
    if (dtype != DType::f8_e4m3) return {};
    return {spec.key_scale, spec.value_scale};
  }
};

/// States of one layer's recurrent mixer: the state of slot s lies at pool + s * slot_stride +
/// offset.
struct StateLayer {
  std::byte* pool = nullptr;
  size_t slot_stride = 0;  // bytes
  size_t offset = 0;       // bytes

  [[nodiscard]] float* of(int32_t slot) const {
    return reinterpret_cast<float*>(pool + slot * slot_stride + offset);
  }
};

/// Weights of an attention's norms; empty where it has none.
struct HeadNorms {
  Weight q{}, q_bias{}, k{}, k_bias{};
};

/// Columns of each head that are copied: from + i to + i, i below `width`, in heads that are
/// `from_stride` and `to_stride` columns wide. A stride of 0 is one set of columns for all.
struct HeadColumns {
  int64_t heads = 1;
  int64_t width = 0;
  int64_t from = 0, from_stride = 0;
  int64_t to = 0, to_stride = 0;
};

/// Inputs of attention beside q and the cache; empty where it has none.
struct ScoreTerms {
  Weight sinks{};   // [heads]
  Weight slopes{};  // [heads], of model::Alibi
  View chosen{};    // of ops::ChooseKeys
};

/// Inputs of an indexer for T tokens.
struct IndexInputs {
  View q;        // [T, heads * head_dim], rotated
  View weights;  // [T, heads]
};

/// Inputs of a selective scan for T tokens; its output is as wide as x.
struct ScanInputs {
  View x;     // [T, heads * head_dim]
  View step;  // [T, heads], before bias and softplus; empty: all are 1
  View b, c;  // [T, groups * state]
};
struct ScanWeights {
  Weight decay{};      // [heads] or [heads, state], below 0
  Weight skip{};       // [heads] or, without steps, empty
  Weight step_bias{};  // [heads] or empty
};

/// Inputs of the gated delta rule for T tokens.
struct DeltaInputs {
  View q, k;  // [T, groups * state]
  View v;     // [T, heads * head_dim]
  View beta;  // [T, heads], before sigmoid
  View step;  // [T, heads] or [T, heads * state], before bias and softplus
};
struct DeltaWeights {
  Weight decay_log{};  // [heads]
  Weight step_bias{};  // as long as a row of steps, or empty
};

/// Inputs of a gated linear recurrence (RG-LRU) for T tokens.
struct LruInputs {
  View x;      // [T, heads * head_dim]
  View gates;  // [T, heads * 2 * head_dim], before sigmoid: a head's of x, then of its decay
};

/// Use of a product's sums: they are stored as output, are added to it, or are gates and ups whose
/// gated activation is stored.
enum class ProductEnd : uint8_t { stored, added, gated };

/// Routing of tokens to experts.
struct Routing {
  View experts;  // [T, k] i32
  View weights;  // [T, k] f32
};

/// Matrices of experts, and biases [experts, n], which may be empty.
struct ExpertWeights {
  Weight up, down;
  Weight up_bias{}, down_bias{};
};

}  // namespace plimsoll::backend
