// Gemma 3n (text): four residuals of which layers compute with one (AltUp), a low-rank branch
// beside attention (Laurel), inputs by layer, gates that are mostly 0 in the first layers, and
// layers that read the keys of others.
#include <cmath>

#include "base/error.h"
#include "model/decoder_layers.h"
#include "model/families/dense/gemma.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// Deviations from the mean below which a normal variable stays with probability `share`.
double normal_quantile(double share) {
  double low = -10, high = 10;
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// A number for each layer, or one for all.
std::vector<double> numbers_by_layer(const ConfigReader& config, std::string_view key,
                                     int64_t layers, double missing) {
  const Json* value = config.find({key});
  std::vector<double> numbers(static_cast<size_t>(layers), missing);
  if (value == nullptr) return numbers;
  const bool list = value->is_array();
  if (list && std::ssize(*value) != layers) config.refuse(key, fmt::format("{} numbers", layers));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Json& number = list ? (*value)[i] : *value;
    if (!number.is_number()) config.refuse(key, fmt::format("a number or {} of them", layers));
    numbers[i] = number.get<double>();
  }
  return numbers;
}

/// Widths by layer, which the shared reader takes as one number.
void read_widths(const ConfigReader& config, Decoder& decoder) {
  constexpr const char* kKey = "intermediate_size";
  for (const double width : numbers_by_layer(config, kKey, decoder.sizes.layers, 16384)) {
    if (!(width >= 1 && width <= static_cast<double>(kWidths.most))) {
      config.refuse(kKey, fmt::format("numbers from 1 to {}", kWidths.most));
    }
    decoder.widths.push_back(static_cast<int64_t>(width));
  }
}

void read_sparsity(const ConfigReader& config, Decoder& decoder) {
  constexpr const char* kKey = "activation_sparsity_pattern";
  for (const double share : numbers_by_layer(config, kKey, decoder.sizes.layers, 0)) {
    if (!(share >= 0 && share < 1)) config.refuse(kKey, "numbers from 0 to below 1");
    const double deviations = share > 0 ? normal_quantile(share) : 0;
    decoder.gate_deviations.push_back(static_cast<float>(deviations));
  }
}

Decoder read_decoder(const ConfigReader& config) {
  Json plain = config.json();
  plain.erase("intermediate_size");
  Decoder decoder{.family = "gemma3n"};
  read_common(config.reading(plain), decoder,
              {.activation_key = "hidden_activation", .flat_rope_is_idle = true});
  const Sizes& sizes = decoder.sizes;
  if (!decoder.tied) config.refuse("tie_word_embeddings", "true");
  if (config.integer({"altup_active_idx"}, 0, {.least = 0}) != 0) {
    config.doubt("altup_active_idx", "0");
  }
  if (!config.boolean({"altup_correct_scale"}, true)) config.doubt("altup_correct_scale", "true");
  read_widths(config, decoder);
  read_sparsity(config, decoder);
  read_gemma_attention(config, decoder, 30);
  decoder.windows = read_windows(config, sizes.layers, config.integer({"sliding_window"}, 512),
                                 [](int64_t layer) { return (layer + 1) % 5 != 0; });
  decoder.heads.assign(
      static_cast<size_t>(sizes.layers),
      {.heads = sizes.heads, .kv_heads = sizes.kv_heads, .head_dim = sizes.head_dim});
  decoder.ropes.push_back(read_local_rope(config, {.head_dim = sizes.head_dim,
                                                   .max_position = sizes.max_position,
                                                   .theta_key = "rope_local_base_freq",
                                                   .layer_type = "sliding_attention"}));
  decoder.layer_input = config.integer({"hidden_size_per_layer_input"}, 256, kWidths);
  decoder.layer_input_ids =
      config.integer({"vocab_size_per_layer_input"}, 262144, {1, sizes.vocab});
  decoder.streams = config.integer({"altup_num_inputs"}, 4, {2, 64});
  decoder.laurel_rank = config.integer({"laurel_rank"}, 64, kWidths);
  decoder.order = {LayerPart::streams,
                   LayerPart::attention,
                   LayerPart::mlp,
                   LayerPart::laurel,
                   LayerPart::input,
                   LayerPart::attention_norm,
                   LayerPart::attention_post_norm,
                   LayerPart::mlp_norm,
                   LayerPart::mlp_post_norm,
                   LayerPart::input_norm};
  return decoder;
}

std::vector<Linear> add_projections(const Decoder& decoder, const std::string& engine,
                                    const std::string& stored, SpecBuilder& add) {
  std::vector<Linear> made;
  const int64_t hidden = decoder.sizes.hidden;
  for (int64_t i = 0; i + 1 < decoder.streams; ++i) {
    const std::string number = "." + std::to_string(i);
    made.push_back(add.linear(engine + number, {Rows::all(stored + number, hidden)}, hidden,
                              {.split = Split::column}));
  }
  return made;
}

}  // namespace

// Weights come in the order of vLLM's class, which has embedding and first projections in a "self
// decoder".
ModelSpec make_gemma3n(const ConfigReader& config) {
  Decoder decoder = read_decoder(config);
  const Sizes& sizes = decoder.sizes;
  const int64_t first_shared = share_keys(config, decoder);
  ModelSpec spec;
  spec.family = decoder.family;
  spec.vllm = decoder.vllm;
  spec.vocab_size = sizes.vocab;
  spec.hidden_size = sizes.hidden;
  spec.max_position = sizes.max_position;
  spec.embedding_scale = decoder.embedding_scale;
  spec.final_soft_cap = decoder.final_soft_cap;
  for (const Rope& rope : decoder.ropes) spec.ropes.push_back(rope.spec);
  SpecBuilder add(spec);
  const std::string out = "model.altup_unembed_projections";
  spec.streams.out = add_projections(decoder, out, out, add);
  add_layers(decoder, spec);
  name_cross_decoder(spec, first_shared);
  const std::string own = "model.self_decoder.";
  const VocabularyTables vocabulary{.table = "model.embed_tokens.weight",
                                    .tied_name = own + "embed_tokens.weight",
                                    .width = sizes.hidden,
                                    .tied = true};
  add_table(vocabulary, add, spec);
  add_layer_inputs(decoder, add, spec);
  const LayerInputs& inputs = spec.layer_inputs;
  for (const WeightId id : {inputs.table, inputs.projection.weight, inputs.norm.weight}) {
    add.at(id).name.replace(0, std::string("model.").size(), own);
  }
  spec.streams.in =
      add_projections(decoder, own + "altup_projections", "model.altup_projections", add);
  spec.final_norm = add.norm("model.norm", sizes.hidden, decoder.norm);
  add_head(vocabulary, add, spec);
  spec.tied_head.reset();  // vLLM has no place for another head
  return spec;
}

}  // namespace plimsoll::model
