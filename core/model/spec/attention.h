// Norms, RoPE, ALiBi and attention of one layer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/spec/weight.h"

namespace plimsoll::model {

enum class NormKind : uint8_t { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  float epsilon = 1e-5f;
  float weight_offset = 0;      // 1 for Gemma: y * (1 + w)
  WeightId weight = kNoWeight;  // no weight: no affine part
  WeightId bias = kNoWeight;
  bool present = false;  // absent norms are skipped

  bool operator==(const Norm&) const = default;
};

enum class Activation : uint8_t { none, silu, gelu, gelu_tanh, relu, gelu_quick, relu_squared };

/// Rotation speeds of one RoPE table. Angles are position * inverse_frequencies[i] in float32, cos
/// and sin times scale.
struct RopeTable {
  std::vector<float> inverse_frequencies;  // [rotary_dim / 2]
  float scale = 1;                         // yarn and longrope: attention factor
};

/// Rows of cosines and sines in vLLM's rotary embedding; layers with equal rows share one table.
struct RotaryRows {
  int64_t positions = 0;
  double theta = 0;
  std::string kind;
  bool in_sections = false;  // for time, height and width: vLLM makes more rows, for videos
  bool operator==(const RotaryRows&) const = default;
};

/// One RoPE of a model. longrope holds two tables: a request whose prompt + max_tokens exceed
/// original_max_position uses `long_table` for all its tokens.
struct RopeSpec {
  int64_t rotary_dim = 0;  // leading part of the head that is rotated
  RopeTable table;
  std::optional<RopeTable> long_table;
  int64_t original_max_position = 0;
  /// Speeds of each kind of position (Qwen2-VL: times, rows, columns), rotary_dim / 2 in all;
  /// empty: there is one kind.
  std::vector<int64_t> sections = {};
  RotaryRows vllm = {};
};

/// Elements of a rotated part of size r that RoPE turns together.
enum class RopePairs : uint8_t {
  halves,      // i and i + r / 2
  neighbours,  // 2i and 2i + 1 ("interleaved")
};

/// Elements that a norm of q or k takes its mean over.
enum class NormSpan : uint8_t { each_head, all_heads };
enum class NormOrder : uint8_t { before_rope, after_rope };

/// Positions that a layer with a window of w sees, up to its own p.
enum class WindowKind : uint8_t {
  sliding,  // from p - w + 1 on
  chunk,    // from p / w * w on (Llama 4)
};

/// Growth of q with position p, after RoPE: q * (1 + beta * ln(1 + floor((p + shift) / period))).
/// Llama 4, Ministral 3.
struct QueryGrowth {
  float beta = 0;  // 0: none
  int64_t period = 1;
  int64_t shift = 0;
  bool operator==(const QueryGrowth&) const = default;
};

/// Press et al. 2022, "ALiBi": what is added to the score of head h at key position k for a query
/// at p. As logits differ by a row's constant only, `distance` may take the smaller numbers.
struct Alibi {
  WeightId slopes = kNoWeight;  // [heads] f32
  float factor = 1;
  enum class Of : uint8_t {
    distance,       // factor * slope * (k - p)
    root,           // -factor * slope * sqrt(p - k): Step 1
    position_bf16,  // factor * bf16(slope * k): Falcon's reference rounds
  } of = Of::distance;

  bool operator==(const Alibi&) const = default;
};

/// Function of a gate before it multiplies the output of attention or of a recurrent mixer.
enum class GateKind : uint8_t { sigmoid, softplus, silu, as_is };

/// Latent attention (DeepSeek-AI 2024, "DeepSeek-V2"): k and v of all heads come from one latent, q
/// may come from another, and all heads share k's rotated part. Attention itself has heads of
/// [rotated | not rotated] for q and k.
struct LatentSpec {
  int64_t kv_rank = 0;  // 0: attention is not latent
  int64_t q_rank = 0;   // 0: q comes from the input
  int64_t rotated = 0;  // rotated elements of a head of q and k
  int64_t unrotated = 0;
  bool bias = false;  // of q_down, kv_down and the attention's out; vLLM's classes have none
  Linear q_down{};    // [q_rank, hidden], where it is not in kv_down
  Linear kv_down{};   // [(q_rank +) kv_rank + rotated, hidden]
  Norm q_norm{}, kv_norm{};
  Linear q_up{};   // [heads * (unrotated + rotated), q_rank or hidden]
  Linear kv_up{};  // [heads * (unrotated + value_dim), kv_rank]

  bool operator==(const LatentSpec&) const = default;
};

/// The indexer, which chooses the keys that each row of a latent attention sees (DeepSeek-AI 2025,
/// "DeepSeek-V3.2"): the keys of the best scores. A key's score is the sum over heads of weight *
/// max(q.k, 0), with q from q's latent, one k for all heads, and weights from the input.
struct IndexerSpec {
  int64_t most = 0;   // keys that a row sees; 0: all
  int64_t heads = 0;  // 0: the layer uses the choice of a layer before it
  int64_t head_dim = 0;
  RopePairs rope_pairs = RopePairs::halves;  // in the leading part of q and k
  int64_t pool = 1;  // tokens that one stored key stands for (above 1 for plans alone)
  int64_t ring = 0;  // elements that are kept of a token until its pool is full
  Linear q_up{};     // [heads * head_dim, q_rank]
  Linear down{};     // [head_dim + heads, hidden]: k, weights
  Norm k_norm{};     // [head_dim], before RoPE

  [[nodiscard]] bool chooses() const { return heads > 0; }

  bool operator==(const IndexerSpec&) const = default;
};

/// The compression whose entries overlap, and are chosen by an indexer (DeepSeek-V4).
inline constexpr int64_t kOverlapped = 4;

struct AttentionSpec {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  /// Query heads that share a KV head in the whole model, where a rank has fewer of them; 0: the
  /// rank has all.
  int64_t whole_group = 0;
  bool has_values = true;  // an indexer's cache holds keys alone
  int64_t value_dim = 0;   // size of v's heads where it is below head_dim; zeros fill up the cache
  float value_factor = 1;  // of v
  LatentSpec latent{};
  IndexerSpec indexer{};
  float scale = 0;  // of q.k
  /// Factors by which float8 caches divide keys and values; 0: the checkpoint has none that such a
  /// cache can use.
  float key_scale = 1, value_scale = 1;
  float soft_cap = 0;  // 0: none; else cap * tanh(score / cap)
  int64_t window = 0;  // 0: sees all positions; else the last `window`, its own included
  WindowKind window_kind = WindowKind::sliding;
  int32_t rope = -1;  // index into ModelSpec::ropes; -1: none
  RopePairs rope_pairs = RopePairs::halves;
  float clamp = 0;  // 0: none; else q, k and v are cut to +-clamp, before all else
  /// Norms of q and k; weights (and biases) are [head_dim], common to all heads, or [heads *
  /// head_dim].
  Norm q_norm{}, k_norm{};
  Norm v_norm{};  // over each head, without weight (Gemma 3n)
  NormSpan norm_span = NormSpan::each_head;
  NormOrder norm_order = NormOrder::before_rope;
  QueryGrowth query_growth{};
  Alibi alibi{};
  WeightId sinks = kNoWeight;  // [heads]: one more logit in each softmax, without a value
  Linear qkv{};                // [(heads + 2 kv_heads) * head_dim, hidden]: q, k, v
  Adapter q_adapter{}, k_adapter{}, v_adapter{};
  /// The layer whose keys and values this one reads, with `qkv` q alone; -1: its own.
  int32_t keys_of = -1;
  /// Tokens before the window that one stored entry stands for (DeepSeek-V4, for plans alone); 1:
  /// the window is all; 0: attention of another kind.
  int64_t compression = 0;
  bool gates_in_qkv = false;  // `qkv` has the rows of `gate` before q (Qwen3-Next)
  float in_factor = 1, key_factor = 1, out_factor = 1;  // Falcon-H1
  /// Gate of the output, from the layer's normed input: [heads * head_dim, hidden], or [heads,
  /// hidden] for one number a head. Multiplies the output before `out`.
  Linear gate{};
  GateKind gate_kind = GateKind::sigmoid;
  Linear out{};  // [hidden, heads * head_dim]
  /// The weight after which vLLM's attention has its own parameters; kNoWeight: after `out`.
  WeightId scales_after = kNoWeight;
  bool lists_scales = false;  // these parameters are weights of the table
  /// The weight before which they stand, where vLLM's attention is the layer's module itself.
  WeightId scales_before = kNoWeight;

  /// Query heads that share a KV head in the whole model.
  [[nodiscard]] int64_t group() const {
    return whole_group > 0 ? whole_group : heads / std::max<int64_t>(1, kv_heads);
  }
  /// Heads that the cache stores of each token, keys' and values'.
  [[nodiscard]] int64_t stored_heads() const { return (has_values ? 2 : 1) * kv_heads; }
  /// The indexer's heads as an attention without values.
  [[nodiscard]] AttentionSpec index_heads() const {
    AttentionSpec index{.heads = indexer.heads, .kv_heads = 1, .head_dim = indexer.head_dim};
    index.has_values = false;
    index.scale = static_cast<float>(
        1 / std::sqrt(static_cast<double>(indexer.head_dim) * static_cast<double>(indexer.heads)));
    index.rope = rope;
    index.rope_pairs = indexer.rope_pairs;
    index.k_norm = indexer.k_norm;
    return index;
  }

  bool operator==(const AttentionSpec&) const = default;
};

}  // namespace plimsoll::model
