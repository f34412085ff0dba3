// Mamba and its kin without attention: every layer is x + mixer(norm x).
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

// Nothing bounds the context of these models; vLLM takes the usual length where none is asked for.
constexpr int64_t kUsualLength = 2048, kLongest = int64_t{1} << 20;

Decoder read_attention_free(const ConfigReader& config, const char* family) {
  constexpr IntegerRange kCounts{1, int64_t{1} << 28};
  Decoder decoder{.family = family};
  Sizes& sizes = decoder.sizes;
  sizes.vocab = config.required({"vocab_size"}, kCounts);
  sizes.hidden = config.required({"hidden_size", "d_model"}, kWidths);
  sizes.layers = config.required({"num_hidden_layers", "n_layer"}, {1, 4096});
  sizes.max_position = kLongest;
  decoder.usual_length = kUsualLength;
  if (read_activation(config, "hidden_act", "silu") != Activation::silu) {
    config.doubt("hidden_act", "silu");
  }
  decoder.norm.epsilon = static_cast<float>(config.positive({"layer_norm_epsilon"}, 1e-5));
  decoder.tied = config.boolean({"tie_word_embeddings"}, false);
  decoder.parts.assign(static_cast<size_t>(sizes.layers),
                       {.attention = false, .recurrent = true, .mlp = false});
  decoder.order = {LayerPart::attention, LayerPart::mlp, LayerPart::attention_norm};
  decoder.names.root = "backbone";
  decoder.names.embedding = "embeddings";
  decoder.names.tied_embedding = "backbone.embeddings";
  decoder.names.final_norm = "norm_f";
  decoder.names.attention_norm = "norm";
  decoder.spellings = {{"backbone.embeddings.", "backbone.embedding."}};
  decoder.vllm.attention_free = true;
  return decoder;
}

RecurrentTable read_mixer(const ConfigReader& config, int64_t hidden) {
  const int64_t expand = config.integer({"expand"}, 2, {1, 65536});
  const int64_t width = config.integer({"intermediate_size", "d_inner"}, expand * hidden, kWidths);
  RecurrentTable table = read_mamba1(config, width, hidden);
  table.module = "mixer";
  return table;
}

}  // namespace

ModelSpec make_mamba(const ConfigReader& config) {
  Decoder decoder = read_attention_free(config, "mamba");
  decoder.recurrent = read_mixer(config, decoder.sizes.hidden);
  return build(decoder);
}

ModelSpec make_falcon_mamba(const ConfigReader& config) {
  Decoder decoder = read_attention_free(config, "falcon_mamba");
  decoder.recurrent = read_mixer(config, decoder.sizes.hidden);
  RecurrentTable& table = *decoder.recurrent;
  table.choice_norms = true;
  const Norm norm{.epsilon = static_cast<float>(config.positive({"mixer_rms_eps"}, 1e-6))};
  table.sizes.step_norm = table.sizes.b_norm = table.sizes.c_norm = norm;
  return build(decoder);
}

ModelSpec make_mamba2(const ConfigReader& config) {
  Decoder decoder = read_attention_free(config, "mamba2");
  const int64_t expand = config.integer({"expand"}, 2, {1, 65536});
  constexpr Mamba2Keys kKeys{"num_heads",   "head_dim",      "n_groups", "state_size",
                             "conv_kernel", "use_conv_bias", "use_bias"};
  decoder.recurrent = read_mamba2(config, kKeys, expand * decoder.sizes.hidden,
                                  {.heads = 128, .head_dim = 64, .groups = 8, .state = 128});
  decoder.recurrent->module = "mixer";
  decoder.recurrent->sizes.norm.epsilon = decoder.norm.epsilon;
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
