// Values that most configs state alike: sizes, activation, windows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// Sizes that every config states.
struct Sizes {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position = 0;
};

/// Reads and checks sizes: all in a plausible range, kv_heads dividing heads. `head_dim`: default
/// where the hidden size is no multiple of heads; 0: refused. `max_position`: default of the class;
/// 0: the usual rows of vLLM's rotary tables.
Sizes read_sizes(const ConfigReader& config, int64_t head_dim = 0, int64_t max_position = 0,
                 bool layers_listed = false);

/// Reads sizes for families whose heads are always hidden / heads wide, each with its own k and v.
Sizes read_even_sizes(const ConfigReader& config);
/// Reads sizes as read_even_sizes; MLPs are four times as wide as the model unless the config says
/// otherwise.
Sizes read_fourfold_sizes(const ConfigReader& config);

/// Refuses, by `key`, a number of heads that is no multiple of the KV heads.
void require_even_groups(const ConfigReader& config, std::string_view key, int64_t heads,
                         int64_t kv_heads);
/// Refuses a model with more heads in all layers than memory for the tables of heads allows.
void refuse_many_heads(const ConfigReader& config, const Sizes& sizes);

/// Ranges of values that read_sizes does not read, or that families have under other keys.
inline constexpr IntegerRange kVocabularies{1, int64_t{1} << 28, kMostDescribed};
inline constexpr IntegerRange kHeadCounts{1, 65536, 1 << 20};
inline constexpr IntegerRange kHeadDims{1, 16384};
inline constexpr IntegerRange kPositions{1, int64_t{1} << 40};
inline constexpr IntegerRange kWidths{1, int64_t{1} << 20, kMostDescribed};

/// The activation that `key` names; refuses unknown ones.
Activation read_activation(const ConfigReader& config, std::string_view key,
                           std::string_view missing);

// Lists with one element for each layer.

/// Layers that the list of words at `key` marks with `yes`; the other words must be `no`, if that
/// is not empty. nullopt when the key is missing.
std::optional<std::vector<bool>> read_layer_types(const ConfigReader& config, std::string_view key,
                                                  int64_t layers, std::string_view yes,
                                                  std::string_view no);
/// Layers whose numbers the list at `key` holds, the first layer being `first`; nullopt when the
/// key is missing or null.
std::optional<std::vector<bool>> read_layer_list(const ConfigReader& config, std::string_view key,
                                                 int64_t layers, int64_t first = 0);

// Windows of attention by layer, 0 for none.

/// True for a layer with a window, in configs without `layer_types`.
using WindowPattern = std::function<bool(int64_t layer)>;
std::vector<int64_t> read_windows(const ConfigReader& config, int64_t layers, int64_t window,
                                  const WindowPattern& pattern);
/// Windows from `sliding_window` for all layers; null means `missing`.
std::vector<int64_t> uniform_windows(const ConfigReader& config, int64_t layers, int64_t missing);
/// Windows from `key`: one number, or a list that layers take in turn, null for none; empty where
/// the key is missing.
std::vector<int64_t> listed_windows(const ConfigReader& config, std::string_view key,
                                    int64_t layers);
/// Windows of Qwen2 and Qwen3: none unless `use_sliding_window`, then from layer
/// `max_window_layers` on.
std::vector<int64_t> qwen_windows(const ConfigReader& config, int64_t layers);
/// Windows of EXAONE: by `layer_types`, else by letters in turn ("LLLG": L has one) or a period.
std::vector<int64_t> exaone_windows(const ConfigReader& config, int64_t layers);

}  // namespace plimsoll::model
