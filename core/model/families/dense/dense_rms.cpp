// Llama's kin: RMS norms before each branch.
#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

void add_attention_biases(const ConfigReader& config, Decoder& decoder) {
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
}

/// Which layers rotate q and k: 1 in `no_rope_layers`, else all but every
/// `no_rope_layer_interval`th.
std::vector<int32_t> rotated_layers(const ConfigReader& config, int64_t layers) {
  const Json* listed = config.find({"no_rope_layers"});
  const bool counted = listed == nullptr || (listed->is_array() && listed->empty());
  const int64_t interval = counted ? config.integer({"no_rope_layer_interval"}, 4) : 1;
  std::vector<int32_t> ropes;
  for (int64_t i = 1; i <= layers; ++i) ropes.push_back(i % interval == 0 ? -1 : 0);
  if (counted) return ropes;
  if (!listed->is_array() || listed->size() != ropes.size()) {
    config.refuse("no_rope_layers", fmt::format("a list of {} layers", layers));
  }
  for (size_t i = 0; i < ropes.size(); ++i) {
    const Json& rotates = (*listed)[i];
    if (rotates != 0 && rotates != 1) config.refuse("no_rope_layers", "a list of 0 and 1");
    ropes[i] = rotates == 1 ? 0 : -1;
  }
  return ropes;
}

/// What classes that scale as Llama 3 does have for `rope_parameters`.
Json llama3_rope(double theta, double factor) {
  return {{"rope_type", "llama3"}, {"rope_theta", theta},
          {"factor", factor},      {"low_freq_factor", 1},
          {"high_freq_factor", 4}, {"original_max_position_embeddings", 8192}};
}

}  // namespace

ModelSpec make_apertus(const ConfigReader& config) {
  static const Json kRope = llama3_rope(12e6, 8);
  Decoder decoder{.family = "apertus"};
  decoder.xielu = config.text({"hidden_act"}, "xielu") == "xielu";
  read_common(config, decoder,
              {.sizes = {.vocab = 131072,
                         .hidden = 4096,
                         .intermediate = 14336,
                         .layers = 32,
                         .heads = 32,
                         .max_position = 65536},
               .epsilon = 1e-5,
               .theta = 12e6,
               .activation = "relu",
               .activation_key = decoder.xielu ? "" : "hidden_act",
               .rope = &kRope});
  add_attention_biases(config, decoder);
  add_llama_biases(config, decoder);
  decoder.mlp_kind = MlpKind::plain;
  decoder.qk_norm = true;
  decoder.names.attention_norm = "attention_layernorm";
  decoder.names.mlp_norm = "feedforward_layernorm";
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_arcee(const ConfigReader& config) {
  Decoder decoder{.family = "arcee"};
  read_common(config, decoder,
              {.sizes = {.vocab = 32000,
                         .hidden = 2560,
                         .intermediate = 18432,
                         .layers = 32,
                         .heads = 32,
                         .max_position = 4096},
               .epsilon = 1e-5,
               .activation = "relu2"});
  add_attention_biases(config, decoder);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.mlp_kind = MlpKind::plain;
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_cwm(const ConfigReader& config) {
  static const Json kRope = llama3_rope(1e6, 16);
  Decoder decoder{.family = "cwm"};
  read_common(config, decoder,
              {.sizes = {.vocab = 128256,
                         .hidden = 6144,
                         .intermediate = 21504,
                         .layers = 64,
                         .heads = 48,
                         .kv_heads = 8,
                         .head_dim = 128,
                         .max_position = 131072},
               .epsilon = 1e-5,
               .theta = 1e6,
               .rope = &kRope});
  decoder.windows =
      read_windows(config, decoder.sizes.layers, config.integer({"sliding_window"}, 8192),
                   [](int64_t layer) { return layer % 4 != 0; });
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_ernie4_5(const ConfigReader& config) {
  Decoder decoder{.family = "ernie4_5"};
  read_common(config, decoder,
              {.sizes = {.vocab = 103424,
                         .hidden = 1024,
                         .intermediate = 3072,
                         .layers = 18,
                         .heads = 16,
                         .kv_heads = 2,
                         .head_dim = 128,
                         .max_position = 131072},
               .epsilon = 1e-5,
               .theta = 500000,
               .tied = true});
  // vLLM's class is Llama's, which reads other keys, and has no bias of the output projection.
  const bool bias = config.boolean({"use_bias"}, false);
  decoder.qkv_bias = decoder.mlp_bias = bias;
  add_llama_biases(config, decoder);
  decoder.out_bias = bias;
  decoder.out_bias_kept = Kept::in_run;
  decoder.rope_pairs = RopePairs::neighbours;
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_helium(const ConfigReader& config) {
  Decoder decoder{.family = "helium"};
  read_common(config, decoder,
              {.sizes = {.vocab = 48000,
                         .hidden = 2560,
                         .intermediate = 7040,
                         .layers = 24,
                         .heads = 20,
                         .kv_heads = 20,
                         .head_dim = 128,
                         .max_position = 4096},
               .epsilon = 1e-8,
               .theta = 100000});
  decoder.qkv_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.rope_pairs = RopePairs::neighbours;
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_hunyuan_dense(const ConfigReader& config) {
  Decoder decoder{.family = "hunyuan_v1_dense"};
  read_common(config, decoder,
              {.sizes = {.vocab = 290943,
                         .hidden = 4096,
                         .intermediate = 11008,
                         .layers = 32,
                         .heads = 32,
                         .max_position = 2048},
               .epsilon = 1e-5});
  add_attention_biases(config, decoder);
  decoder.qk_norm = true;
  decoder.head_norm.order = NormOrder::after_rope;
  decoder.names.q_norm = "query_layernorm";
  decoder.names.k_norm = "key_layernorm";
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_internlm3(const ConfigReader& config) {
  Decoder decoder{.family = "internlm3"};
  read_common(config, decoder,
              {.sizes = {.vocab = 128512,
                         .hidden = 4096,
                         .intermediate = 11008,
                         .layers = 32,
                         .heads = 32,
                         .max_position = 32768}});
  decoder.qkv_bias = config.boolean({"qkv_bias"}, false);
  decoder.out_bias = decoder.mlp_bias = config.boolean({"bias"}, false);
  add_llama_biases(config, decoder);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_ministral3(const ConfigReader& config) {
  static const Json kRope = {{"rope_type", "yarn"},
                             {"rope_theta", 1e6},
                             {"factor", 16},
                             {"original_max_position_embeddings", 16384},
                             {"beta_fast", 32},
                             {"beta_slow", 1},
                             {"mscale", 1},
                             {"mscale_all_dim", 1},
                             {"llama_4_scaling_beta", 0.1}};
  Decoder decoder{.family = "ministral3"};
  read_common(config, decoder,
              {.sizes = {.vocab = 131072,
                         .hidden = 4096,
                         .intermediate = 14336,
                         .layers = 34,
                         .heads = 32,
                         .kv_heads = 8,
                         .head_dim = 128,
                         .max_position = 262144},
               .epsilon = 1e-5,
               .rope = &kRope});
  decoder.windows = uniform_windows(config, decoder.sizes.layers, 0);
  const auto stated =
      config.object(config.object("rope_parameters") ? "rope_parameters" : "rope_scaling");
  const ConfigReader rope = stated ? *stated : ConfigReader::plain(kRope);
  decoder.query_growth = {
      .beta = static_cast<float>(rope.positive({"llama_4_scaling_beta"}).value_or(0)),
      .period = rope.integer({"original_max_position_embeddings"}, decoder.sizes.max_position)};
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_seed_oss(const ConfigReader& config) {
  Decoder decoder{.family = "seed_oss"};
  read_common(config, decoder,
              {.sizes = {.vocab = 155136,
                         .hidden = 4096,
                         .intermediate = 27648,
                         .layers = 64,
                         .heads = 80,
                         .kv_heads = 8,
                         .head_dim = 128,
                         .max_position = 524288}});
  decoder.qkv_bias = config.boolean({"attention_bias"}, true);
  decoder.out_bias = config.boolean({"attention_out_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_smollm3(const ConfigReader& config) {
  Decoder decoder{.family = "smollm3"};
  read_common(config, decoder,
              {.sizes = {.vocab = 128256,
                         .hidden = 2048,
                         .intermediate = 11008,
                         .layers = 36,
                         .heads = 16,
                         .kv_heads = 4,
                         .max_position = 32768},
               .theta = 2e6,
               .tied = true});
  add_attention_biases(config, decoder);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.layer_ropes = rotated_layers(config, decoder.sizes.layers);
  const int64_t window = config.boolean({"use_sliding_window"}, false)
                             ? config.integer({"sliding_window"}, 0, {0})
                             : 0;
  // A layer with a window is one without RoPE, where the config does not say.
  decoder.windows = read_windows(config, decoder.sizes.layers, window, [&](int64_t layer) {
    return window > 0 && decoder.layer_ropes[static_cast<size_t>(layer)] < 0;
  });
  use_transformers_class(decoder);
  return build(decoder);
}

}  // namespace plimsoll::model
