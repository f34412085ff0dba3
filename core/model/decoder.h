// The decoder that most families share: RMS norms, rotary attention, gated MLPs or experts. A
// family fills in one Decoder and builds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/decoder_config.h"
#include "model/latent.h"
#include "model/mixture.h"
#include "model/model_spec.h"
#include "model/recurrent.h"
#include "model/rope.h"
#include "model/spec_builder.h"

namespace plimsoll::model {

/// How a checkpoint stores q, k and v.
enum class QkvStored : uint8_t {
  apart,     // q_proj, k_proj, v_proj
  pairs,     // apart; vLLM turns neighbouring pairs of q and k into halves (Llama 4)
  fused,     // one matrix: q, k, v
  grouped,   // one matrix: per KV head its query heads, then its k, its v (InternLM2; with as many
             // KV heads as heads: per head q, k, v, as GPT-NeoX and BLOOM)
  quarters,  // one matrix: four times q, v, k of a quarter of the heads (CodeGen)
  paired_keys,  // query; key_value: per KV head its k, its v (TeleChat 2)
};
enum class GateUpStored : uint8_t { apart, fused };

/// Parts of a layer, and of its attention, in the order of vLLM's class.
enum class LayerPart : uint8_t {
  attention,
  mlp,
  attention_norm,
  attention_post_norm,
  mlp_norm,
  mlp_post_norm,
  late_mlp,  // MixtureNames::late
  factor,    // LayerSpec::factor
  input,     // LayerSpec::input, without its norm
  input_norm,
  streams,  // LayerSpec::streams, without the laurel
  laurel
};
enum class AttentionOrder : uint8_t {
  qkv_first,         // q k v, output, norms
  norms_before_out,  // q k v, norms, output
  out_between,       // q k v, k's norm, output, q's norm
  out_first,         // fused projections come last: vLLM's Transformers classes
};
/// Place of the parameters of vLLM's attention itself.
enum class ScalesPlace : uint8_t { after_out, at_end };

/// Norms of q and k heads.
struct HeadNormStyle {
  NormKind kind = NormKind::rms;
  NormTensors tensors = NormTensors::weight;
  /// Shape of the weights: one head's for all; a row for each head in one tensor (own), or a tensor
  /// for each head (own_apart: `q_norm.norms.H`); or one vector over all heads.
  enum class Weights : uint8_t { shared, own, own_apart, all_heads } weights = Weights::shared;
  bool cut = false;  // vLLM's ranks hold their heads' share of a vector over all heads
  NormOrder order = NormOrder::before_rope;
};

/// Module names below `root` and below a layer.
struct DecoderNames {
  std::string root = "model";
  std::string layers = "layers";
  std::string final_norm = "norm";  // empty: none
  std::string q_norm = "q_norm", k_norm = "k_norm";
  std::string embedding = "embed_tokens";
  std::string engine_embedding{};  // vLLM's, where it is another
  std::string engine_attention{};  // vLLM's, where it is another; ".": the layer itself
  std::string sinks = "sinks";     // below the attention, where there are any
  std::string attention_gate{};    // below the attention: gate of its output; empty: none
  std::string head = "lm_head";
  std::string tied_embedding = "lm_head";  // vLLM's name of a table that the head shares
  std::string attention = "self_attn";
  std::string qkv = "qkv_proj";  // also where the checkpoint stores q, k and v as one
  std::string out = "o_proj";
  std::string mlp = "mlp";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj", gate_up = "gate_up_proj";
  std::string attention_norm = "input_layernorm";
  std::string attention_post_norm{};
  std::string mlp_norm = "post_attention_layernorm";
  std::string mlp_post_norm{};
  std::string factor{};  // LayerPart::factor
};

/// Heads of one layer, where layers differ.
struct Heads {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;  // of v's heads where they are smaller, else 0
  bool sinks = false;
  bool keys_are_values = false;  // before k's norm: there is no v_proj
  int32_t keys_of = -1;          // AttentionSpec::keys_of
};

/// Latent attention, in place of q, k and v from the input.
struct Latent {
  AttentionSpec attention;  // numbers and rules; weights are added
  LatentModules modules = LatentModules::within;
  /// True for layers with an indexer of their own; the others use the choice of a layer before. One
  /// for each layer.
  std::vector<bool> chooses{};
  /// True for layers that see chosen keys alone; empty: all, if there is an indexer.
  std::vector<bool> sparse{};
};

/// Attention to a window, and to what is compressed of the tokens before it (DeepSeek-V4).
struct Compressed {
  std::vector<int64_t> ratios{};  // AttentionSpec::compression, by layer
  int64_t window = 0;
  int64_t q_rank = 0;
  int64_t out_rank = 0;  // of the output in each of `out_groups`
  int64_t out_groups = 1;
  int64_t index_heads = 0, index_dim = 0;  // of layers that compress few tokens
};

/// Factors of Falcon-H1 before, within and after attention.
struct AttentionFactors {
  float in = 1, key = 1, out = 1;
};

/// A parameter that vLLM alone has, on every rank.
struct VllmParameter {
  std::string name;  // below the layer, or below the root
  std::vector<int64_t> shape;
  std::optional<DType> dtype = {};
};

struct Decoder {
  std::string family{};
  Sizes sizes{};
  Activation activation = Activation::silu;
  Norm norm = {.epsilon = 1e-6f};  // kind, epsilon, offset of all norms
  bool tied = false;
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool down_bias = false;  // of the MLP's down projection alone
  Kept qkv_bias_kept = Kept::in_model;
  Kept out_bias_kept = Kept::in_model;
  Kept mlp_bias_kept = Kept::in_model;
  bool qk_norm = false;
  HeadNormStyle head_norm{};                       // where there are norms of q and k
  NormTensors norm_tensors = NormTensors::weight;  // of a LayerNorm; RMS norms have a weight
  MlpKind mlp_kind = MlpKind::gated;
  bool xielu = false;  // Apertus
  bool head_bias = false;
  bool sinks = false;
  std::vector<Heads> heads{};  // by layer; empty: all as in `sizes`
  int64_t shared_query = 0;  // width of a query that all heads share before `wq`; 0: none (Step 3)
  /// Size of the heads of an index that chooses blocks of keys (MiniMax M3), by layer, 0 for none.
  std::vector<int64_t> block_index{};
  /// An index over pooled keys beside plain attention (Qwen3.8-Flash-Next): numbers, to which
  /// weights are added.
  std::optional<IndexerSpec> pooled_index{};
  Norm v_norm{};           // of each head of v, without a weight
  float value_factor = 1;  // of v, for v's heads that are smaller
  GateKind gate_kind = GateKind::sigmoid;
  bool gate_by_head = false;  // one number for each head, not for each element
  float clamp = 0;
  float branch_factor = 1;
  float logits_scale = 1;
  RopePairs rope_pairs = RopePairs::halves;
  QueryGrowth query_growth{};
  std::optional<Alibi> alibi{};
  std::vector<float> alibi_slopes{};   // by head
  std::string embedding_norm{};        // its module; empty: none
  int64_t learned_positions = 0;       // rows of `positions`
  std::string positions{};             // below the root
  bool cut_positions = false;          // vLLM's ranks divide them, and keep a list of their numbers
  int64_t token_types = 0;             // rows of a table of kinds of tokens, which vLLM alone has
  std::vector<int32_t> layer_ropes{};  // by layer, -1: none; empty: see `ropes`
  InterleavedCut interleaved = InterleavedCut::blindly;
  InterleavedCut gate_up_cut = InterleavedCut::blindly;  // where gate and up are stored as one
  AttentionOrder attention_order = AttentionOrder::qkv_first;
  ScalesPlace scales = ScalesPlace::after_out;
  std::vector<LayerPart> order = {LayerPart::attention,      LayerPart::mlp,
                                  LayerPart::attention_norm, LayerPart::attention_post_norm,
                                  LayerPart::mlp_norm,       LayerPart::mlp_post_norm};
  std::optional<Split> qkv_split{}, attention_out_split{}, mlp_split{};  // where not the usual ones
  VllmClass vllm{};
  std::vector<std::pair<std::string, std::string>> spellings{};  // ModelSpec::tensor_prefixes
  std::vector<std::string> ignored{};                            // ModelSpec::ignored_suffixes
  NormPlacement placement = NormPlacement::pre;
  QkvStored qkv_stored = QkvStored::apart;
  GateUpStored gate_up_stored = GateUpStored::apart;
  float attention_scale = 0;  // 0: head_dim^-1/2
  float attention_soft_cap = 0;
  float final_soft_cap = 0;
  float embedding_scale = 1;
  std::vector<int64_t> windows{};  // by layer; empty: none
  std::vector<Rope> ropes{};       // the first is for all layers, the second for windowed ones
  std::optional<Mixture> mixture{};
  /// Experts for images beside those for text, or an MLP where this one has none (ERNIE 4.5 VL).
  std::optional<Mixture> image_mixture{};
  bool crossed = false;  // attention to an encoder's states behind that to the tokens (Whisper)
  std::optional<Latent> latent{};
  std::optional<Compressed> compressed{};
  Blend recurrent_blend{}, attention_blend{}, mlp_blend{};  // NormPlacement::residual
  bool halves = false;  // each layer is two, with the mixture as the first one's shortcut (LongCat)
  std::optional<RecurrentTable> recurrent{};
  /// Names of the norms before mixer and MLP in recurrent layers, where they differ from the other
  /// layers'.
  std::string recurrent_attention_norm{}, recurrent_mlp_norm{};
  bool query_gates = false;  // q_proj has for each head q, then the gate of its output
  AttentionFactors attention_factors{};
  float gate_factor = 1, mlp_factor = 1;
  int64_t usual_length = 0;         // ModelSpec::usual_length
  std::vector<LayerParts> parts{};  // by layer; empty: attention and MLP
  std::vector<int64_t> widths{};    // by layer; empty: all as in `sizes`
  int64_t layer_input = 0;          // LayerInputs::width
  int64_t layer_input_ids = 0;      // rows of LayerInputs::table
  int64_t streams = 1;              // number of residuals (LayerSpec::streams)
  int64_t laurel_rank = 0;
  std::vector<float> gate_deviations{};            // by layer; empty: none
  std::vector<std::optional<NgramSpec>> ngrams{};  // by layer; empty: none
  std::vector<VllmParameter> layer_parameters{};   // behind the norms of each layer
  std::vector<VllmParameter> end_parameters{};     // behind the last norm
  DecoderNames names{};
};

/// Adds float32 weights that mix residual streams around both branches of a layer, by `gates`
/// numbers for each stream with `scales` factors, and behind the layers into one
/// (hyper-connections: arXiv 2409.19606).
void mix_streams(int64_t streams, int64_t gates, int64_t scales, Decoder& decoder);

/// Keys under which a class of configs has common values, and its defaults for missing keys.
struct CommonDefaults {
  int64_t head_dim = 0, max_position = 0;  // read_sizes
  double epsilon = 1e-6;
  double theta = 10000;
  std::string_view activation_key = "hidden_act";
  int64_t original_max_position = 0;  // Phi-3
  std::string_view epsilon_key = "rms_norm_eps";
  std::string_view theta_key = "rope_theta";
  std::string_view share_key = "partial_rotary_factor";
  double share = 1;  // of the head that is rotated
  bool flat_rope_is_idle = false;
  bool layers_listed = false;  // the family's list of layers may say how many there are
};

/// Reads sizes, activation, epsilon and tying.
void read_without_positions(const ConfigReader& config, Decoder& decoder,
                            const CommonDefaults& defaults = {});
/// Reads sizes, activation, epsilon and tying, and the RoPE of all layers.
void read_common(const ConfigReader& config, Decoder& decoder, const CommonDefaults& defaults = {});
/// Reads as read_common does; `rotary_dim` may state the columns that RoPE turns.
void read_with_columns(const ConfigReader& config, Decoder& decoder);
/// Adds the biases that vLLM's Llama class reads from the config, to the biases that transformers'
/// class reads.
void add_llama_biases(const ConfigReader& config, Decoder& decoder);
/// Adds biases as add_llama_biases does, for vLLM's classes that do not read `qkv_bias` (Granite,
/// EXAONE, Nemotron).
void add_kin_biases(const ConfigReader& config, Decoder& decoder);
/// Reads `attention_bias` (q, k, v and out) for a family whose class in vLLM has no such biases.
void read_plain_attention_biases(const ConfigReader& config, Decoder& decoder);
/// Reads biases as vLLM's Llama does, for a family that vLLM runs as Llama: q, k and v, out, MLP.
/// `missing`: attention's, where the config has no such key.
void read_llama_biases(const ConfigReader& config, Decoder& decoder, bool missing = false);
/// Notes that vLLM's class needs `key`, which its class of configs has no default for: without it
/// vLLM can neither be planned nor sharded.
void want_for_vllm(const ConfigReader& config, std::string_view key, Decoder& decoder);

/// Refuses another `hidden_act` than silu, the only one that vLLM's class has.
void want_silu(const ConfigReader& config);
/// Reads which layers have experts from `mlp_layer_types`, as transformers' class does. vLLM's
/// class reads the number of dense layers alone: shards of a model in which the two differ are
/// refused.
void read_sparse_types(const ConfigReader& config, Decoder& decoder);
/// Orders weights as vLLM's Transformers classes do.
void use_transformers_class(Decoder& decoder);
/// Sets norms behind attention and MLP alone, under OLMo 2's names.
void use_outer_norms(Decoder& decoder);
/// Sets LayerNorms with weight and bias, or weight alone, whose epsilon is at `key`.
void use_layer_norms(const ConfigReader& config, Decoder& decoder, std::string_view key,
                     NormTensors tensors);

ModelSpec build(const Decoder& decoder);
/// Builds a model whose checkpoint may hold layers after the last one, which predict further tokens
/// (`num_nextn_predict_layers`) and which are ignored.
ModelSpec build_without_prediction(const ConfigReader& config, const Decoder& decoder);
/// Renames the tensors that the spec reads from the checkpoint: the first of each pair becomes the
/// second in tensor names, in other spellings of them, and in ignored names.
void store_under(const std::vector<std::pair<std::string, std::string>>& words, ModelSpec& spec);

/// The token table and the output head, which may be one weight.
struct VocabularyTables {
  std::string table;                         // "model.embed_tokens.weight", in the checkpoint
  std::string tied_name = "lm_head.weight";  // vLLM's name of the token table, where it is another
  std::string engine_table{};                // vLLM's of its own, where it is another
  std::string head = "lm_head.weight";
  int64_t width = 0;
  bool tied = false;
};
void add_table(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec);
void add_head(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec);

}  // namespace plimsoll::model
