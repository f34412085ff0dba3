// A model as the whole program sees it: dimensions, layers, and the weight table that plan sums,
// shard writes to disk and run loads. A function in families/ turns a config into one of these.
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
#include "model/vllm/version.h"

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
  bool operator==(const Blend&) const = default;
};

/// One layer of a model with several residuals (AltUp; Gemma 3n), whose layers compute with the
/// first one. With m(x) = tanh(router(norm(x) / hidden)): P_i = X_i + sum_k predict(m(X_0))[i, k]
/// X_k before the layer, then X_i = P_i + (1 + correct(m(f))_i) (f - P_0), where f is the layer's
/// output for P_0. Beside attention stands laurel_norm(laurel(x)) + x, where x is its normed input.
struct StreamLayer {
  Norm norm{};
  Linear router{};                   // [streams, hidden]
  Linear predict{};                  // [streams * streams, streams]
  Linear correct{};                  // [streams, streams]
  WeightId input_scale = kNoWeight;  // [hidden]: factor of X_0 where the layer's input reads it
  Adapter laurel{};
  Norm laurel_norm{};

  bool operator==(const StreamLayer&) const = default;
};

/// Residuals after the first: X_i = in_i(X_0), at the end out_i(X_i), both scaled to X_0's size.
/// The head reads the mean of all.
struct Streams {
  std::vector<Linear> in{}, out{};

  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(in.size()) + 1; }
};

/// A branch after the MLP: norm(projection(activation(gate(x)) * the layer's own input)) is added
/// to the residual. With several residuals it reads the first and is added to the others.
struct LayerInput {
  Linear gate{};        // [LayerInputs::width, hidden]
  Linear projection{};  // [hidden, LayerInputs::width]
  Norm norm{};
  Activation activation = Activation::gelu_tanh;
  bool operator==(const LayerInput&) const = default;
};

/// A block of attention (LayerSpec::attention) and MLP that several layers share, each with
/// adapters of its own. It reads the residual and the first layer's input, side by side, and the
/// mixer reads its output plus the residual (Zamba 2).
struct SharedBlock {
  Norm input_norm{};  // [2 * hidden]
  Norm mlp_norm{};
  MlpSpec mlp{};
  Adapter adapter{};  // of the MLP's gate and up
  Linear out{};       // [hidden, hidden], the layer's own

  bool operator==(const SharedBlock&) const = default;
};

/// A table of n-grams of token ids, whose rows join the residual streams before a layer through a
/// gate and a short convolution (Qwen3.8-Flash-Next, for plans alone).
struct NgramSpec {
  int64_t rows = 0, width = 0;  // of the table, which vLLM may keep in the host's memory
  int64_t inputs = 0;           // rows that a token looks up, side by side
  int64_t channels = 0;         // of the convolution: all residual streams
  int64_t taps = 0, dilation = 1;
  int64_t numbers = 0;  // int64 that hash the n-grams

  /// Inputs of the convolution that a sequence keeps.
  [[nodiscard]] int64_t held() const { return (taps - 1) * dilation; }

  bool operator==(const NgramSpec&) const = default;
};

struct LayerSpec {
  NormPlacement placement = NormPlacement::pre;
  Blend attention_blend{}, mlp_blend{};  // NormPlacement::residual
  float branch_factor = 1;  // of the outputs of attention and MLP, after their norms (Granite)
  Norm attention_norm, attention_post_norm;
  Norm mlp_norm, mlp_post_norm;
  AttentionSpec attention;  // heads 0: there is none
  std::optional<RecurrentSpec> recurrent;
  MlpSpec mlp;
  std::optional<LayerInput> input{};
  std::optional<SharedBlock> shared_block{};
  std::optional<StreamLayer> streams{};
  WeightId factor = kNoWeight;  // [1]: factor of the layer's output (Gemma 4)
  /// Attention to an encoder's states (Whisper, for plans alone): `qkv` makes q of the input,
  /// `latent.kv_up` k and v of the states.
  std::optional<AttentionSpec> crossed{};
  /// Experts that read the MLP's input, and whose output joins the residual after the next layer's
  /// MLP; or those for images, where `mlp` has those for text (ERNIE 4.5 VL, for plans alone).
  std::optional<MlpSpec> shortcut{};
  bool ends_shortcut = false;  // this is the next layer of such a layer
  std::optional<NgramSpec> ngrams{};

  [[nodiscard]] bool has_attention() const { return attention.heads > 0; }
  [[nodiscard]] bool has_experts() const {
    return mlp.kind == MlpKind::experts || shortcut.has_value();
  }

  bool operator==(const LayerSpec&) const = default;
};

/// Names of the scales that vLLM's attention has as parameters, in its order.
inline constexpr const char* kScaleNames[] = {"_k_scale", "_v_scale", "_q_scale", "_prob_scale"};

/// Properties of vLLM's class for the model, beside its weights.
struct VllmClass {
  /// A pipeline's first stage alone has the embedding, its last alone norm and head.
  bool knows_stage = false;
  bool table_everywhere = false;   // with knows_stage: the embedding is on all stages
  bool head_everywhere = false;    // with knows_stage: the head is on all stages
  std::string model_type;          // config.json's (vllm_type)
  bool experts_in_stages = false;  // looks for a mixture in every stage
  bool expert_for_ranks = false;   // needs at least as many experts as ranks
  bool gate_has_alias = false;     // the router's weight has a second name, in some releases
  /// Saves the embedding's factor as a buffer, until since::kNoNormalizer.
  bool has_normalizer = false;
  bool late_head = false;              // a tied head has its own name from since::kGemma3Head on
  bool no_own_head = false;            // has no parameter for a head beside the token table
  bool never_ties = false;             // has a head of its own whatever config.json says
  bool own_expert_names = false;       // schemes of experts are those of w1, w2 and w3
  bool kv_head_for_ranks = false;      // needs at least as many KV heads as ranks
  bool norm_groups_for_ranks = false;  // ranks must divide the groups of a mixer's norm
  bool gate_apart = false;  // gates and ups of MLPs, shared experts' too, are two weights
  bool generic = false;     // runs in vLLM's backend over transformers' own modules
  /// The first layer with a window where only some layers have one, which vLLM refuses; 0: all or
  /// none.
  int64_t windows_from = 0;
  int64_t least_expert_slice = 0;  // a rank's share of an expert is padded to this
  int64_t renumbered_from = 0;     // layers from here on count from 0 in the cross decoder
  bool rotary_in_each = false;     // each layer has a rotary table of its own, enlarged for videos
  bool rotary_in_all = false;      // layers that do not rotate have a rotary table too
  bool attention_free = false;
  bool own_besides_window = false;  // a window of n tokens means n tokens before the own one
  bool scalar_scale = false;        // the embedding's factor as a buffer beside the state dict
  /// Positions in time, height and width never exceed the count of tokens.
  bool counted_positions = false;
  bool float_rotary = false;      // rotary tables in float32
  bool bounded_decay = false;     // of the delta rule, whatever the config says
  bool float_states = false;      // recurrent states are float32, unless the launch says otherwise
  bool quantizes_router = false;  // the router is a linear layer like others
  bool expands_latents = false;   // caches the keys and values that latents expand to
  /// Latent attention has a scale of 1, and nothing computed from its weights.
  bool unit_scale = false;
  bool whole_attention = false;  // no scheme quantizes attention, its indexer and recurrent mixers
  bool plain_fp4_queries =
      false;                 // ModelOpt's NVFP4 leaves q, k, v and the index beside them whole
  bool idle_scales = false;  // attention has scales, but takes none from quantized checkpoints
  /// Each layer with chosen keys has a copy of the choice for all tokens of a step, from 0.30 on.
  bool copies_whole_steps = false;
  int64_t predicted_streams = 1;  // residual streams that layers which predict are handed
  /// Release before which a buffer for these streams is there whether layers predict or not.
  VllmVersion keeps_streams_before{};
  /// Release from which shared experts are whole on each rank where ranks divide the tokens of a
  /// mixture (experts over the ranks of several replicas).
  std::optional<VllmVersion> whole_shared{};
  std::string refused;  // why vLLM does not serve the model; empty: it does
  std::string whole;    // why vLLM's shards of several ranks are unusable; empty: they are usable
};

/// A head that shares the token table, and the names of both where a checkpoint holds a head of its
/// own all the same.
struct TiedHead {
  std::string table, head;  // vLLM's names of the two weights
  std::string tensor;       // name of the head in the checkpoint
  bool stored = false;      // the checkpoint holds a copy of the table under this name
};

struct VisionSpec;  // vision_spec.h

/// A checkpoint tensor that holds as many matrices as its first size says, or `count` matrices one
/// under the other: they are read as NAME[0], NAME[1] and so on.
struct StackedTensor {
  std::string tensor;
  std::vector<int64_t> stored_shape;
  int64_t count = 0;
  std::string name{}, ending{};  // where not empty, names are `name`[i]`ending` instead of NAME[i]
  std::vector<int64_t> single_shape{};  // of each matrix, with `name`
};

/// An input of each layer beside the residual (Gemma 3n and 4), from the token's id and the first
/// layer's input x: (norm(projection(x) * projection_factor) + table[id] * table_factor) * factor,
/// the norm over each layer's numbers.
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
  /// Dtype of the checkpoint by its config; weights are converted to the run's dtype.
  DType dtype = DType::bf16;
  bool dtype_stated = true;    // false: the config has no dtype; checkpoint::model_dtype() looks
  std::string quantization;    // quantization_config's method; empty: plain weights
  bool whole_experts = false;  // ranks of `run` have some experts each, not a share of every expert
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  /// Context where the launch asks for none and memory does not bound it; 0: max_position.
  int64_t usual_length = 0;
  /// Longest context that the config allows, in tokens (RoPE scaling applied as vLLM derives it).
  int64_t max_position = 0;

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
  std::optional<TiedHead> tied_head;  // where the checkpoint may decide that the head is not tied
  WeightId head_bias = kNoWeight;
  float logits_scale = 1;  // before the cap
  float final_soft_cap = 0;

  std::vector<WeightSpec> weights;
  /// Weights of the vision tower and projector, which stand before `weights` in vLLM's state dict;
  /// empty without a tower. Prompts of text alone do without them.
  std::vector<WeightSpec> towers;
  /// Computation of images through `towers`; null: only prompts of text are answered.
  std::shared_ptr<const VisionSpec> vision;
  /// Module of the buffers that normalise pixels, which the image processor's configuration fills
  /// and which stand after the tower's first weight; empty: none.
  std::string input_norm;
  int64_t layers_in_stored = 1;  // layers that the checkpoint stores under one number
  std::vector<StackedTensor> stacked_tensors;
  /// Other spellings of checkpoint names, tried in order when a tensor is missing: leading `first`
  /// becomes `second` (GPT-2 without "transformer.", OPT without "model.").
  std::vector<std::pair<std::string, std::string>> tensor_prefixes;
  /// Other spellings of words within checkpoint names: `first` becomes `second` (Mixtral's
  /// experts).
  std::vector<std::pair<std::string, std::string>> tensor_words;
  /// Checkpoint tensors that may exist and are not used (rotary inv_freq, GPT-2 masks): regular
  /// expressions for names, or suffixes.
  std::vector<std::string> ignored_suffixes;
  /// Beginnings of names of checkpoint tensors that may exist and are not used (layers and heads of
  /// a tower that vLLM leaves out).
  std::vector<std::string> ignored_prefixes;

  [[nodiscard]] const WeightSpec& weight(WeightId id) const {
    return weights[static_cast<size_t>(id)];
  }
  /// True when the weight is the router's matrix.
  [[nodiscard]] bool is_router(WeightId id) const {
    for (const LayerSpec& layer : layers) {
      const MlpSpec& mlp = layer.shortcut ? *layer.shortcut : layer.mlp;
      if (mlp.router.gate.weight == id) return true;
    }
    return false;
  }
  /// True when layers share blocks of attention and MLP.
  [[nodiscard]] bool shares_blocks() const {
    for (const LayerSpec& layer : layers)
      if (layer.shared_block) return true;
    return false;
  }
  /// True when attention sees only keys that an indexer chooses.
  [[nodiscard]] bool has_indexers() const {
    for (const LayerSpec& layer : layers)
      if (layer.attention.indexer.most > 0) return true;
    return false;
  }
  /// True when sequences have states, which cannot be taken from another sequence's tokens.
  [[nodiscard]] bool is_recurrent() const {
    for (const LayerSpec& layer : layers)
      if (layer.recurrent) return true;
    return false;
  }
};

}  // namespace plimsoll::model
