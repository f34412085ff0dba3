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

#include "model/spec/attention.h"
#include "model/spec/mlp.h"
#include "model/spec/recurrent.h"
#include "model/spec/weight.h"

namespace plimsoll::model {

enum class NormPlacement : uint8_t {
  pre,       // x += f(norm(x))
  post,      // x = norm(x + f(x))                 (OPT-350m)
  sandwich,  // x += post_norm(f(norm(x)))         (Gemma 2, 3; OLMo 2 has the outer norm alone)
  residual,  // x = Blend of y and f(y), y = norm(x)   (MiniMax)
  parallel,  // x += attention(attention_norm(x)) + mlp(mlp_norm(x)), which may be one norm (Falcon)
};

/// x = alpha y + beta f(y).
struct Blend {
  float alpha = 1, beta = 1;
};

/// Of a model with several residuals (AltUp; Gemma 3n), of which layers compute with the first one:
/// with m(x) = tanh(router(norm(x) / hidden)), P_i = X_i + sum_k predict(m(X_0))[i, k] X_k before
/// the layer, then X_i = P_i + (1 + correct(m(f))_i) (f - P_0), f what it makes of P_0. Beside
/// attention stands laurel_norm(laurel(x)) + x of its normed input x.
struct StreamLayer {
  Norm norm{};
  Linear router{};                   // [streams, hidden]
  Linear predict{};                  // [streams * streams, streams]
  Linear correct{};                  // [streams, streams]
  WeightId input_scale = kNoWeight;  // [hidden]: of X_0 where the layer's input reads it
  Adapter laurel{};
  Norm laurel_norm{};
};

/// The residuals behind the first: X_i = in_i(X_0), at the end out_i(X_i), both of X_0's size. The
/// head reads their mean.
struct Streams {
  std::vector<Linear> in{}, out{};

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(in.size()) + 1; }
};

/// What a layer adds behind its MLP: norm(projection(activation(gate(x)) * its input)). With
/// several residuals it reads the first and is added to the others.
struct LayerInput {
  Linear gate{};        // [LayerInputs::width, hidden]
  Linear projection{};  // [hidden, LayerInputs::width]
  Norm norm{};
  Activation activation = Activation::gelu_tanh;
};

/// A block of attention (LayerSpec::attention) and MLP that several layers share, each with
/// adapters of its own: from the residual and what the first layer reads, side by side, to what the
/// mixer reads beside the residual (Zamba 2).
struct SharedBlock {
  Norm input_norm{};  // [2 * hidden]
  Norm mlp_norm{};
  MlpSpec mlp{};
  Adapter adapter{};  // of the MLP's gate and up
  Linear out{};       // [hidden, hidden], the layer's own
};

struct LayerSpec {
  NormPlacement placement = NormPlacement::pre;
  Blend attention_blend{}, mlp_blend{};  // NormPlacement::residual
  float branch_factor = 1;  // of what attention and MLP add to x, after their norms (Granite)
  Norm attention_norm, attention_post_norm;
  Norm mlp_norm, mlp_post_norm;
  AttentionSpec attention;  // without heads: there is none
  std::optional<RecurrentSpec> recurrent;
  MlpSpec mlp;
  std::optional<LayerInput> input{};
  std::optional<SharedBlock> shared_block{};
  std::optional<StreamLayer> streams{};
  WeightId factor = kNoWeight;  // [1]: of all that the layer leaves (Gemma 4)
  /// Experts on the MLP's input whose output joins the residual behind the next layer's MLP.
  std::optional<MlpSpec> shortcut{};
  bool ends_shortcut = false;  // it is the next layer

  [[nodiscard]] bool has_attention() const { return attention.heads > 0; }
  [[nodiscard]] bool has_experts() const {
    return mlp.kind == MlpKind::experts || shortcut.has_value();
  }
};

/// What vLLM's attention has of scales, in its order.
inline constexpr const char* kScaleNames[] = {"_k_scale", "_v_scale", "_q_scale", "_prob_scale"};

/// What is to be known of vLLM's class beside its weights.
struct VllmClass {
  bool knows_stage =
      false;  // embedding on a pipeline's first stage alone, norm and head on its last
  bool table_everywhere = false;   // but the embedding on all,
  bool head_everywhere = false;    // and the head too
  std::string model_type;          // config.json's (vllm_type)
  bool experts_in_stages = false;  // looks for a mixture in every stage
  bool expert_for_ranks = false;   // refuses fewer experts than ranks
  bool gate_has_alias = false;     // the router's weight under a second name, in some releases
  bool has_normalizer = false;     // the embedding's factor as a buffer, until since::kNoNormalizer
  bool late_head = false;          // a tied head under its own name from since::kGemma3Head on
  bool no_own_head = false;        // has no parameter for a head beside the token table
  bool never_ties = false;         // has a head of its own whatever config.json says
  bool kv_head_for_ranks = false;  // refuses fewer KV heads than ranks
  bool gate_apart = false;         // has gates and ups of MLPs, shared experts' too, as two weights
  bool generic = false;            // runs in the backend over transformers' own modules
  int64_t windows_from = 0;        // the first layer with a window, where others have none and it
                                   // refuses that
  int64_t least_expert_slice = 0;  // a rank's share of an expert is padded to it
  int64_t renumbered_from = 0;     // layers from here on count from 0 in the cross decoder
  bool rotary_in_all = false;      // layers that do not rotate have a rotary table too
  bool attention_free = false;
  bool own_besides_window = false;  // a window of n tokens is of n others
  bool scalar_scale = false;        // the embedding's factor as a buffer beside the state dict
  bool counted_positions = false;   // in time, height and width never exceed the count of tokens
  bool float_rotary = false;        // rotary tables in float32
  bool float_states = false;        // recurrent states, where nothing else is said
  bool quantizes_router = false;    // the router is a linear layer like others
  bool expands_latents = false;     // caches the keys and values that latents give
  bool unit_scale = false;   // latent attention has a scale of 1, and nothing made of its weights
  bool idle_scales = false;  // attention has scales, but takes none from quantised checkpoints
  std::string refused;       // why vLLM does not serve the model, where it does not
  std::string whole;         // why its shards of several ranks are none, where they are not
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

/// An input of each layer beside the residual (Gemma 3n and 4), of the token and of what the first
/// layer reads: (norm(projection(x) * projection_factor) + table[id] * table_factor) * factor, the
/// norm over each layer's numbers.
struct LayerInputs {
  int64_t width = 0;           // numbers for a layer; 0: there are no such inputs
  WeightId table = kNoWeight;  // [ids, layers * width]
  Linear projection{};         // [layers * width, hidden]
  Norm norm{};
  float projection_factor = 1, table_factor = 1, factor = 1;
};

struct ModelSpec {
  std::string architecture;  // config's "LlamaForCausalLM"
  std::string family;        // family table's name: "llama"
  VllmClass vllm;
  DType dtype =
      DType::bf16;  // of the checkpoint as config says (weights are converted to the run's dtype)
  bool dtype_stated = true;    // false: the config has no dtype; checkpoint::model_dtype() looks
  std::string quantization;    // quantization_config's method; empty: plain weights
  bool whole_experts = false;  // ranks of `run` have some experts each, not a share of each
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

  LayerInputs layer_inputs{};
  Streams streams{};
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
  /// Whether layers use blocks of attention and MLP that others use too.
  [[nodiscard]] bool shares_blocks() const {
    for (const LayerSpec& layer : layers)
      if (layer.shared_block) return true;
    return false;
  }
  /// Whether attention sees the keys that an indexer chooses.
  [[nodiscard]] bool has_indexers() const {
    for (const LayerSpec& layer : layers)
      if (layer.attention.indexer.most > 0) return true;
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
