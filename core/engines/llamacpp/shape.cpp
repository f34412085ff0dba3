// Source: llama.cpp 0c1e57098, src/llama-model.cpp and llama-hparams.cpp; defaults of windows are
// those of the architectures' load_hparams.
#include "engines/llamacpp/shape.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/gguf/keys.h"

namespace plimsoll::engines::llamacpp {
namespace {

using checkpoint::gguf::Keys;
using checkpoint::gguf::Model;
using checkpoint::gguf::Tensor;

constexpr int64_t kMostWidth = int64_t{1} << 24;   // values of a row of any tensor
constexpr int64_t kMostCached = int64_t{1} << 20;  // values of a row of a cache

/// Which layers of an architecture have windows, where the file has no list of them.
struct WindowRow {
  std::string_view architecture;
  int64_t period;      // layers of a pattern
  bool last_is_full;   // else the first is
  int64_t layers = 0;  // only models of so many layers; 0: all
  int64_t window = 0;  // where the file states none
};
constexpr WindowRow kWindows[] = {
    {"gemma2", 2, true, 0, 4096}, {"gpt-oss", 2, true},         {"gemma3", 6, true},
    {"cohere2", 4, true},         {"llama4", 4, true, 0, 8192}, {"olmo2", 4, true},
    {"exaone4", 4, true, 64},     {"afmoe", 4, true},           {"laguna", 4, false},
    {"smallthinker", 4, false},   {"cohere2moe", 4, false},     {"plamo3", 8, true},
};
/// Architectures whose windows llama.cpp does not use, whatever the file states.
constexpr std::string_view kWindowless[] = {"phi3", "llama", "qwen2"};

class Reader {
 public:
  explicit Reader(const Model& model) : model_(model), keys_(model) {}

  Shape read() {
    shape_.architecture = model_.architecture();
    const int64_t blocks = keys_.count("block_count", kMostLayers);
    shape_.left_out_layers =
        std::min(number("nextn_predict_layers", 0, kMostLayers), std::max<int64_t>(0, blocks - 1));
    shape_.layers.resize(static_cast<size_t>(blocks - shape_.left_out_layers));
    shape_.context = keys_.count("context_length", int64_t{1} << 28);
    shape_.embedding = keys_.count("embedding_length", kMostWidth);
    shape_.feed_forward = number("feed_forward_length", 0, kMostWidth);
    shape_.experts = number("expert_count", 0, 1 << 16);
    shape_.experts_used = number("expert_used_count", 0, 1 << 16);
    shape_.expert_feed_forward =
        number("expert_feed_forward_length", shape_.feed_forward, kMostWidth);
    shape_.latent = keys_.has("attention.key_length_mla") && keys_.has("attention.kv_lora_rank");
    read_weights();
    read_vocabulary();
    read_windows();
    read_rows();
    read_states();
    return std::move(shape_);
  }

 private:
  [[nodiscard]] int64_t number(std::string_view key, int64_t missing, int64_t most) const {
    const int64_t value = keys_.integer(key).value_or(missing);
    if (value > most) keys_.refuse(key, fmt::format(" {}: at most {} is known", value, most));
    return value;
  }

  /// A number for each layer, of a list or of one number.
  [[nodiscard]] std::vector<int64_t> by_layer(std::string_view key, int64_t missing,
                                              int64_t most) const {
    std::vector<int64_t> values(shape_.layers.size(), number(key, missing, most));
    if (const auto list = keys_.by_layer(key, shape_.count())) values = *list;
    for (const int64_t value : values)
      if (value < 0) keys_.refuse(key, fmt::format(" {}: a number from 0 is needed", value));
    return values;
  }

  void add(const Tensor& tensor) {
    Weight weight;
    weight.tensor = &tensor;
    const std::string_view name = tensor.name;
    constexpr std::string_view kBlock = "blk.";
    weight.is_matrix = name.ends_with(".weight") && tensor.ne.size() > 1;
    if (name.starts_with(kBlock)) {
      const char* const end = name.data() + name.size();
      const auto [rest, error] = std::from_chars(name.data() + kBlock.size(), end, weight.layer);
      if (error != std::errc() || rest == end || *rest != '.' || weight.layer < 0) return;
      if (weight.layer >= shape_.count()) return;  // of multi-token prediction
      describe(weight, std::string_view(rest + 1, end));
    } else if (name.starts_with("rope_f")) {
      weight.layer = Weight::kEverywhere;
    } else if (name.starts_with("output") || name.starts_with("token_embd_norm")) {
      weight.layer = shape_.count();
    } else {
      weight.layer = Weight::kInput;
      weight.is_matrix = false;
    }
    shape_.weights.push_back(weight);
  }

  static void describe(Weight& weight, std::string_view name) {
    constexpr std::string_view kMlp = "ffn_";
    weight.expert = name.find("_exps") != std::string_view::npos ||
                    name.find("_chexps") != std::string_view::npos;
    if (!name.starts_with(kMlp)) return;
    const std::string_view part = name.substr(kMlp.size());
    weight.part = part.starts_with("gate_up") ? MlpPart::gate_up
                  : part.starts_with("gate")  ? MlpPart::gate
                  : part.starts_with("up")    ? MlpPart::up
                  : part.starts_with("down")  ? MlpPart::down
                                              : MlpPart::other;
  }

  void read_weights() {
    const Tensor *embedding = nullptr, *head = nullptr;
    for (const Tensor& tensor : model_.tensors()) {
      add(tensor);
      if (tensor.name == "token_embd.weight") embedding = &tensor;
      if (tensor.name == "output.weight") head = &tensor;
      const bool gate = tensor.name.find(".ffn_gate.") != std::string::npos ||
                        tensor.name.find(".ffn_gate_exps.") != std::string::npos ||
                        tensor.name.find(".ffn_gate_up") != std::string::npos;
      const bool fused = tensor.name.find(".ffn_up.weight") != std::string::npos &&
                         tensor.ne.back() == 2 * shape_.feed_forward;
      shape_.gated = shape_.gated || gate || fused;
    }
    if (embedding == nullptr) {
      fail(ExitCode::checkpoint_unusable, "{}: tensor token_embd.weight is missing",
           model_.path().string());
    }
    for (size_t l = 0; l < shape_.layers.size(); ++l) {
      const bool beside = has(l, "ffn_up_shexp.weight") || has(l, "ffn_up.weight");
      shape_.has_mlp_beside = shape_.has_mlp_beside || (beside && has(l, "ffn_gate_inp.weight"));
    }
    if (head == nullptr) {
      Weight again;
      again.tensor = embedding;
      again.layer = shape_.count();
      again.is_matrix = true;
      again.second_use = true;
      shape_.weights.push_back(again);
    }
    shape_.vocabulary = embedding->ne.size() > 1 ? embedding->ne[1] : 1;
  }

  void read_vocabulary() {
    shape_.vocabulary = number("vocab_size", shape_.vocabulary, int64_t{1} << 30);
    const auto* tokens = model_.find("tokenizer.ggml.tokens");
    if (tokens == nullptr || !tokens->is_array()) return;
    shape_.vocabulary = static_cast<int64_t>(std::min<uint64_t>(tokens->count, 1 << 30));
  }

  void read_windows() {
    const std::string& name = shape_.architecture;
    if (std::ranges::find(kWindowless, name) != std::end(kWindowless)) return;
    const auto* const row = std::ranges::find(kWindows, name, &WindowRow::architecture);
    const bool known = row != std::end(kWindows);
    shape_.window = number("attention.sliding_window", known ? row->window : 0, 1 << 28);
    if (shape_.window == 0) return;
    constexpr const char* kPattern = "attention.sliding_window_pattern";
    if (const auto list = keys_.by_layer(kPattern, shape_.count())) {
      for (size_t l = 0; l < shape_.layers.size(); ++l) shape_.layers[l].windowed = (*list)[l] != 0;
      return;
    }
    const bool fits = known && (row->layers == 0 || row->layers == shape_.count());
    const int64_t period = number(kPattern, fits ? row->period : 1, kMostLayers);
    const bool last_is_full = !known || row->last_is_full;
    for (int64_t l = 0; period > 1 && l < shape_.count(); ++l) {
      const int64_t full = last_is_full ? period - 1 : 0;
      shape_.layers[static_cast<size_t>(l)].windowed = l % period != full;
    }
  }

  void read_rows() {
    const std::vector<int64_t> heads = by_layer("attention.head_count", 0, 1 << 16);
    const std::vector<int64_t> kv_heads = by_layer("attention.head_count_kv", 0, 1 << 16);
    const bool has_kv_heads = keys_.has("attention.head_count_kv");
    const int64_t own =
        shape_.count() -
        std::min(shape_.count(), number("attention.shared_kv_layers", 0, kMostLayers));
    const int64_t most_heads = *std::ranges::max_element(heads);
    const int64_t head = most_heads > 0 ? shape_.embedding / most_heads : 0;
    const int64_t key = number("attention.key_length", head, kMostWidth);
    const int64_t value = number("attention.value_length", head, kMostWidth);
    const int64_t window_key = number("attention.key_length_swa", key, kMostWidth);
    const int64_t window_value = number("attention.value_length_swa", value, kMostWidth);
    const int64_t indexer = number("attention.indexer.key_length", 0, kMostCached);
    for (size_t l = 0; l < shape_.layers.size(); ++l) {
      Layer& layer = shape_.layers[l];
      layer.heads = heads[l];
      layer.key_head = layer.windowed ? window_key : key;
      layer.value_head = layer.windowed ? window_value : value;
      const int64_t stored = has_kv_heads ? kv_heads[l] : heads[l];
      if (recurs(l) && !attends_beside(l)) continue;
      if (static_cast<int64_t>(l) >= own) continue;  // it reads an earlier layer's cache
      layer.key = std::min(stored * layer.key_head, kMostCached);
      layer.value = shape_.latent ? 0 : std::min(stored * layer.value_head, kMostCached);
      if (layer.attends() && has(l, "indexer.attn_k.weight")) layer.indexer = indexer;
    }
  }

  [[nodiscard]] bool has(size_t layer, std::string_view name) const {
    const std::string full = fmt::format("blk.{}.{}", layer, name);
    return std::ranges::binary_search(names_, full);
  }
  [[nodiscard]] bool recurs(size_t layer) const {
    return has(layer, "ssm_conv1d.weight") || has(layer, "shortconv.conv.weight");
  }
  /// True for a layer that attends beside its recurrence (Falcon H1).
  [[nodiscard]] bool attends_beside(size_t layer) const { return has(layer, "attn_q.weight"); }

  void read_states() {
    constexpr int64_t kMost = 1 << 20;
    const int64_t kernel = number("ssm.conv_kernel", 1, 1 << 10);
    const int64_t inner = number("ssm.inner_size", 0, kMost);
    const int64_t state = number("ssm.state_size", 0, kMost);
    const int64_t groups = number("ssm.group_count", 0, 1 << 12);
    const int64_t short_kernel = number("shortconv.l_cache", 1, 1 << 10);
    for (size_t l = 0; l < shape_.layers.size(); ++l) {
      Layer& layer = shape_.layers[l];
      if (has(l, "shortconv.conv.weight")) {
        layer.shift_state = std::max<int64_t>(0, short_kernel - 1) * shape_.embedding;
      } else if (has(l, "ssm_conv1d.weight")) {
        layer.shift_state = std::max<int64_t>(0, kernel - 1) * (inner + 2 * groups * state);
        layer.memory_state = state * inner;
      }
    }
  }

  static std::vector<std::string> sorted_names(const Model& model) {
    std::vector<std::string> names;
    for (const Tensor& tensor : model.tensors()) names.push_back(tensor.name);
    std::ranges::sort(names);
    return names;
  }

  const Model& model_;
  Keys keys_;
  std::vector<std::string> names_ = sorted_names(model_);
  Shape shape_;
};

}  // namespace

bool Shape::recurs() const {
  return std::ranges::any_of(layers, [](const Layer& layer) { return layer.shift_state > 0; });
}

Shape shape_of(const Model& model) {
  return Reader(model).read();
}

}  // namespace plimsoll::engines::llamacpp
