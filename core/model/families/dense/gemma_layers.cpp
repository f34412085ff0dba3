// Reading of configs that the small models of Gemma 3n and 4 have in common.
#include "base/error.h"
#include "model/families/dense/gemma.h"

namespace plimsoll::model {

int64_t share_keys(const ConfigReader& config, Decoder& decoder) {
  const int64_t layers = decoder.sizes.layers;
  const int64_t shared = config.integer({"num_kv_shared_layers"}, 0, {0, layers - 1});
  const int64_t first = layers - shared;
  for (int64_t i = first; i < layers; ++i) {
    const auto slides = [&](int64_t layer) {
      return decoder.windows[static_cast<size_t>(layer)] > 0;
    };
    int64_t source = first - 1;
    while (source >= 0 && slides(source) != slides(i)) --source;
    if (source < 0) {
      config.refuse("num_kv_shared_layers",
                    fmt::format("layers before number {} of the kinds of those behind it", first));
    }
    decoder.heads[static_cast<size_t>(i)].keys_of = static_cast<int32_t>(source);
  }
  return first;
}

void name_cross_decoder(ModelSpec& spec, int64_t first) {
  spec.vllm.renumbered_from = first;
  const std::string layers = "model.layers.";
  for (WeightSpec& weight : spec.weights) {
    if (!weight.name.starts_with(layers)) continue;
    size_t end = 0;
    const int64_t layer = std::stoll(weight.name.substr(layers.size()), &end);
    if (layer < first) continue;
    weight.name = fmt::format("model.cross_decoder.decoder_layers.{}{}", layer - first,
                              weight.name.substr(layers.size() + end));
  }
}

}  // namespace plimsoll::model
