#include "model/decoder_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace plimsoll::model {
namespace {

constexpr IntegerRange kLayers{1, 4096};
constexpr int64_t kUsualRows = 2048;  // of vLLM's rotary table, where a config states no length

// head_dim is 0 where hidden does not divide by heads. `fourfold`: of MLPs, where the config is
// silent. `layers_listed`: the number of layers may be missing.
Sizes read_plain_sizes(const ConfigReader& config, bool fourfold, int64_t max_position = 0,
                       bool layers_listed = false) {
  Sizes sizes;
  sizes.vocab = config.required({"vocab_size", "padded_vocab_size"}, kVocabularies);
  const auto outer = config.integer({"n_embed"}, kWidths);
  sizes.hidden = outer ? *outer : config.required({"hidden_size", "n_embd", "d_model"}, kWidths);
  sizes.intermediate =
      config.integer({"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"},
                     fourfold ? 4 * sizes.hidden : 0, kWidths);
  sizes.layers =
      config.integer({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, 0, kLayers);
  if (sizes.layers == 0 && (config.has("num_hidden_layers") || !layers_listed)) {
    config.refuse("num_hidden_layers", "a number of layers from 1");
  }
  sizes.heads = config.required({"num_attention_heads", "n_head", "n_heads"}, kHeadCounts);
  sizes.kv_heads = sizes.heads;
  sizes.head_dim = sizes.hidden % sizes.heads == 0 ? sizes.hidden / sizes.heads : 0;
  const IntegerRange positions{config.describes() ? 0 : 1, kPositions.most};
  sizes.max_position = config.integer(
      {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"},
      max_position, positions);
  if (sizes.max_position == 0) sizes.max_position = kUsualRows;
  return sizes;
}

[[noreturn]] void refuse_uneven_heads(const ConfigReader& config, const Sizes& sizes) {
  config.refuse("num_attention_heads", fmt::format("a divisor of hidden_size ({})", sizes.hidden));
}

}  // namespace

Sizes read_sizes(const ConfigReader& config, int64_t head_dim, int64_t max_position,
                 bool layers_listed) {
  Sizes sizes =
      read_plain_sizes(config, false, config.describes() ? 0 : max_position, layers_listed);
  sizes.kv_heads = config.integer({"num_key_value_heads"}, sizes.heads, kHeadCounts);
  require_even_groups(config, "num_key_value_heads", sizes.heads, sizes.kv_heads);
  const int64_t stated =
      config.integer({"head_dim"}, 0, {config.describes() ? 0 : 1, kHeadDims.most});
  if (sizes.head_dim == 0) sizes.head_dim = head_dim;
  if (stated > 0) sizes.head_dim = stated;
  if (sizes.head_dim == 0) refuse_uneven_heads(config, sizes);
  return sizes;
}

void require_even_groups(const ConfigReader& config, std::string_view key, int64_t heads,
                         int64_t kv_heads) {
  if (heads % kv_heads == 0) return;
  config.refuse(key, fmt::format("a divisor of num_attention_heads ({})", heads));
}

void refuse_many_heads(const ConfigReader& config, const Sizes& sizes) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (sizes.heads * sizes.layers <= kMost) return;
  config.refuse("num_attention_heads", fmt::format("at most {} in all layers", kMost));
}

Sizes read_even_sizes(const ConfigReader& config) {
  const Sizes sizes = read_plain_sizes(config, false);
  if (sizes.head_dim == 0) refuse_uneven_heads(config, sizes);
  return sizes;
}

Sizes read_fourfold_sizes(const ConfigReader& config) {
  const Sizes sizes = read_plain_sizes(config, true);
  if (sizes.head_dim == 0) refuse_uneven_heads(config, sizes);
  return sizes;
}

Activation read_activation(const ConfigReader& config, std::string_view key,
                           std::string_view missing) {
  using Row = std::pair<std::string_view, Activation>;
  static constexpr std::array<Row, 11> kNames = {{{"silu", Activation::silu},
                                                  {"swish", Activation::silu},
                                                  {"gelu", Activation::gelu},
                                                  {"gelu_python", Activation::gelu},
                                                  {"gelu_new", Activation::gelu_tanh},
                                                  {"gelu_fast", Activation::gelu_tanh},
                                                  {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                  {"relu", Activation::relu},
                                                  {"relu2", Activation::relu_squared},
                                                  {"quick_gelu", Activation::gelu_quick},
                                                  {"gelu_quick", Activation::gelu_quick}}};
  const std::string name = config.text({key}, missing);
  const auto* const row = std::ranges::find(kNames, name, &Row::first);
  if (row == kNames.end()) {
    std::string known;
    for (const Row& each : kNames) known += (known.empty() ? "" : ", ") + std::string(each.first);
    config.doubt(key, "one of " + known);
    return Activation::silu;
  }
  return row->second;
}

namespace {

/// transformers 5 calls all kinds of recurrent layers by one name, and saves that.
std::string_view older_layer_type(std::string_view type, std::string_view yes,
                                  std::string_view no) {
  const auto is_asked = [&](std::string_view word) { return yes == word || no == word; };
  if (type == "linear_attention" && is_asked("mamba")) return "mamba";
  if (type == "full_attention" && is_asked("attention")) return "attention";
  return type;
}

}  // namespace

std::optional<std::vector<bool>> read_layer_types(const ConfigReader& config, std::string_view key,
                                                  int64_t layers, std::string_view yes,
                                                  std::string_view no) {
  const auto types = config.texts(key);
  if (!types) return std::nullopt;
  std::vector<bool> chosen(static_cast<size_t>(layers));
  if (types->size() != chosen.size())
    config.refuse(key, fmt::format("a list of {} layers", layers));
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string_view type = older_layer_type((*types)[i], yes, no);
    chosen[i] = type == yes;
    if (type != yes && !no.empty() && type != no) {
      config.doubt(key, fmt::format("{} and {} alone", yes, no));
    }
  }
  return chosen;
}

std::optional<std::vector<bool>> read_layer_list(const ConfigReader& config, std::string_view key,
                                                 int64_t layers, int64_t first) {
  const Json* numbers = config.find({key});
  if (numbers == nullptr) return std::nullopt;
  if (!numbers->is_array()) config.refuse(key, "a list of layers");
  std::vector<bool> chosen(static_cast<size_t>(layers));
  for (const Json& number : *numbers) {
    if (!number.is_number_integer() || number < first || number >= first + layers) {
      config.refuse(key, fmt::format("layers from {} to {}", first, first + layers - 1));
    }
    chosen[static_cast<size_t>(number.get<int64_t>() - first)] = true;
  }
  return chosen;
}

std::vector<int64_t> read_windows(const ConfigReader& config, int64_t layers, int64_t window,
                                  const WindowPattern& pattern) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  const auto slides =
      read_layer_types(config, "layer_types", layers, "sliding_attention", "full_attention");
  for (size_t i = 0; i < windows.size(); ++i) {
    if (slides ? (*slides)[i] : pattern(static_cast<int64_t>(i))) windows[i] = window;
  }
  return windows;
}

std::vector<int64_t> uniform_windows(const ConfigReader& config, int64_t layers, int64_t missing) {
  return std::vector<int64_t>(
      static_cast<size_t>(layers),
      config.integer({"sliding_window"}, missing, {.least = config.describes() ? 0 : 1}));
}

std::vector<int64_t> listed_windows(const ConfigReader& config, std::string_view key,
                                    int64_t layers) {
  const Json* value = config.find({key});
  if (value == nullptr) return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.empty()) config.refuse(key, "a window or a list of them");
  std::vector<int64_t> windows;
  for (size_t i = 0; i < static_cast<size_t>(layers); ++i) {
    const Json& window = list[i % list.size()];
    const bool counts = window.is_number_integer() && window >= 1 && window <= kPositions.most;
    if (!counts && !window.is_null()) config.refuse(key, "numbers of positions or null");
    windows.push_back(counts ? window.get<int64_t>() : 0);
  }
  return windows;
}

std::vector<int64_t> qwen_windows(const ConfigReader& config, int64_t layers) {
  const int64_t missing = config.has("sliding_window") ? 0 : 4096;
  const int64_t window = config.boolean({"use_sliding_window"}, false)
                             ? config.integer({"sliding_window"}, missing)
                             : 0;
  const int64_t first = config.integer({"max_window_layers"}, 28, {.least = 0});
  return read_windows(config, layers, window, [first, listed = config.describes()](int64_t layer) {
    return !listed && layer >= first;
  });
}

std::vector<int64_t> exaone_windows(const ConfigReader& config, int64_t layers) {
  const int64_t missing = config.has("sliding_window") ? 0 : 4096;
  const int64_t window = config.integer({"sliding_window"}, missing);
  if (window == 0) return {};
  const Json* pattern = config.find({"sliding_window_pattern"});
  if (pattern != nullptr && pattern->is_string()) {
    const auto letters = pattern->get<std::string>();
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
      config.refuse("sliding_window_pattern", "letters L and G");
    }
    return read_windows(config, layers, window, [&](int64_t layer) {
      return letters[static_cast<size_t>(layer) % letters.size()] == 'L';
    });
  }
  const int64_t period = config.integer({"sliding_window_pattern"}, 4, {1, 4096});
  return read_windows(config, layers, window,
                      [period](int64_t layer) { return (layer + 1) % period != 0; });
}

}  // namespace plimsoll::model
