// What transformers assumes where a config is silent: many published configs leave out whatever
// equals their class's default.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/json.h"
#include "plan/shapes/config_file.h"

namespace plimsoll::plan {
namespace {

struct TextDefaults {
  std::string_view model_type;
  int64_t vocabulary, hidden, intermediate, layers, heads, kv_heads, head_size, positions,
      window;  // 0: none
};

constexpr auto kDefaults = std::to_array<TextDefaults>({
    {"llama", 32000, 4096, 11008, 32, 32, 0, 0, 2048, 0},
    {"mistral", 32000, 4096, 14336, 32, 32, 8, 0, 131072, 4096},
    {"mixtral", 32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
    {"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 32768, 0},
    {"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 0},
    {"gemma", 256000, 3072, 24576, 28, 16, 16, 256, 8192, 0},
    {"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 8192, 4096},
    {"gemma3_text", 262208, 2304, 9216, 26, 8, 4, 256, 131072, 4096},
    {"phi3", 32064, 3072, 8192, 32, 32, 0, 0, 4096, 0},
    {"nomic_bert", 0, 0, 0, 0, 0, 0, 0, 2048, 0},
});

void complete(Json& object) {
  const auto type = object.find("model_type");
  if (type == object.end() || !type->is_string()) return;
  const auto& name = type->get_ref<const std::string&>();
  const auto row = std::find_if(kDefaults.begin(), kDefaults.end(),
                                [&](const TextDefaults& d) { return d.model_type == name; });
  if (row == kDefaults.end()) return;
  const auto assume = [&](const char* key, int64_t value) {
    if (value > 0 && !object.contains(key)) object[key] = value;
  };
  assume("vocab_size", row->vocabulary);
  assume("hidden_size", row->hidden);
  assume("intermediate_size", row->intermediate);
  assume("num_hidden_layers", row->layers);
  assume("num_attention_heads", row->heads);
  assume("num_key_value_heads", row->kv_heads);
  assume("head_dim", row->head_size);
  assume("max_position_embeddings", row->positions);
  assume("sliding_window", row->window);
}

}  // namespace

void complete_config(Json& config) {
  if (!config.is_object()) return;
  // An outer config that holds another is a wrapper and says nothing of its own layers.
  bool wrapper = false;
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const auto inner = config.find(key);
    if (inner == config.end() || !inner->is_object()) continue;
    wrapper = true;
    complete(*inner);
  }
  const bool stated = config.contains("hidden_size") || config.contains("num_hidden_layers") ||
                      config.contains("n_embd");
  if (!wrapper && stated) complete(config);
}

}  // namespace plimsoll::plan
