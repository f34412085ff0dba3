// A model as the whole program sees it: dimensions, layers, and the weight table that plan sums,
// shard writes to disk and run loads. A family file (families/NAME.cpp) turns a config into one of
// these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "model/packing.h"

namespace plimsoll::model {

// ---- the weight table ----

/// How the engine uses a weight, which decides how a backend stores it.
enum class WeightUse : uint8_t {
  linear,     // [out, in], multiplied with activations
  embedding,  // [rows, hidden], only gathered from; a table that a tied head multiplies with too is
              // `linear`
  vector,     // [n]: norm weight, bias; a tower's parameter of any shape
  experts,    // [experts, out, in]
};

/// How vLLM's layer classes cut a weight over tensor-parallel ranks (spec sharded_state.md, 4.1).
enum class Split : uint8_t {
  replicated,
  column,         // rows of [out, in]; biases too
  merged_column,  // each part's rows by itself (gate, then up)
  qkv,            // q, k, v parts; KV heads replicated when ranks exceed them
  kv,             // rows of KV heads alone, as qkv has k's (MiniMax M2's norm of k)
  row,            // columns of [out, in]
  vocabulary,     // rows padded to a multiple of 64, then cut
};

/// In which order a part has the rows of each of its blocks.
enum class RowOrder : uint8_t {
  stored,
  evens_first,  // the even ones, then the odd ones: neighbouring pairs become halves (Llama 4)
};

/// What a weight's elements are of those in the checkpoint.
enum class Mapping : uint8_t {
  none,
  minus_exp,  // -e^x, rounded once to float32 (Mamba's A of A_log)
};

/// Rows of one checkpoint tensor, seen as [rows, columns] in the engine's orientation ([out, in];
/// 1-D: [n, 1]). The rows are `block_count` blocks of `block_rows`, the first at `first_row`, each
/// `block_stride` after the last. Of a weight with OutputAxis::columns they are its columns.
struct Part {
  std::string tensor;                 // name in the checkpoint
  std::vector<int64_t> stored_shape;  // shape that the checkpoint must have
  bool transposed = false;            // stored [in, out] (GPT-2's Conv1D)
  int64_t first_row = 0;
  int64_t block_rows = 0;
  int64_t block_stride = 0;
  int64_t block_count = 1;
  RowOrder order = RowOrder::stored;
  bool every_rank = false;  // not cut: each rank has all of it (Mamba-2's B and C of one group)
  Mapping mapping = Mapping::none;
  /// What the config already tells of the elements (quantised weights): all of them, or that
  /// element i is i / index_group.
  std::vector<int64_t> values = {};
  int64_t index_group = 0;
  float factor = 1;  // of the values (norms of LongCat's latents)
  /// Of a quantised weight that is run: the tensor's name is then that of the whole weight
  /// ("...q_proj.weight"), which other tensors stand for.
  std::optional<Packing> packing = {};

  [[nodiscard]] int64_t rows() const { return block_rows * block_count; }
  /// Of the tensor's rows, where row `row` of the part is, and how many behind it follow there.
  struct Run {
    int64_t first = 0, rows = 0;
  };
  [[nodiscard]] Run run_at(int64_t row) const;
  [[nodiscard]] bool is_told() const { return !values.empty() || index_group > 0; }
};

/// The axis of a layer's outputs, along which parts are stacked.
enum class OutputAxis : uint8_t {
  rows,     // [out, in]
  columns,  // [in, out]: AWQ's and GPTQ's packed weights, whose columns `column` and its like cut
  none,     // the parts of a matrix are copies of each other, of which a rank holds the last one
            // (GPTQ's g_idx, scales of inputs)
};

/// How vLLM cuts a weight whose checkpoint rows are interleaved (by KV head, say).
enum class InterleavedCut : uint8_t {
  blindly,    // q, k and v as if they lay one after the other (InternLM2)
  untangled,  // the rows put in order first
  in_place,   // as one tensor, cut or not, in the checkpoint's order
};

/// What becomes of a vision tower's attention whose heads the ranks do not divide.
enum class UnevenHeads : uint8_t { refused, replicated };

/// Whether vLLM has a parameter for a weight.
enum class Kept : uint8_t {
  in_model,
  in_checkpoint,  // no: its values are known without it
  in_run,         // no: vLLM computes without it, transformers and `run` with it
  in_vllm,        // yes, and transformers and `run` compute without it
};

/// What becomes of experts whose share on a rank is no multiple of the blocks or groups that have a
/// scale in common.
enum class UnevenBlocks : uint8_t {
  refused,
  refined,  // vLLM repeats the scales for smaller blocks (fp8)
  absent,   // vLLM has other parameters for another kernel then (AWQ and GPTQ),
  needed,   // which are these
};

/// How AWQ's and GPTQ's integers become the bytes of vLLM's moe_wna16 kernel, [outputs, inputs].
enum class Repack : uint8_t {
  none,
  words,      // GPTQ's words as they are, turned
  awq_words,  // AWQ's 8 outputs in a word to 8 inputs in one, lowest bits first
  awq_zeros,  // AWQ's 8 outputs in a word to 2 in a byte
};

/// The blocks of a quantised expert's weights: w13 [2 * intermediate, hidden] and w2 [hidden,
/// intermediate] alike.
struct ExpertBlocks {
  int64_t outputs = 1, inputs = 1;  // weights in a block
  int64_t intermediate = 0, hidden = 0;
  UnevenBlocks uneven = UnevenBlocks::refused;
};

/// One weight of the engine, fused from parts stacked along the outputs, in order.
struct WeightSpec {
  std::string name;  // vLLM's module name: "model.layers.0.self_attn.qkv_proj.weight"
  /// Unsplit, unpadded; experts: [experts, out, in], parts expert by expert.
  std::vector<int64_t> shape = {};
  WeightUse use = WeightUse::linear;
  Split split = Split::replicated;
  std::vector<Part> parts = {};
  OutputAxis outputs = OutputAxis::rows;
  std::optional<DType> dtype = {};  // kept in it, whatever the model's dtype is (quantised weights)
  std::optional<DType> stored_dtype = {};  // the checkpoint's, where it is none that is converted
  int64_t heads = 0;  // of a tower's attention, or where a quantised weight needs them for itself
  int64_t kv_heads = 0;         // 0: as many
  int64_t output_multiple = 1;  // what a rank's outputs and inputs must be multiples of when they
  int64_t input_multiple = 1;   // are cut: quantised blocks stay whole
  int64_t outputs_per_row = 1;  // of packed outputs
  std::optional<ExpertBlocks> expert_blocks = {};
  Repack repack = Repack::none;
  Kept kept = Kept::in_model;
  UnevenHeads uneven_heads = UnevenHeads::refused;
  InterleavedCut interleaved = InterleavedCut::blindly;
  /// Of stacks: rows are the gate's and the up's in turn; `run` has the gate's first.
  bool rows_in_turn = false;
  bool first_rank_alone = false;     // in vLLM the others hold zeros (a bias before a sum of ranks)
  std::vector<float> constant = {};  // of a buffer that no tensor of the checkpoint fills; a weight
                                     // without parts and this is zero

  /// Rows and columns of one matrix: [n] counts as [n, 1], a convolution [out, ...] as [out, rest].
  [[nodiscard]] int64_t rows() const {
    const size_t axis = is_stack() ? 1 : 0;
    return shape.size() <= axis ? 1 : shape[axis];
  }
  [[nodiscard]] int64_t columns() const {
    int64_t count = 1;
    for (size_t i = is_stack() ? 2 : 1; i < shape.size(); ++i) count *= shape[i];
    return count;
  }
  [[nodiscard]] int64_t matrices() const { return is_stack() ? shape.front() : 1; }
  [[nodiscard]] int64_t elements() const { return matrices() * rows() * columns(); }
  /// Whether some of its parts are kept quantised.
  [[nodiscard]] bool is_packed() const {
    for (const Part& part : parts)
      if (part.packing) return true;
    return false;
  }
  /// Matrices over each other, one for each expert; [experts] and [experts, n] are stacks too.
  [[nodiscard]] bool is_stack() const { return use == WeightUse::experts; }
  /// Numbers that are added or multiplied with, not a matrix of a product: experts' biases too.
  [[nodiscard]] bool is_vector() const {
    return use == WeightUse::vector || (is_stack() && shape.size() < 3);
  }
};

/// Index into ModelSpec::weights; kNoWeight where a model has none.
using WeightId = int32_t;
inline constexpr WeightId kNoWeight = -1;

struct Linear {
  WeightId weight = kNoWeight;
  WeightId bias = kNoWeight;
};

// ---- layers ----

enum class NormKind : uint8_t { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  float epsilon = 1e-5f;
  float weight_offset = 0;      // 1 for Gemma: y * (1 + w)
  WeightId weight = kNoWeight;  // no weight: no affine part
  WeightId bias = kNoWeight;
  bool present = false;  // absent norms are skipped
};

enum class Activation : uint8_t { none, silu, gelu, gelu_tanh, relu, gelu_quick, relu_squared };

/// Rotation speeds of one RoPE table. Angles are position * inverse_frequencies[i] in float32, cos
/// and sin times scale.
struct RopeTable {
  std::vector<float> inverse_frequencies;  // [rotary_dim / 2]
  float scale = 1;                         // yarn and longrope: attention factor
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
};

/// Elements of a rotated part of size r that RoPE turns together.
enum class RopePairs : uint8_t {
  halves,      // i and i + r / 2
  neighbours,  // 2i and 2i + 1 ("interleaved")
};

/// What a norm of q or k takes its mean over.
enum class NormSpan : uint8_t { each_head, all_heads };
enum class NormOrder : uint8_t { before_rope, after_rope };

/// Which positions a layer with a window of w sees up to its own p.
enum class WindowKind : uint8_t {
  sliding,  // from p - w + 1 on
  chunk,    // from p / w * w on (Llama 4)
};

/// Of q by position p, after RoPE: times 1 + beta * ln(1 + floor((p + shift) / period)). Llama 4,
/// Ministral 3.
struct QueryGrowth {
  float beta = 0;  // 0: none
  int64_t period = 1;
  int64_t shift = 0;
};

/// Press et al. 2022, "ALiBi": what is added to the score of head h at key position k for a query
/// at p. As logits differ by a row's constant only, `distance` may take the smaller numbers.
struct Alibi {
  WeightId slopes = kNoWeight;  // [heads] f32
  float factor = 1;
  enum class Of : uint8_t {
    distance,       // factor * slope * (k - p)
    position_bf16,  // factor * bf16(slope * k): Falcon's reference rounds
  } of = Of::distance;
};

/// What a gate is before it multiplies: of attention's output, of recurrent mixers'.
enum class GateKind : uint8_t { sigmoid, softplus, silu, as_is };

/// Latent attention (DeepSeek-AI 2024, "DeepSeek-V2"): k and v of all heads come from one latent,
/// q may come from another; k's rotated part is one for all heads. Attention itself has heads of
/// [rotated | not rotated] for q and k.
struct LatentSpec {
  int64_t kv_rank = 0;  // 0: attention is not latent
  int64_t q_rank = 0;   // 0: q comes from the input
  int64_t rotated = 0;  // elements of a head;
  int64_t unrotated = 0;
  Linear q_down{};   // [q_rank, hidden], where it is not in kv_down
  Linear kv_down{};  // [(q_rank +) kv_rank + rotated, hidden]
  Norm q_norm{}, kv_norm{};
  Linear q_up{};   // [heads * (unrotated + rotated), q_rank or hidden]
  Linear kv_up{};  // [heads * (unrotated + value_dim), kv_rank]
};

struct AttentionSpec {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;   // of v's heads where they are smaller: zeros behind it in the cache
  float value_factor = 1;  // of v
  LatentSpec latent{};
  float scale = 0;                       // of q.k
  float key_scale = 1, value_scale = 1;  // caches of float8 hold keys and values divided by them
  float soft_cap = 0;                    // 0: none; else cap * tanh(score / cap)
  int64_t window = 0;  // 0: sees everything; else the last `window` positions, itself included
  WindowKind window_kind = WindowKind::sliding;
  int32_t rope = -1;  // index into ModelSpec::ropes; -1: none
  RopePairs rope_pairs = RopePairs::halves;
  float clamp = 0;  // 0: none; else q, k and v are cut to +-clamp, first of all
  /// Weights (and biases) are [head_dim], the same for all heads, or [its heads * head_dim].
  Norm q_norm{}, k_norm{};
  Norm v_norm{};  // over each head, without weight (Gemma 3n)
  NormSpan norm_span = NormSpan::each_head;
  NormOrder norm_order = NormOrder::before_rope;
  QueryGrowth query_growth{};
  Alibi alibi{};
  WeightId sinks = kNoWeight;  // [heads]: a logit more in each softmax, without a value
  Linear qkv{};                // [(heads + 2 kv_heads) * head_dim, hidden]: q, k, v
  bool gates_in_qkv = false;   // before q stand as many rows: `gate` (Qwen3-Next)
  float in_factor = 1, key_factor = 1, out_factor = 1;  // Falcon-H1
  /// [heads * head_dim, hidden], or [heads, hidden] for one number a head: of the layer's normed
  /// input; multiplies the output before `out`.
  Linear gate{};
  GateKind gate_kind = GateKind::sigmoid;
  Linear out{};  // [hidden, heads * head_dim]
  /// The weight behind which vLLM's attention has parameters of its own; none: behind `out`.
  WeightId scales_after = kNoWeight;
};

// ---- recurrent mixers ----

/// Causal convolution over the last `taps` tokens, each column by itself.
struct ConvSpec {
  int64_t width = 0;
  int64_t taps = 0;             // the own token included
  WeightId weight = kNoWeight;  // [width, 1, taps], the oldest token's first
  WeightId bias = kNoWeight;    // [width]
  Activation activation = Activation::none;
};
inline constexpr int64_t kMostTaps = 16;

enum class RecurrentKind : uint8_t {
  short_conv,   // [b; c; u] = in x; c * conv(b * u). LFM2
  mamba1,       // Gu and Dao 2023: [u; z] = in x
  mamba2,       // Dao and Gu 2024: [z; u; B; C; step] = in x; one decay a head
  gated_delta,  // Yang et al. 2024: [q; k; v; z] = in x, [beta; step] = steps x
};

/// A mixer whose memory of the tokens before is a state of fixed size. Its output before `out` is
/// [heads * head_dim]; all states are float32.
struct RecurrentSpec {
  RecurrentKind kind = RecurrentKind::short_conv;
  ConvSpec conv{};
  int64_t heads = 0;     // Mamba-1: channels
  int64_t head_dim = 0;  // Mamba-1: 1
  int64_t groups = 0;    // of B and C, or heads of q and k: equally many heads share one
  int64_t state = 0;     // numbers for each of a head's outputs; of q and k: their head's size
  Linear in{};
  Linear steps{};   // gated delta
  Linear choose{};  // Mamba-1: [step of `rank`; B; C] of u
  int64_t rank = 0;
  Linear step{};                         // Mamba-1: [heads, rank]
  WeightId step_bias = kNoWeight;        // [heads] or none, before softplus
  WeightId decay = kNoWeight;            // [heads] or [heads, state]: A; gated delta: A_log
  WeightId skip = kNoWeight;             // [heads]: D
  Norm step_norm{}, b_norm{}, c_norm{};  // Mamba-1
  Norm norm{};  // of the output, over each of `norm_groups`; weight [all], or [head_dim]: of a head
  int64_t norm_groups = 1;
  enum class Gated : uint8_t { before_norm, after_norm } gated = Gated::before_norm;
  GateKind gate = GateKind::silu;       // of z
  float beta_factor = 1;                // gated delta
  float in_factor = 1, out_factor = 1;  // Falcon-H1, and
  std::vector<float> factors{};         // of z, u, B, C, step; empty: none
  Linear out{};

  [[nodiscard]] int64_t width() const { return heads * head_dim; }
  /// Floats that a sequence's state takes beside those of the convolution.
  [[nodiscard]] int64_t state_floats() const { return heads * head_dim * state; }
  [[nodiscard]] int64_t conv_floats() const { return conv.width * (conv.taps - 1); }
};

/// Experts of one layer at most.
inline constexpr int64_t kMostExperts = 4096;

/// What an expert's score is, of its router logit.
enum class RouterScore : uint8_t {
  softmax,  // over all experts; divided by the sum of the chosen it is a softmax over these alone
  sigmoid,
  sparsemixer,  // two experts; each one's softmax among the logits not far below it (Phi-3.5-MoE)
};

/// What a group of experts is worth: its best score, or the sum of its two best.
enum class GroupScore : uint8_t { best, two_best };

/// How router logits become chosen experts and their weights.
struct RouterSpec {
  Linear gate{};                     // [experts, hidden]
  WeightId choice_bias = kNoWeight;  // [experts]: on scores for the choice, never in a weight
  Norm norm{};  // of what the router reads in place of the experts' input: the residual
  float logits_factor = 1;
  int64_t identities = 0;  // outputs past the experts': one that is chosen returns its input
  WeightId expert_scale = kNoWeight;  // [experts]: of the weights, last of all
  RouterScore score = RouterScore::softmax;
  int64_t groups = 1;         // of equal size, one after the other;
  int64_t groups_chosen = 1;  // experts are chosen from the best so many of them
  GroupScore group_score = GroupScore::best;
  bool normalize = true;  // weights divided by max(their sum + epsilon, least_sum)
  float epsilon = 0;
  float least_sum = 0;
  float factor = 1;    // of the weights
  float nearness = 0;  // sparsemixer: largest (best - s) / max(|s|, best) that counts
};

/// Where an expert's weight goes.
enum class ExpertWeighs : uint8_t { output, input };

/// An MLP that every token passes beside the experts.
struct SharedExperts {
  int64_t intermediate = 0;  // 0: there is none
  Linear up{}, down{};       // as MlpSpec's
  Linear gate{};             // [1, hidden]: its output times the sigmoid of this (Qwen2-MoE)
  float factor = 1;          // of its output
  Norm out_norm{};           // of its output
};

enum class MlpKind : uint8_t { plain, gated, experts, none };

struct MlpSpec {
  MlpKind kind = MlpKind::gated;
  Activation activation = Activation::silu;
  /// xIELU in its place (Huang and Schlag 2024; plain MLPs): [alpha_p, alpha_n, beta, eps], as
  /// stored.
  WeightId xielu = kNoWeight;
  int64_t intermediate = 0;               // of one expert where there are experts
  float gate_factor = 1, out_factor = 1;  // before the activation; of all (Falcon-H1)
  Linear up{};  // gated: [2 * intermediate, hidden], gate rows first; plain: [intermediate, hidden]
  Linear down{};  // [hidden, intermediate]
  // experts: up and down are [experts, ...] weights, their biases [experts, n]
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  float gate_limit = 0;  // of experts: gate cut from above, up to +-limit (gpt-oss); 0: neither
  float up_offset = 0;   // of experts: activation(gate) * (up + offset)
  bool gated = true;     // of experts, shared ones too; else activation(up) (Nemotron-H)
  ExpertWeighs weighs = ExpertWeighs::output;
  Norm experts_norm{};      // experts read this of the residual, not the MLP's input (Gemma 4);
  Norm experts_out_norm{};  // and this is of their sum
  RouterSpec router{};
  SharedExperts shared{};

  /// Outputs of one expert's `up`.
  [[nodiscard]] int64_t up_rows() const { return (gated ? 2 : 1) * intermediate; }
};

enum class NormPlacement : uint8_t {
  pre,       // x += f(norm(x))
  post,      // x = norm(x + f(x))                 (OPT-350m)
  sandwich,  // x += post_norm(f(norm(x)))         (Gemma 2, 3; OLMo 2 has the outer norm alone)
  parallel,  // x += attention(attention_norm(x)) + mlp(mlp_norm(x)), which may be one norm (Falcon)
};

struct LayerSpec {
  NormPlacement placement = NormPlacement::pre;
  float branch_factor = 1;  // of what attention and MLP add to x, after their norms (Granite)
  Norm attention_norm, attention_post_norm;
  Norm mlp_norm, mlp_post_norm;
  AttentionSpec attention;  // without heads: there is none
  std::optional<RecurrentSpec> recurrent;
  MlpSpec mlp;
  WeightId factor = kNoWeight;  // [1]: of all that the layer leaves (Gemma 4)
  /// Experts on the MLP's input whose output joins the residual behind the next layer's MLP.
  std::optional<MlpSpec> shortcut{};
  bool ends_shortcut = false;  // it is the next layer

  [[nodiscard]] bool has_attention() const { return attention.heads > 0; }
};

// ---- the model ----

/// What is to be known of vLLM's class beside its weights.
struct VllmClass {
  bool knows_stage =
      false;  // embedding on a pipeline's first stage alone, norm and head on its last
  bool table_everywhere = false;  // but the embedding on all,
  bool head_everywhere = false;   // and the head too
  bool forbids_f16 = false;
  std::string refused;  // why vLLM does not serve the model, where it does not
};

/// A head that shares the token table, and what the two are called where a checkpoint holds a head
/// of its own all the same.
struct TiedHead {
  std::string table, head;  // vLLM's names of the two weights
  std::string tensor;       // the head in the checkpoint
  bool stored = false;      // the checkpoint holds a copy of the table there
};

struct VisionSpec;  // vision_spec.h

/// A checkpoint tensor that holds as many matrices as its first size says, or `count` of them one
/// under the other: they count as NAME[0], NAME[1] and so on.
struct StackedTensor {
  std::string tensor;
  std::vector<int64_t> stored_shape;
  int64_t count = 0;
  std::string name{}, ending{};         // instead: `name`[0]`ending` ...,
  std::vector<int64_t> single_shape{};  // of this shape each
};

struct ModelSpec {
  std::string architecture;  // config's "LlamaForCausalLM"
  std::string family;        // family table's name: "llama"
  VllmClass vllm;
  DType dtype =
      DType::bf16;  // of the checkpoint as config says (weights are converted to the run's dtype)
  bool dtype_stated = true;  // false: the config has no dtype; checkpoint::model_dtype() looks
  std::string quantization;  // quantization_config's method; empty: plain weights
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t usual_length = 0;  // taken where none is asked for and nothing bounds it; 0: the longest
  int64_t max_position =
      0;  // longest context that the config allows (RoPE scaling applied as vLLM derives it)

  WeightId embedding = kNoWeight;           // [vocab, embedding width]
  float embedding_scale = 1;                // Gemma: sqrt(hidden), not yet rounded to the run dtype
  Norm embedding_norm;                      // BLOOM
  WeightId position_embedding = kNoWeight;  // learned positions [rows, hidden]
  int64_t position_offset = 0;              // OPT: 2
  WeightId embedding_in = kNoWeight;        // OPT-350m project_in [hidden, width]
  WeightId embedding_out = kNoWeight;       // OPT-350m project_out [width, hidden]

  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layers;
  Norm final_norm;
  WeightId head = kNoWeight;          // equals `embedding` when tied
  std::optional<TiedHead> tied_head;  // where a checkpoint may have the last word on tying
  WeightId head_bias = kNoWeight;
  float logits_scale = 1;  // before the cap
  float final_soft_cap = 0;

  std::vector<WeightSpec> weights;
  /// Of a multimodal model: vision tower and projector, which stand before `weights` in vLLM's
  /// state dict. Prompts of text alone do without them.
  std::vector<WeightSpec> towers;
  /// How pictures go through `towers`; null: only prompts of text are answered.
  std::shared_ptr<const VisionSpec> vision;
  /// Module of the buffers that normalise pixels, which the image processor's configuration fills
  /// and which stand after the tower's first weight; empty: none.
  std::string input_norm;
  int64_t layers_in_stored = 1;  // layers that stand under one number in the checkpoint
  std::vector<StackedTensor> stacked_tensors;
  /// Other spellings of checkpoint names, tried in order when a tensor is missing: leading `first`
  /// becomes `second` (GPT-2 without "transformer.", OPT without "model.").
  std::vector<std::pair<std::string, std::string>> tensor_prefixes;
  /// The same for words within the names (Mixtral's experts).
  std::vector<std::pair<std::string, std::string>> tensor_words;
  /// Checkpoint tensors that may be there and are not used (rotary inv_freq, GPT-2 masks): regular
  /// names or suffixes.
  std::vector<std::string> ignored_suffixes;
  /// The same by how their names begin (layers and heads of a tower that vLLM leaves out).
  std::vector<std::string> ignored_prefixes;

  [[nodiscard]] const WeightSpec& weight(WeightId id) const {
    return weights[static_cast<size_t>(id)];
  }
  /// Whether the weight is the matrix that sends tokens to experts.
  [[nodiscard]] bool is_router(WeightId id) const {
    for (const LayerSpec& layer : layers) {
      const MlpSpec& mlp = layer.shortcut ? *layer.shortcut : layer.mlp;
      if (mlp.router.gate.weight == id) return true;
    }
    return false;
  }
  /// Whether sequences have states, which no other sequence's tokens can be taken from.
  [[nodiscard]] bool is_recurrent() const {
    for (const LayerSpec& layer : layers)
      if (layer.recurrent) return true;
    return false;
  }
};

}  // namespace plimsoll::model
