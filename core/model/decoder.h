// The decoder that most families share: RMS norms, rotary attention, gated MLPs or experts. A
// family fills in one Decoder and builds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/decoder_config.h"
#include "model/model_spec.h"
#include "model/rope.h"
#include "model/spec_builder.h"

namespace plimsoll::model {

/// How a checkpoint stores q, k and v.
enum class QkvStored : uint8_t {
  apart,    // q_proj, k_proj, v_proj
  fused,    // one matrix: q, k, v
  grouped,  // one matrix: per KV head its query heads, then its k, its v (InternLM2)
};
enum class GateUpStored : uint8_t { apart, fused };

/// Module names below "model." and below a layer.
struct DecoderNames {
  std::string embedding = "embed_tokens";
  std::string head = "lm_head";
  std::string tied_embedding = "lm_head";  // vLLM's name of a table that the head shares
  std::string attention = "self_attn";
  std::string qkv = "qkv_proj";  // also where the checkpoint stores q, k and v as one
  std::string out = "o_proj";
  std::string mlp = "mlp";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string attention_norm = "input_layernorm";
  std::string attention_post_norm{};
  std::string mlp_norm = "post_attention_layernorm";
  std::string mlp_post_norm{};
};

/// A mixture of experts in place of MLPs.
struct ExpertsTable {
  MlpSpec sizes;
  std::string module;       // "block_sparse_moe"
  std::string engine_gate;  // vLLM's name of the router below `module`
  ExpertNames names;
  std::vector<bool> sparse;  // by layer: experts, else an MLP
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
  Kept qkv_bias_kept = Kept::in_model;
  Kept out_bias_kept = Kept::in_model;
  Kept mlp_bias_kept = Kept::in_model;
  bool qk_norm = false;
  NormPlacement placement = NormPlacement::pre;
  QkvStored qkv_stored = QkvStored::apart;
  GateUpStored gate_up_stored = GateUpStored::apart;
  float attention_scale = 0;  // 0: head_dim^-1/2
  float attention_soft_cap = 0;
  float final_soft_cap = 0;
  float embedding_scale = 1;
  std::vector<int64_t> windows{};  // by layer; empty: none
  std::vector<Rope> ropes{};       // the first is for all layers, the second for windowed ones
  std::optional<ExpertsTable> experts{};
  DecoderNames names{};
};

/// What a config class takes for keys that a config lacks.
struct CommonDefaults {
  Sizes sizes{};
  double epsilon = 1e-6;
  double theta = 10000;
  std::string_view activation = "silu";
  std::string_view activation_key = "hidden_act";
  bool tied = false;
  int64_t original_max_position = 0;  // Phi-3
};

/// Sizes, activation, epsilon, tying and the RoPE of all layers.
void read_common(const ConfigReader& config, Decoder& decoder, const CommonDefaults& defaults);
/// The biases that vLLM's Llama class reads from the config, beside those that the decoder already
/// has as transformers' class reads them.
void add_llama_biases(const ConfigReader& config, Decoder& decoder);
/// Experts in all layers, of `missing`'s sizes where the config is silent.
ExpertsTable read_experts(const ConfigReader& config, const Sizes& sizes, const MlpSpec& missing);

ModelSpec build(const Decoder& decoder);

/// The token table and the output head, which may be one weight.
struct VocabularyTables {
  std::string table;                         // "model.embed_tokens.weight", in the checkpoint
  std::string tied_name = "lm_head.weight";  // vLLM's name of a table that the head shares
  std::string head = "lm_head.weight";
  int64_t width = 0;
  bool tied = false;
};
void add_table(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec);
void add_head(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec);

}  // namespace plimsoll::model
