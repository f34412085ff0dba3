// Falcon, BLOOM, MPT and GPT-BigCode: ALiBi or learned positions, one key head or all, q, k and v
// in one tensor.
#include <bit>
#include <cmath>

#include "base/dtype.h"
#include "model/decoder.h"
#include "model/families/dense/alibi.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// MPT's: of the next power of two from n up, those of odd places first, cut to n.
std::vector<float> mpt_slopes(const ConfigReader& config, int64_t heads, double largest) {
  if (config.describes()) return {};
  const auto m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  const auto slope = [&](int64_t i) {
    return static_cast<float>(
        std::exp2(-largest * static_cast<double>(i + 1) / static_cast<double>(m)));
  };
  std::vector<float> slopes;
  if (m == heads) {
    for (int64_t i = 0; i < m; ++i) slopes.push_back(slope(i));
    return slopes;
  }
  for (const int64_t first : {1, 0}) {
    for (int64_t i = first; i < m; i += 2) slopes.push_back(slope(i));
  }
  slopes.resize(static_cast<size_t>(heads));
  return slopes;
}

void round_to_bf16(std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  convert(values.data(), DType::f32, bits.data(), DType::bf16, values.size());
  convert(bits.data(), DType::bf16, values.data(), DType::f32, values.size());
}

void set_fourfold_names(Decoder& decoder) {
  decoder.names.root = "transformer";
  decoder.names.layers = "h";
  decoder.names.embedding = "word_embeddings";
  decoder.names.attention = "self_attention";
  decoder.names.qkv = "query_key_value";
  decoder.names.out = "dense";
  decoder.names.up = "dense_h_to_4h";
  decoder.names.down = "dense_4h_to_h";
  decoder.names.final_norm = "ln_f";
  decoder.mlp_kind = MlpKind::plain;
  decoder.interleaved = InterleavedCut::untangled;
}

/// Falcon's KV heads, norms and how its q, k and v lie.
void read_falcon_layout(const ConfigReader& config, Decoder& decoder) {
  Sizes& sizes = decoder.sizes;
  const bool grouped = config.boolean({"new_decoder_architecture"}, false);
  const bool parallel = config.boolean({"parallel_attn"}, true);
  if (grouped && !parallel) config.doubt("parallel_attn", "true with new_decoder_architecture");
  if (grouped) {
    sizes.kv_heads = config.integer({"num_kv_heads", "n_head_kv"}, sizes.heads, {1, sizes.heads});
    if (sizes.heads % sizes.kv_heads != 0) {
      config.refuse("num_kv_heads", "a divisor of num_attention_heads");
    }
  } else if (config.boolean({"multi_query"}, true)) {
    sizes.kv_heads = 1;
  }
  decoder.qkv_stored = QkvStored::grouped;
  decoder.order = {LayerPart::attention, LayerPart::mlp, LayerPart::attention_norm,
                   LayerPart::mlp_norm};
  if (!parallel) {
    decoder.order = {LayerPart::attention, LayerPart::mlp, LayerPart::mlp_norm,
                     LayerPart::attention_norm};
    return;
  }
  decoder.placement = NormPlacement::parallel;
  if (config.integer({"num_ln_in_parallel_attn"}, grouped ? 2 : 1, {1, 2}) == 2) {
    decoder.names.attention_norm = "ln_attn";
    decoder.names.mlp_norm = "ln_mlp";
  } else {
    decoder.names.mlp_norm = "";
  }
}

}  // namespace

ModelSpec make_falcon(const ConfigReader& config) {
  Decoder decoder{.family = "falcon"};
  const bool alibi = config.boolean({"alibi"}, false);
  Sizes& sizes = decoder.sizes;
  sizes = read_fourfold_sizes(config);
  decoder.activation = read_activation(config, "activation", "gelu");
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = config.boolean({"bias"}, false);
  use_layer_norms(config, decoder, "layer_norm_epsilon", NormTensors::weight_and_bias);
  set_fourfold_names(decoder);
  read_falcon_layout(config, decoder);
  if (config.describes()) sizes.intermediate = 4 * sizes.hidden;
  if (sizes.intermediate != 4 * sizes.hidden) {
    decoder.vllm.refused = "vLLM's Falcon does not read ffn_hidden_size";
  }
  if (alibi) {
    // The reference adds before it scales, in BF16.
    decoder.alibi = {.factor = 1 / std::sqrt(static_cast<float>(sizes.head_dim)),
                     .of = Alibi::Of::position_bf16};
    decoder.alibi_slopes = alibi_slopes(config, sizes.heads);
    round_to_bf16(decoder.alibi_slopes);
  } else {
    decoder.ropes = {
        read_rope(config, {.head_dim = sizes.head_dim, .max_position = sizes.max_position})};
  }
  return build(decoder);
}

ModelSpec make_bloom(const ConfigReader& config) {
  Decoder decoder{.family = "bloom"};
  decoder.sizes = read_fourfold_sizes(config);
  if (config.boolean({"apply_residual_connection_post_layernorm"}, false)) {
    config.doubt("apply_residual_connection_post_layernorm", "false");
  }
  decoder.activation = Activation::gelu_tanh;
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
  use_layer_norms(config, decoder, "layer_norm_epsilon", NormTensors::weight_and_bias);
  set_fourfold_names(decoder);
  decoder.qkv_stored = QkvStored::grouped;
  decoder.embedding_norm = "word_embeddings_layernorm";
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp_norm,
                   LayerPart::mlp};
  decoder.alibi.emplace();
  decoder.alibi_slopes = alibi_slopes(config, decoder.sizes.heads);
  decoder.spellings = {{"transformer.", ""}};
  if (!decoder.tied) decoder.vllm.refused = "vLLM fails to load BLOOM with a head of its own";
  return build(decoder);
}

ModelSpec make_mpt(const ConfigReader& config) {
  Decoder decoder{.family = "mpt"};
  const ConfigReader attention = config.object_or_empty("attn_config");
  decoder.sizes = read_fourfold_sizes(config);
  Sizes& sizes = decoder.sizes;
  sizes.intermediate = 4 * sizes.hidden;  // whatever expansion_ratio says
  if (!attention.boolean({"alibi"}, true)) attention.doubt("alibi", "true");
  if (attention.boolean({"qk_ln"}, false)) attention.doubt("qk_ln", "false");
  decoder.activation = Activation::gelu;
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  use_layer_norms(config, decoder, "layer_norm_epsilon", NormTensors::weight);
  decoder.mlp_kind = MlpKind::plain;
  decoder.qkv_stored = QkvStored::fused;
  decoder.clamp = static_cast<float>(attention.positive({"clip_qkv"}).value_or(0));
  decoder.attention_scale = static_cast<float>(attention.positive({"softmax_scale"}).value_or(0));
  decoder.alibi.emplace();
  decoder.alibi_slopes = mpt_slopes(config, sizes.heads, attention.positive({"alibi_bias_max"}, 8));
  decoder.names = {.root = "transformer",
                   .layers = "blocks",
                   .final_norm = "norm_f",
                   .embedding = "wte",
                   .attention = "attn",
                   .qkv = "Wqkv",
                   .out = "out_proj",
                   .mlp = "ffn",
                   .attention_norm = "norm_1",
                   .mlp_norm = "norm_2"};
  decoder.vllm.knows_stage = true;  // vLLM's class did, while there was one
  decoder.vllm.refused = "vLLM has no class for MPT";
  return build(decoder);
}

ModelSpec make_gpt_bigcode(const ConfigReader& config) {
  Decoder decoder{.family = "gpt_bigcode"};
  decoder.sizes = read_fourfold_sizes(config);
  if (config.boolean({"add_cross_attention"}, false)) {
    config.doubt("add_cross_attention", "false: encoder states are not supported");
  }
  const bool one_key_head = config.boolean({"multi_query"}, true);
  if (one_key_head) decoder.sizes.kv_heads = 1;
  decoder.activation = read_activation(config, "activation_function", "gelu_pytorch_tanh");
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  if (!config.boolean({"scale_attn_weights"}, true)) decoder.attention_scale = 1;
  use_layer_norms(config, decoder, "layer_norm_epsilon", NormTensors::weight_and_bias);
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
  decoder.mlp_kind = MlpKind::plain;
  decoder.qkv_stored = QkvStored::grouped;
  decoder.interleaved = InterleavedCut::untangled;
  if (!one_key_head) {  // one matrix of equal parts has no plan
    decoder.interleaved = InterleavedCut::in_place;
    decoder.qkv_split = decoder.attention_out_split = Split::replicated;
  }
  decoder.learned_positions = decoder.sizes.max_position;
  decoder.positions = "wpe";
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp_norm,
                   LayerPart::mlp};
  decoder.names = {.layers = "h",
                   .final_norm = "ln_f",
                   .embedding = "wte",
                   .attention = "attn",
                   .qkv = "c_attn",
                   .out = "c_proj",
                   .up = "c_fc",
                   .down = "c_proj",
                   .attention_norm = "ln_1",
                   .mlp_norm = "ln_2"};
  decoder.spellings = {{"model.", "transformer."}};
  decoder.ignored = {".attn.bias", ".attn.masked_bias"};
  // vLLM's Transformers class has a plan for attention alone.
  decoder.mlp_split = Split::replicated;
  decoder.scales = ScalesPlace::at_end;
  decoder.vllm.knows_stage = decoder.vllm.generic = true;
  return build(decoder);
}

}  // namespace plimsoll::model
