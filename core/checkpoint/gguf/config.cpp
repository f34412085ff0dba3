#include "checkpoint/gguf/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "checkpoint/gguf/architectures.h"
#include "checkpoint/gguf/keys.h"
#include "checkpoint/gguf/tokenizer.h"

namespace plimsoll::checkpoint::gguf {
namespace {

constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostWidth = int64_t{1} << 24;

int64_t layers_of(const Keys& keys) {
  const int64_t all = keys.count("block_count", kMostLayers);
  const int64_t predicting = keys.integer("nextn_predict_layers").value_or(0);
  if (predicting >= all)
    keys.refuse("nextn_predict_layers", fmt::format(" {} of {} layers", predicting, all));
  return all - predicting;
}

int64_t vocabulary_of(const Keys& keys) {
  if (const auto stated = keys.integer("vocab_size")) return *stated;
  const Value* const tokens = keys.model().find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->is_array()) return static_cast<int64_t>(tokens->count);
  for (const Tensor& tensor : keys.model().tensors())
    if (tensor.name == "token_embd.weight" && tensor.ne.size() == 2) return tensor.ne[1];
  keys.refuse("vocab_size", " is missing in the metadata, and so are tokenizer.ggml.tokens");
}

/// Scaling of RoPE; null: none.
Json rope_scaling(const Keys& keys) {
  const std::string kind = keys.text("rope.scaling.type", "none");
  const auto put = [&](Json& to, const char* name, const char* key) {
    if (const auto value = keys.number(key)) to[name] = *value;
  };
  Json scaling = Json::object();
  if (kind == "none" || kind == "longrope") return nullptr;  // longrope: by its tensors
  scaling["rope_type"] = kind;
  put(scaling, "factor", "rope.scaling.factor");
  if (kind == "linear") return scaling;
  if (kind != "yarn")
    keys.refuse("rope.scaling.type", " \"" + shown_name(kind) + "\" is not known");
  if (const auto length = keys.integer("rope.scaling.original_context_length"))
    scaling["original_max_position_embeddings"] = *length;
  put(scaling, "beta_fast", "rope.scaling.yarn_beta_fast");
  put(scaling, "beta_slow", "rope.scaling.yarn_beta_slow");
  put(scaling, "attention_factor", "rope.scaling.yarn_attn_factor");
  return scaling;
}

/// What all architectures state alike.
void add_common(const Keys& keys, Json& config) {
  config["num_hidden_layers"] = layers_of(keys);
  config["hidden_size"] = keys.count("embedding_length", kMostWidth);
  config["vocab_size"] = vocabulary_of(keys);
  config["tie_word_embeddings"] = !keys.has_tensor("output.weight");
  if (const auto length = keys.integer("context_length"))
    config["max_position_embeddings"] = *length;
  if (const auto width = keys.integer("feed_forward_length"); width && *width > 0)
    config["intermediate_size"] = *width;
  if (const auto heads = keys.integer("attention.head_count"); heads) {
    if (*heads == 0 && !keys.has("ssm.inner_size"))
      keys.refuse("attention.head_count", " 0: a number from 1 is needed");
    if (*heads > 0) config["num_attention_heads"] = *heads;
  }
  if (const auto heads = keys.integer("attention.head_count_kv"); heads && *heads > 0)
    config["num_key_value_heads"] = *heads;
  if (const auto head = keys.integer("attention.key_length");
      head && !keys.has("attention.key_length_mla"))
    config["head_dim"] = *head;
  if (const auto epsilon = keys.number("attention.layer_norm_rms_epsilon"))
    config["rms_norm_eps"] = *epsilon;
  if (const auto base = keys.number("rope.freq_base")) config["rope_theta"] = *base;
  if (const Json scaling = rope_scaling(keys); !scaling.is_null()) config["rope_scaling"] = scaling;
}

/// Copies the number of `metadata`; an integer stays one.
void add_pair(const Keys& keys, const KeyPair& pair, Json& config) {
  const Value* const value = keys.find(pair.metadata);
  if (value == nullptr) return;
  if (value->type == ValueType::boolean) {
    config[std::string(pair.config)] = keys.flag(pair.metadata, false);
  } else if (value->type == ValueType::f32 || value->type == ValueType::f64) {
    config[std::string(pair.config)] = *keys.number(pair.metadata);
  } else {
    config[std::string(pair.config)] = *keys.integer(pair.metadata);
  }
}

}  // namespace

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Architecture& row : architectures()) names.emplace_back(row.name);
  std::ranges::sort(names);
  return names;
}

Json make_config(const Model& model) {
  const Architecture* const row = find_architecture(model.architecture());
  if (row == nullptr) {
    fail(ExitCode::checkpoint_unusable, "{}: architecture {} is not known; these are: {}",
         model.path().string(), shown_name(model.architecture()),
         fmt::join(known_architectures(), ", "));
  }
  const Keys keys(model);
  Json config = Json::object();
  const Namesake* const other = find_namesake(keys);
  config["architectures"] =
      Json::array({other != nullptr ? other->architecture : row->architecture});
  config["model_type"] = other != nullptr ? other->model_type : row->model_type;
  config["hidden_act"] = row->unsaid.activation;
  add_common(keys, config);
  for (const KeyPair& pair : row->keys) add_pair(keys, pair, config);
  if (row->finish != nullptr) row->finish(keys, config);
  if (const std::vector<int64_t> ends = end_tokens(model); !ends.empty())
    config["eos_token_id"] = ends;
  return config;
}

}  // namespace plimsoll::checkpoint::gguf
