#include "model/decoder.h"

#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "model/decoder_layers.h"

namespace plimsoll::model {

void read_without_positions(const ConfigReader& config, Decoder& decoder,
                            const CommonDefaults& defaults) {
  decoder.sizes =
      read_sizes(config, defaults.head_dim, defaults.max_position, defaults.layers_listed);
  if (!defaults.activation_key.empty()) {
    decoder.activation = read_activation(config, defaults.activation_key, "silu");
  }
  decoder.norm.epsilon =
      static_cast<float>(config.positive({defaults.epsilon_key}, defaults.epsilon));
  decoder.tied = config.boolean({"tie_word_embeddings"}, false);
}

void read_common(const ConfigReader& config, Decoder& decoder, const CommonDefaults& defaults) {
  read_without_positions(config, decoder, defaults);
  decoder.ropes = {read_rope(config, {.head_dim = decoder.sizes.head_dim,
                                      .max_position = decoder.sizes.max_position,
                                      .theta = defaults.theta,
                                      .theta_key = defaults.theta_key,
                                      .original_max_position = defaults.original_max_position,
                                      .share_key = defaults.share_key,
                                      .share = defaults.share,
                                      .flat_is_idle = defaults.flat_rope_is_idle})};
}

void read_with_columns(const ConfigReader& config, Decoder& decoder) {
  read_without_positions(config, decoder);
  const Sizes& sizes = decoder.sizes;
  const auto columns = config.integer({"rotary_dim"}, {1, sizes.head_dim});
  const double all = static_cast<double>(sizes.head_dim);
  decoder.ropes = {
      read_rope(config, {.head_dim = sizes.head_dim,
                         .max_position = sizes.max_position,
                         .share_key = columns ? "" : "partial_rotary_factor",
                         .share = static_cast<double>(columns.value_or(1)) / (columns ? all : 1)})};
}

namespace {

/// `qkv`: of q, k and v where that is not the attention's two keys'.
void add_vllm_biases(const ConfigReader& config, std::optional<bool> qkv, Decoder& decoder) {
  const auto add = [](bool in_vllm, bool& bias, Kept& kept) {
    if (bias && !in_vllm) kept = Kept::in_run;
    if (!bias && in_vllm) kept = Kept::in_vllm;
    bias = bias || in_vllm;
  };
  const bool attention =
      config.boolean({"attention_bias"}, false) || config.boolean({"bias"}, false);
  add(qkv.value_or(attention), decoder.qkv_bias, decoder.qkv_bias_kept);
  add(attention, decoder.out_bias, decoder.out_bias_kept);
  add(config.boolean({"mlp_bias"}, false), decoder.mlp_bias, decoder.mlp_bias_kept);
}

}  // namespace

void add_llama_biases(const ConfigReader& config, Decoder& decoder) {
  const bool decides = config.find({"qkv_bias"}) != nullptr;
  add_vllm_biases(
      config, decides ? std::optional(config.boolean({"qkv_bias"}, false)) : std::nullopt, decoder);
}

void add_kin_biases(const ConfigReader& config, Decoder& decoder) {
  add_vllm_biases(config, std::nullopt, decoder);
}

void read_plain_attention_biases(const ConfigReader& config, Decoder& decoder) {
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qkv_bias_kept = decoder.out_bias_kept = Kept::in_run;
}

void read_llama_biases(const ConfigReader& config, Decoder& decoder, bool missing) {
  decoder.out_bias = config.boolean({"attention_bias"}, false) || config.boolean({"bias"}, missing);
  decoder.qkv_bias = config.boolean({"qkv_bias"}, decoder.out_bias);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
}

void want_for_vllm(const ConfigReader& config, std::string_view key, Decoder& decoder) {
  if (config.has(key)) return;
  if (config.describes()) config.refuse(key, "a value: vLLM's class looks it up");
  decoder.vllm.refused =
      fmt::format("vLLM's class looks up \"{}\", which config.json leaves out", key);
}

void want_silu(const ConfigReader& config) {
  if (config.text({"hidden_act"}, "silu") == "silu") return;
  config.refuse("hidden_act", "silu: vLLM's class has no other activation");
}

void read_sparse_types(const ConfigReader& config, Decoder& decoder) {
  constexpr const char* kTypes = "mlp_layer_types";
  if (config.describes()) return;
  Sparse types = sparse_by_types(config, kTypes, decoder.mixture->sparse);
  if (types != decoder.mixture->sparse) {
    decoder.vllm.refused = fmt::format(
        "vLLM's class reads \"first_k_dense_replace\", which \"{}\" contradicts", kTypes);
  }
  decoder.mixture->sparse = std::move(types);
}

void use_transformers_class(Decoder& decoder) {
  decoder.attention_order = AttentionOrder::out_first;
  decoder.scales = ScalesPlace::at_end;
  decoder.vllm.knows_stage = decoder.vllm.generic = true;
}

void use_outer_norms(Decoder& decoder) {
  decoder.placement = NormPlacement::sandwich;
  decoder.names.attention_norm = decoder.names.mlp_norm = "";
  decoder.names.attention_post_norm = "post_attention_layernorm";
  decoder.names.mlp_post_norm = "post_feedforward_layernorm";
}

void use_layer_norms(const ConfigReader& config, Decoder& decoder, std::string_view key,
                     NormTensors tensors) {
  decoder.norm.kind = NormKind::layer;
  decoder.norm.epsilon = static_cast<float>(config.positive({key}, 1e-5));
  decoder.norm_tensors = tensors;
}

void mix_streams(int64_t streams, int64_t gates, int64_t scales, Decoder& decoder) {
  const int64_t width = streams * decoder.sizes.hidden, mixes = gates * streams;
  for (const char* branch : {"hc_attn_", "hc_ffn_"}) {
    const std::string name = branch;
    decoder.layer_parameters.push_back({name + "fn", {mixes, width}, DType::f32});
    decoder.layer_parameters.push_back({name + "base", {mixes}, DType::f32});
    decoder.layer_parameters.push_back({name + "scale", {scales}, DType::f32});
  }
  decoder.end_parameters = {{"hc_head_fn", {streams, width}, DType::f32},
                            {"hc_head_base", {streams}, DType::f32},
                            {"hc_head_scale", {1}, DType::f32}};
}

void add_parameters(const std::vector<VllmParameter>& parameters, const std::string& prefix,
                    SpecBuilder& add) {
  for (const VllmParameter& parameter : parameters) {
    WeightSpec& weight = add.at(add.parameter(prefix + parameter.name, parameter.shape));
    weight.dtype = parameter.dtype;
    weight.kept = Kept::in_vllm;
  }
}

void add_table(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec) {
  const std::string& own = names.engine_table.empty() ? names.table : names.engine_table;
  spec.embedding =
      add.matrix(names.tied ? names.tied_name : own, names.table, spec.vocab_size, names.width,
                 names.tied ? WeightUse::linear : WeightUse::embedding, Split::vocabulary);
}

void add_head(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec) {
  if (!names.tied) {
    spec.head = add.matrix(names.head, names.head, spec.vocab_size, names.width, WeightUse::linear,
                           Split::vocabulary);
    return;
  }
  spec.head = spec.embedding;
  // vLLM looks for a head of the checkpoint's own by this name alone.
  if (names.head == "lm_head.weight") {
    const std::string& table = names.engine_table.empty() ? names.table : names.engine_table;
    spec.tied_head = TiedHead{.table = table, .head = names.head, .tensor = names.head};
  }
  spec.tensor_prefixes.emplace_back(names.table, names.head);  // the one table under its other name
  spec.ignored_suffixes.push_back(names.head);
}

namespace {

void add_learned_positions(const Decoder& decoder, SpecBuilder& add, ModelSpec& spec) {
  if (decoder.learned_positions == 0) return;
  const std::string positions = decoder.names.root + "." + decoder.positions + ".weight";
  spec.position_embedding = add.matrix(
      positions, positions, decoder.learned_positions, decoder.sizes.hidden, WeightUse::embedding,
      decoder.cut_positions ? Split::vocabulary : Split::replicated);
  if (!decoder.cut_positions) return;
  add.add({.name = decoder.names.root + ".position_ids",
           .shape = {decoder.learned_positions},
           .use = WeightUse::vector,
           .dtype = DType::i64,
           .kept = Kept::in_vllm,
           .is_buffer = true});
}

void add_token_types(const Decoder& decoder, SpecBuilder& add) {
  if (decoder.token_types == 0) return;
  const std::string types = decoder.names.root + ".embeddings.token_type_embeddings.weight";
  const WeightId table = add.matrix(types, types, decoder.token_types, decoder.sizes.hidden,
                                    WeightUse::embedding, Split::vocabulary);
  add.at(table).kept = Kept::in_vllm;
}

void add_head_bias(const VocabularyTables& vocabulary, SpecBuilder& add, ModelSpec& spec) {
  std::string name = vocabulary.head;
  name.replace(name.rfind("weight"), std::string::npos, "bias");
  spec.head_bias = add.vector(name, spec.vocab_size);
  add.at(spec.head_bias).split = Split::vocabulary;
}

}  // namespace

void add_layer_inputs(const Decoder& decoder, SpecBuilder& add, ModelSpec& spec) {
  const int64_t width = decoder.layer_input, all = decoder.sizes.layers * width;
  const std::string root = decoder.names.root + ".";
  LayerInputs& inputs = spec.layer_inputs;
  inputs.width = width;
  inputs.projection_factor =
      static_cast<float>(1 / std::sqrt(static_cast<double>(decoder.sizes.hidden)));
  inputs.table_factor = static_cast<float>(std::sqrt(static_cast<double>(width)));
  inputs.factor = static_cast<float>(std::sqrt(0.5));
  const std::string table = root + "embed_tokens_per_layer.weight";
  inputs.table = add.matrix(table, table, decoder.layer_input_ids, all, WeightUse::embedding,
                            Split::vocabulary);
  inputs.projection = add.linear(root + "per_layer_model_projection", all, decoder.sizes.hidden,
                                 {.split = Split::column});
  inputs.norm = add.norm(root + "per_layer_projection_norm", width, decoder.norm);
}

ModelSpec build(const Decoder& decoder) {
  ModelSpec spec;
  const Sizes& sizes = decoder.sizes;
  const DecoderNames& names = decoder.names;
  spec.family = decoder.family;
  spec.vllm = decoder.vllm;
  spec.vocab_size = sizes.vocab;
  spec.hidden_size = sizes.hidden;
  spec.max_position = decoder.ropes.empty() ? sizes.max_position : decoder.ropes.front().context;
  spec.usual_length = decoder.usual_length;
  spec.embedding_scale = decoder.embedding_scale;
  spec.final_soft_cap = decoder.final_soft_cap;
  spec.logits_scale = decoder.logits_scale;
  spec.tensor_prefixes = decoder.spellings;
  spec.ignored_suffixes = decoder.ignored;
  for (const Rope& rope : decoder.ropes) spec.ropes.push_back(rope.spec);

  SpecBuilder add(spec);
  const std::string engine_table = names.engine_embedding.empty()
                                       ? std::string()
                                       : names.root + "." + names.engine_embedding + ".weight";
  const VocabularyTables vocabulary{.table = names.root + "." + names.embedding + ".weight",
                                    .tied_name = names.tied_embedding + ".weight",
                                    .engine_table = engine_table,
                                    .head = names.head + ".weight",
                                    .width = sizes.hidden,
                                    .tied = decoder.tied};
  add_table(vocabulary, add, spec);
  if (!decoder.embedding_norm.empty()) {
    spec.embedding_norm = add.norm(names.root + "." + decoder.embedding_norm, sizes.hidden,
                                   decoder.norm, decoder.norm_tensors);
  }
  add_learned_positions(decoder, add, spec);
  add_token_types(decoder, add);
  if (decoder.layer_input > 0) add_layer_inputs(decoder, add, spec);
  add_layers(decoder, spec);
  if (!names.final_norm.empty()) {
    spec.final_norm = add.norm(names.root + "." + names.final_norm, sizes.hidden, decoder.norm,
                               decoder.norm_tensors);
  }
  add_parameters(decoder.end_parameters, names.root + ".", add);
  add_head(vocabulary, add, spec);
  if (decoder.head_bias) add_head_bias(vocabulary, add, spec);
  return spec;
}

void store_under(const std::vector<std::pair<std::string, std::string>>& words, ModelSpec& spec) {
  const auto rename = [&](std::string& name) {
    for (const auto& [ours, stored] : words) {
      const size_t at = name.find(ours);
      if (at != std::string::npos) name.replace(at, ours.size(), stored);
    }
  };
  for (WeightSpec& weight : spec.weights) {
    for (Part& part : weight.parts) rename(part.tensor);
  }
  for (auto& [name, other] : spec.tensor_prefixes) {
    rename(name);
    rename(other);
  }
  for (std::string& suffix : spec.ignored_suffixes) rename(suffix);
}

ModelSpec build_without_prediction(const ConfigReader& config, const Decoder& decoder) {
  ModelSpec spec = build(decoder);
  const auto layers = static_cast<int64_t>(spec.layers.size());
  const int64_t more = config.integer({"num_nextn_predict_layers"}, 0, {0, 64});
  for (int64_t i = layers; i < layers + more; ++i) {
    spec.ignored_prefixes.push_back(fmt::format("model.layers.{}.", i));
  }
  return spec;
}

}  // namespace plimsoll::model
