// Layers with a recurrent mixer: turns a family's names and sizes into weights in the order of
// vLLM's classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config_reader.h"
#include "model/model_spec.h"
#include "model/spec_builder.h"

namespace plimsoll::model {

/// Parts of a layer beside its norms.
struct LayerParts {
  bool attention = true;
  bool recurrent = false;
  bool mlp = true;
  bool experts = false;  // in the MLP's place (Nemotron-H; others have Mixture::sparse)
};

/// Attention in the layers that `attention` marks, a recurrent mixer in the rest.
std::vector<LayerParts> attention_or_recurrent(const std::vector<bool>& attention);

/// How the two products of a gated delta layer are stored.
enum class DeltaStored : uint8_t {
  by_key_head,  // per head of k: its q, k, v's, z's; its betas, steps (Qwen3-Next)
  apart,        // qkv, z; b; a (Qwen3.5)
  all_apart,    // q, k, v, z, convolutions of q, k and v, b, a: *_proj, *_conv1d (OLMo Hybrid)
};

struct RecurrentTable {
  /// Kind and sizes; add_recurrent fills in weight ids and norms.
  RecurrentSpec sizes{};
  std::string module{};         // below a layer: "mamba"
  std::string engine_module{};  // vLLM's, where it is another
  std::string conv = "conv1d";
  bool conv_bias = false;
  bool bias = false;      // of the projection in (Mamba, short convolutions)
  bool out_bias = false;  // of the projection out
  Kept out_bias_kept = Kept::in_model;
  bool choice_norms = false;    // norms of step, B and C (Jamba, FalconMamba)
  bool choice_weights = false;  // choice_norms have weights
  DeltaStored stored = DeltaStored::apart;
  bool fused = false;      // linear attention of Ling's names: q, k and v one after the other
  bool qk_norm = false;    // norms of its q and k
  bool full_gate = false;  // channel delta: the gate of the output in one step, with q, k and v
  std::vector<float> decays{};  // by head of linear attention: logarithms of the decays
};

/// Logarithms of the decays of lightning attention by head: ALiBi's slopes, smaller from layer to
/// layer.
std::vector<float> lightning_decays(int64_t heads, int64_t layer, int64_t layers);

/// Attention, which has several names, in each layer that `layer_types` does not call
/// "linear_attention"; where it does not say, in every `period`-th layer.
std::vector<LayerParts> attention_or_linear(const ConfigReader& config, int64_t layers,
                                            int64_t period);

/// The delta rule with a decay for each channel; what it reads of the input has the rank of a head.
RecurrentTable channel_delta_table(int64_t heads, int64_t head_dim, int64_t taps, float epsilon);

/// Reads such a table from `linear_attn_config`, or from keys of transformers' spelling.
RecurrentTable read_channel_delta(const ConfigReader& config, float epsilon);

RecurrentSpec add_recurrent(const RecurrentTable& table, const std::string& layer, int64_t hidden,
                            SpecBuilder& add);

/// Reads a Mamba mixer of `width` channels.
RecurrentTable read_mamba1(const ConfigReader& config, int64_t width, int64_t hidden);

/// Keys under which configs state Mamba-2's sizes.
struct Mamba2Keys {
  std::string_view heads, head_dim, groups, state, taps, conv_bias, bias;
};
/// Keys of Bamba, Granite 4 and Falcon-H1.
inline constexpr Mamba2Keys kMambaPrefixed{"mamba_n_heads",  "mamba_d_head", "mamba_n_groups",
                                           "mamba_d_state",  "mamba_d_conv", "mamba_conv_bias",
                                           "mamba_proj_bias"};
/// Reads a Mamba-2 mixer of `width` columns; `missing` has the class's defaults of heads, head
/// size, groups and state.
RecurrentTable read_mamba2(const ConfigReader& config, const Mamba2Keys& keys, int64_t width,
                           const RecurrentSpec& missing);

}  // namespace plimsoll::model
