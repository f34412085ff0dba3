// Kernels of the CPU backend: one table of functions for each instruction set, compiled from the
// same sources. They work on one thread and know nothing of batches; every row's result depends on
// that row alone, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/cpu_backend.h"
#include "base/dtype.h"
#include "model/model_spec.h"

namespace plimsoll::backend {

/// Upper bound of Kernels::product_rows.
inline constexpr int kMaxProductRows = 16;

inline constexpr int kPrefetchSteps = 4;
/// Strips of a quantized matrix that a single row is multiplied with at a time.
inline constexpr int kPackedStrips = 2;

/// A tile of rows times some strips of a packed weight (layout.h): c [rows, strips * 32].
struct ProductTile {
  const void* a = nullptr;  // from Kernels::pack_rows, at `k_begin`
  int rows = 0;             // at most Kernels::product_rows
  const std::byte* weight = nullptr;
  size_t strip_bytes = 0;
  int64_t k_begin = 0;  // both even, or k_end is the padded number of columns
  int64_t k_end = 0;
  int strips = 0;
  float* c = nullptr;  // [rows, strips * 32]
  int64_t c_stride = 0;
  bool continues = false;  // c holds the sums so far
  /// Memory to fetch meanwhile for the first strip (the other strips' lies strip_bytes apart):
  /// `prefetch_lines` cache lines every kPrefetchSteps steps.
  const std::byte* prefetch = nullptr;
  int prefetch_lines = 0;
};

/// A tile of rows times strips of a quantized matrix (packed_layout.h): c [rows, strips * 32].
struct PackedTile {
  const model::Packing* packing = nullptr;
  const float* a = nullptr;  // [columns][rows], from Kernels::pack_rows
  int rows = 0;              // at most Kernels::product_rows
  int strips = 0;
  const std::byte* codes = nullptr;  // of the first strip; the next one's lie strip_codes bytes on
  size_t strip_codes = 0;
  const std::byte* scales = nullptr;  // [groups][32]
  size_t strip_scales = 0;
  model::ScaleType scale = model::ScaleType::f32;
  const float* minimums = nullptr;  // [groups][32], strip_scales apart; null: none
  const float* row_sums = nullptr;  // [groups][rows], of the rows' numbers; only with minimums
  /// Codes are floats [columns][32] less their zero points, from Kernels::unpack_codes.
  bool unpacked = false;
  const uint8_t* zeros = nullptr;  // [groups][32]
  size_t strip_zeros = 0;
  const float* factors = nullptr;  // [strips][32]
  const int32_t* order = nullptr;  // [columns]: the group of each
  const float* table = nullptr;    // [16], of Code::table and of 4 bits without zero points
  int64_t columns = 0;
  int64_t lead = 0;  // inputs of the first group that lie before the first column
  float* c = nullptr;
  int64_t c_stride = 0;
  int64_t ahead = 0;  // of a single row: bytes, codes that lie so far behind are asked for; 0: none
};

/// Some columns of a product, finished in place: c = activation(c + bias).
struct Epilogue {
  const float* bias = nullptr;  // of the first column; may be null
  model::Activation activation = model::Activation::none;
};

/// activation(gate) * (up + up_offset), of a gate and an up within the limits.
struct Gating {
  model::Activation activation = model::Activation::silu;
  model::GateLimits limits{};
  float up_offset = 0;
};

/// rows [count] of `width` floats, each normalised by itself. `weight` and `bias` may be null.
struct NormRow {
  const float* in = nullptr;
  float* out = nullptr;
  int64_t width = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;
  model::NormKind kind = model::NormKind::rms;
  float epsilon = 0;
  float weight_offset = 0;
};

/// xIELU with its parameters worked out: x > 0: positive x^2 + beta x, else negative (expm1(min(x,
/// epsilon)) - x) + beta x.
struct Xielu {
  float positive = 0, negative = 0, beta = 0, epsilon = 0;
};

/// A token's step of a selective scan over the channels of one head: h [channels, state] = decay h
/// + size x b, out = h c + skip x.
struct ScanStep {
  float* h = nullptr;
  const float* x = nullptr;  // [channels]
  const float* b = nullptr;  // [state]
  const float* c = nullptr;
  float* out = nullptr;  // [channels]
  int64_t channels = 0;
  int64_t state = 0;
  float size = 0;
  float decay = 0;
  const float* rates = nullptr;  // [state]: each decay is exp(size * rate); null: one decay for all
  float skip = 0;
};

/// A token's step of the delta rule over one head: s [keys, values] = decay s; s += k (beta (v -
/// s^T k))^T; out = s^T q.
struct DeltaStep {
  float* s = nullptr;
  const float* q = nullptr;  // [keys]
  const float* k = nullptr;
  const float* v = nullptr;  // [values]
  float* out = nullptr;
  int64_t keys = 0;
  int64_t values = 0;
  float beta = 0;
  float decay = 0;
  const float* decays = nullptr;  // [keys]: decay of each row of s in place of `decay`
};

/// A token's step of a gated linear recurrence over some channels: with log a = rates *
/// sigmoid(decay_gates), h = a h + (1 - a^2)^1/2 sigmoid(input_gates) x; at the first token h =
/// sigmoid(input_gates) x; out = h.
struct LruStep {
  float* h = nullptr;
  const float* x = nullptr;
  const float* input_gates = nullptr;
  const float* decay_gates = nullptr;
  const float* rates = nullptr;
  float* out = nullptr;
  int64_t channels = 0;
  bool starts = false;
};

/// Query rows of one sequence that share a KV head, over that sequence's cache. Row i belongs to
/// position first_position + i / heads and to query head i % heads of the group.
struct AttentionTile {
  const float* q = nullptr;  // of the first row: [positions, q_stride], `heads` heads side by side
  int64_t q_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t first_position = 0;
  int positions = 0;
  int heads = 0;
  int64_t head_dim = 0;
  float scale = 0;
  float soft_cap = 0;
  int64_t window = 0;
  model::WindowKind window_kind = model::WindowKind::sliding;
  const float* slopes = nullptr;  // of the tile's heads: model::Alibi; null: none
  model::Alibi alibi{};
  const float* sinks = nullptr;       // of the tile's heads; null: none
  const int32_t* seen_end = nullptr;  // [positions] behind the last that each sees; null: itself
  /// [positions, chosen_stride] the `most_chosen` keys of each position that could see more; null:
  /// all are seen.
  const int32_t* chosen = nullptr;
  int64_t chosen_stride = 0;
  int64_t most_chosen = 0;
  const std::byte* pool = nullptr;  // block 0's part for this layer
  size_t block_stride = 0;
  const int32_t* blocks = nullptr;  // the sequence's block table
  int64_t block_size = 0;
  size_t key_offset = 0;    // of the KV head's K in a block
  size_t value_offset = 0;  // of the KV head's V in a block
  DType dtype = DType::bf16;
  float* scratch = nullptr;  // attention_scratch() floats
};

/// Most rows of an attention tile.
inline constexpr int kAttentionRows = 64;
/// Tokens between two updates of the running maximum: four tiles.
inline constexpr int64_t kAttentionGroup = 64;
/// Floats that AttentionTile::scratch needs: packed q, sums, scores, maximum and sum of each row,
/// keys and values of a group.
constexpr int64_t attention_scratch(int64_t head_dim) {
  const int64_t width = (head_dim + 15) / 16 * 16;
  return kAttentionRows * (2 * width + kAttentionGroup + 2 + 16) + kAttentionGroup * 2 * width;
}

/// Scores of the keys [begin, end) for one query row: sum over heads of weight * max(q.k, 0).
struct IndexTile {
  AttentionTile query;             // one position, its scale included; no values
  const float* weights = nullptr;  // [heads]
  int64_t begin = 0;
  int64_t end = 0;
  float* scores = nullptr;  // of key 0; scores are added to it
};

/// Scales of some groups of a strip that are codes of 256 numbers, with the largest scale of each
/// output: [groups][32] = numbers[codes[g, o]] * most[o] + offset.
struct ScaleCodes {
  const float* numbers = nullptr;  // [256]
  const uint8_t* codes = nullptr;  // [groups][32]
  const float* most = nullptr;     // [32]
  float offset = 0;
  int64_t groups = 0;
};

/// Scales and minimums of a strip of ggml's blocks (packed_layout.h), as floats [groups][32].
struct BlockScales {
  GgmlType type = GgmlType::q4_0;
  const std::byte* from = nullptr;
  int64_t blocks = 0;
  const float* factors = nullptr;  // [32], of each output; null: none
  float* scales = nullptr;
  float* minimums = nullptr;  // null where the type has none
};

struct Kernels {
  int product_rows;  // rows of a product tile at most
  int strip_rows;    // rows that read a strip in the order of memory; more read it in two halves
  /// Bytes that one element of a packed row takes for weights of this type.
  size_t (*packed_element)(DType weight);
  /// Packs rows of `k` floats for products with weights of type `weight`: [padded k / step][rows]
  /// [step].
  void (*pack_rows)(const float* const* in, int rows, int64_t k, DType weight, void* out);
  void (*product)(const ProductTile& tile, DType weight);
  void (*packed)(const PackedTile& tile);
  /// Unpacks the codes of a tile's first strip to floats [columns][32], less their zero points.
  void (*unpack_codes)(const PackedTile& tile, float* to);
  void (*decode_scales)(const ScaleCodes& from, float* to);
  void (*decode_block_scales)(const BlockScales& strip);
  void (*finish)(float* c, int64_t columns, const Epilogue& epilogue);
  void (*norm)(const NormRow& row);
  void (*add)(float* to, const float* from, int64_t count);
  /// to += weight * from.
  void (*add_scaled)(float* to, const float* from, float weight, int64_t count);
  void (*scale)(float* row, float factor, int64_t count);
  void (*gate)(float* out, const float* gate, const float* up, int64_t count, const Gating& gating);
  void (*soft_cap)(float* row, int64_t count, float cap);
  void (*clamp)(float* row, int64_t count, float limit);
  void (*xielu)(float* row, int64_t count, const Xielu& xielu);
  /// row [count] *= kind(gates [gate_count]), each for count / gate_count columns.
  void (*multiply_gates)(float* row, const float* gates, int64_t count, int64_t gate_count,
                         model::GateKind kind);
  /// Convert between floats and bf16 or f16 (nearest even), or copy floats.
  void (*narrow)(const float* from, void* to, DType type, int64_t count);
  void (*widen)(const void* from, DType type, float* to, int64_t count);
  /// Rotates a head in place; angles: cos [dim / 2], sin [dim / 2].
  void (*rotate)(float* head, const float* angles, int64_t rotary_dim, model::RopePairs pairs);
  /// row = max(row - mean - deviations * deviation, 0).
  void (*keep_above)(float* row, float deviations, int64_t count);
  /// Softmax in place.
  void (*softmax)(float* row, int64_t count);
  void (*attention)(const AttentionTile& tile);
  void (*score_keys)(const IndexTile& tile);
  /// to += a * b, element by element.
  void (*add_product)(float* to, const float* a, const float* b, int64_t count);
  float (*dot)(const float* a, const float* b, int64_t count);
  void (*scan_step)(const ScanStep& step);
  void (*delta_step)(const DeltaStep& step);
  void (*lru_step)(const LruStep& step);
};

/// The table of an instruction set that this processor has.
const Kernels& kernels_for(CpuIsa isa);

extern const Kernels kPortableKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;
#endif

}  // namespace plimsoll::backend
