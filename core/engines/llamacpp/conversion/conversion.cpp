// Sources: convert_hf_to_gguf.py and its package `conversion` of llama.cpp 0c1e57098.
#include "engines/llamacpp/conversion/conversion.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest_name.h"
#include "checkpoint/gguf/architectures.h"
#include "engines/llamacpp/conversion/mixtures.h"
#include "engines/llamacpp/conversion/tensors.h"
#include "model/class_defaults.h"
#include "model/config.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::engines::llamacpp {
namespace {

using checkpoint::gguf::Architecture;
using checkpoint::gguf::Model;
using checkpoint::gguf::Tensor;
using Names = std::span<const std::string_view>;

/// Classes that the converter writes under an architecture of others (checkpoint/gguf has one class
/// for each of llama.cpp's architectures).
constexpr std::pair<std::string_view, std::string_view> kSharing[] = {
    {"BaiChuanForCausalLM", "baichuan"},
    {"BambaForCausalLM", "granitehybrid"},
    {"ChatGLMForConditionalGeneration", "chatglm"},
    {"ChatGLMModel", "chatglm"},
    {"DeepseekV3ForCausalLM", "deepseek2"},
    {"ExaoneMoEForCausalLM", "exaone-moe"},
    {"FalconMambaForCausalLM", "mamba"},
    {"Glm4MoeLiteForCausalLM", "deepseek2"},
    {"GraniteMoeSWAForCausalLM", "granite_swa"},
    {"GraniteMoeSharedForCausalLM", "granitemoe"},
    {"InternLM3ForCausalLM", "llama"},
    {"InternLMForCausalLM", "llama"},
    {"LLaMAForCausalLM", "llama"},
    {"MiMoV2ForCausalLM", "mimo2"},
    {"MistralForCausalLM", "llama"},
    {"MixtralForCausalLM", "llama"},
    {"MptForCausalLM", "mpt"},
    {"Olmo3ForCausalLM", "olmo2"},
    {"PhimoeForCausalLM", "phimoe"},
    {"RWForCausalLM", "falcon"},
};
/// Multimodal classes whose language model has an architecture of its own.
constexpr std::pair<std::string_view, std::string_view> kSeeing[] = {
    {"Qwen2VLForConditionalGeneration", "qwen2vl"},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2vl"},
    {"Qwen2_5OmniForConditionalGeneration", "qwen2vl"},
    {"Qwen2_5OmniModel", "qwen2vl"},
    {"Qwen3VLForConditionalGeneration", "qwen3vl"},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3vlmoe"},
};

constexpr std::string_view kFusedAttention[] = {"bailingmoe2", "bloom",   "dbrx",     "falcon",
                                                "gpt2",        "gptneox", "mpt",      "phi3",
                                                "qwen",        "plamo3",  "starcoder"};
constexpr std::string_view kFusedMlp[] = {"chatglm", "glm4", "phi3", "plamo3"};
/// Architectures whose windows llama.cpp reads from the file.
constexpr std::string_view kWindowed[] = {
    "afmoe",  "cohere2", "cohere2moe", "exaone-moe", "exaone4",    "gemma2",
    "gemma3", "gemma3n", "gemma4",     "gpt-oss",    "laguna",     "mellum",
    "mimo2",  "olmo2",   "plamo3",     "step35",     "granite_swa"};
/// Architectures that state one number of heads although some layers do not attend.
constexpr std::string_view kIntervals[] = {"qwen3next", "qwen35", "qwen35moe"};

/// Quantizations that the converter turns into floats: methods, and formats that compressed-tensors
/// has for its one group.
constexpr std::string_view kMethodsRead[] = {"bitnet", "fp8", "gptq"};
constexpr std::string_view kCompressedRead[] = {"float-quantized", "int-quantized",
                                                "naive-quantized", "pack-quantized"};

bool is_among(std::string_view name, Names names) {
  return std::ranges::find(names, name) != names.end();
}

/// Collects the pairs of a header.
struct Numbers {
  std::vector<Model::Number> pairs;
  void add(const char* key, int64_t value) { pairs.push_back({key, {value}}); }
  /// A list, or the one number that all layers have.
  void add(const char* key, std::vector<int64_t> values) {
    const auto other = [&](int64_t value) { return value != values.front(); };
    if (std::ranges::none_of(values, other)) values.resize(1);
    pairs.push_back({key, std::move(values)});
  }
};

class Converter {
 public:
  Converter(const Json& config, const std::string& path)
      : path_(path),
        root_(config, path),
        outer_(vllm::architecture_name(root_)),
        language_(vllm::language_architecture(root_, outer_)),
        text_(vllm::wrapped_text(root_, outer_)) {
    model::complete_config(text_, model::ConfigClasses::transformers);
    const auto spec = model::naming_config(
        path_, [&] { return model::describe_language_model(language_, text_); });
    if (!spec) refuse();
    spec_ = *spec;
    architecture_ = find();
    check_quantization();
  }

  Model convert(const Mixture& mixture) {
    std::vector<Tensor> tensors = tensors_of(spec_, facts(), path_);
    add_numbers();
    QuantizedModel facts{.architecture = architecture_,
                         .layers = std::ssize(spec_.layers),
                         .experts = experts_,
                         .group = group_,
                         .packed_experts = packed_experts_,
                         .tied = spec_.head == spec_.embedding};
    if (packed_experts_ && find_ggml_type(mixture.base)->is_packed() && mixture.base != "MXFP4") {
      fail(ExitCode::usage,
           "--gguf-type {}: the experts of {} are MXFP4 already, which llama-quantize does not "
           "quantize again; plan MXFP4_MOE, or BF16",
           mixture.name, path_);
    }
    quantize(mixture, facts, tensors);
    return Model::described(path_, architecture_, std::move(numbers_.pairs), std::move(tensors));
  }

 private:
  [[noreturn]] void refuse() const {
    fail(ExitCode::checkpoint_unusable,
         "{}: {}: llama.cpp's conversion of this family is not known; plan a GGUF file of it",
         path_, outer_.empty() ? "no architecture" : outer_);
  }

  /// Refuses checkpoints that the converter refuses, and NVFP4, which it copies as it is. The
  /// others become floats, but for gpt-oss's experts.
  void check_quantization() {
    const ConfigView text(text_, path_);
    const Json& inner = text.child({"quantization_config"}).json();
    const Json& json = inner.empty() ? root_.child({"quantization_config"}).json() : inner;
    if (json.empty()) return;
    const ConfigView config(json, path_);
    const std::string method = config.text({"quant_method"}, ""),
                      format = config.text({"format"}, "");
    packed_experts_ = method == "mxfp4" && architecture_ == "gpt-oss";
    const bool one = config.child({"config_groups"}).json().size() <= 1;
    const bool floats = method == "modelopt" ? json.dump().find("NVFP4") == std::string::npos
                        : method == "compressed-tensors" ? one && is_among(format, kCompressedRead)
                                                         : is_among(method, kMethodsRead);
    if (floats || packed_experts_) return;
    fail(
        ExitCode::checkpoint_unusable,
        "{}: quantized ({}{}{}): what llama.cpp's converter makes of that is not planned; plan the "
        "unquantized model's config, or a GGUF file",
        path_, method.empty() ? "no quant_method" : method, format.empty() ? "" : ", ", format);
  }

  [[nodiscard]] bool has_experts() const {
    return std::ranges::any_of(spec_.layers, &model::LayerSpec::has_experts);
  }

  [[nodiscard]] std::string find() const {
    for (const auto& [name, architecture] : kSeeing)
      if (name == outer_) return std::string(architecture);
    for (const auto& [name, architecture] : kSharing)
      if (name == language_) return std::string(architecture);
    if (language_ == "NemotronHForCausalLM") return has_experts() ? "nemotron_h_moe" : "nemotron_h";
    for (const Architecture& row : checkpoint::gguf::architectures())
      if (row.architecture == language_) return std::string(row.name);
    refuse();
  }

  [[nodiscard]] ConvertedFacts facts() const {
    ConvertedFacts facts;
    facts.architecture = architecture_;
    facts.late_mlp_norm = checkpoint::gguf::find_architecture(architecture_)->unsaid.late_mlp_norm;
    const bool chatglm = language_.starts_with("ChatGLM");
    facts.fuses_attention = is_among(architecture_, kFusedAttention) || chatglm;
    facts.fuses_mlp = is_among(architecture_, kFusedMlp) || language_ == "GraniteMoeSWAForCausalLM";
    facts.fuses_experts = architecture_ == "gemma4" || language_ == "GraniteMoeSWAForCausalLM";
    facts.frequency_factors = frequency_factors();
    const ConfigView scaling = ConfigView(text_, path_).child({"rope_scaling", "rope_parameters"});
    const auto factors = scaling.json().find("long_factor");
    if (factors != scaling.json().end()) facts.long_factors = static_cast<int64_t>(factors->size());
    return facts;
  }

  /// Llama 3's scaling of RoPE is a tensor of divisors; Gemma 4's full layers have one too.
  [[nodiscard]] int64_t frequency_factors() const {
    if (architecture_ == "gemma4") {
      int64_t head = 0;
      for (const auto& layer : spec_.layers) head = std::max(head, layer.attention.head_dim);
      return head / 2;
    }
    const ConfigView text(text_, path_);
    const ConfigView scaling = text.child({"rope_scaling", "rope_parameters"});
    if (scaling.text({"rope_type", "type"}, "") != "llama3" || spec_.ropes.empty()) return 0;
    return spec_.ropes.front().rotary_dim / 2;
  }

  void add_numbers() {
    numbers_.add("block_count", std::ssize(spec_.layers));
    numbers_.add("context_length", context_length());
    numbers_.add("embedding_length", spec_.hidden_size);
    numbers_.add("vocab_size", spec_.weight(spec_.embedding).rows());
    add_mlps();
    add_attention();
    add_windows();
    add_states();
  }

  [[nodiscard]] int64_t context_length() const {
    constexpr Bounds kTokens{1, int64_t{1} << 28};
    const ConfigView text(text_, path_);
    const int64_t unstated = spec_.max_position > 0 ? spec_.max_position : 1 << 20;
    if (architecture_.starts_with("nemotron_h")) return 1 << 20;  // whatever the config states
    if (architecture_ == "command-r")
      return text.integer({"model_max_length", "max_position_embeddings"}, unstated, kTokens);
    return text.integer({"max_position_embeddings", "n_positions", "seq_length", "max_seq_len",
                         "max_sequence_length", "model_max_length", "n_ctx"},
                        unstated, kTokens);
  }

  void add_mlps() {
    int64_t dense = 0;
    for (const model::LayerSpec& layer : spec_.layers) {
      const model::MlpSpec& mlp = layer.mlp;
      if (mlp.kind != model::MlpKind::experts) {
        if (mlp.kind != model::MlpKind::none) dense = std::max(dense, mlp.intermediate);
        continue;
      }
      experts_ = mlp.experts;
      used_ = mlp.experts_per_token;
      expert_width_ = mlp.intermediate;
      if (mlp.experts_norm.present) dense = std::max(dense, mlp.shared.intermediate);
    }
    if (dense == 0) {
      dense = ConfigView(text_, path_)
                  .integer({"intermediate_size"}, expert_width_, {0, int64_t{1} << 24});
    }
    numbers_.add("feed_forward_length", dense);
    if (experts_ == 0) return;
    numbers_.add("expert_count", experts_);
    numbers_.add("expert_used_count", used_);
    numbers_.add("expert_feed_forward_length", expert_width_);
  }

  void add_attention() {
    std::vector<int64_t> heads, kv_heads;
    int64_t key = 0, value = 0, window_key = 0, window_value = 0, sharing = 0, indexer = 0;
    bool all = true;
    for (const model::LayerSpec& layer : spec_.layers) {
      const model::AttentionSpec& attention = layer.attention;
      const bool attends = layer.has_attention();
      const bool latent = attention.latent.kv_rank > 0;
      all = all && attends;
      heads.push_back(attention.heads);
      kv_heads.push_back(attends && latent ? 1 : attention.kv_heads);
      if (!attends) continue;
      if (latent && architecture_ != "minicpm3") latent_ = &attention;
      const int64_t values = attention.value_dim > 0 ? attention.value_dim : attention.head_dim;
      (attention.window > 0 ? window_key : key) = attention.head_dim;
      (attention.window > 0 ? window_value : value) = values;
      if (attention.keys_of >= 0) ++sharing;
      if (attention.indexer.chooses()) indexer = attention.indexer.head_dim;
    }
    if (!all) fill_heads(heads, kv_heads);
    group_ = kv_heads.front() > 0 ? heads.front() / kv_heads.front() : 0;
    numbers_.add("attention.head_count", heads);
    numbers_.add("attention.head_count_kv", kv_heads);
    if (latent_ != nullptr) return add_latent(indexer);
    numbers_.add("attention.key_length", key > 0 ? key : window_key);
    numbers_.add("attention.value_length", value > 0 ? value : window_value);
    if (window_key > 0 && is_among(architecture_, kWindowed)) {
      numbers_.add("attention.key_length_swa", window_key);
      numbers_.add("attention.value_length_swa", window_value);
    }
    if (sharing > 0) numbers_.add("attention.shared_kv_layers", sharing);
  }

  /// Layers that do not attend have query heads all the same, and no KV heads.
  void fill_heads(std::vector<int64_t>& heads, std::vector<int64_t>& kv_heads) const {
    const int64_t most = *std::ranges::max_element(heads);
    std::ranges::fill(heads, most);
    if (is_among(architecture_, kIntervals))
      std::ranges::fill(kv_heads, int64_t{*std::ranges::max_element(kv_heads)});
  }

  void add_latent(int64_t indexer) {
    const model::LatentSpec& latent = latent_->latent;
    numbers_.add("attention.key_length", latent.kv_rank + latent.rotated);
    numbers_.add("attention.value_length", latent.kv_rank);
    numbers_.add("attention.key_length_mla", latent.unrotated + latent.rotated);
    numbers_.add("attention.value_length_mla", latent_->value_dim);
    numbers_.add("attention.kv_lora_rank", latent.kv_rank);
    if (indexer > 0) numbers_.add("attention.indexer.key_length", indexer);
  }

  void add_windows() {
    if (!is_among(architecture_, kWindowed)) return;
    int64_t window = 0;
    std::vector<int64_t> pattern;
    for (const model::LayerSpec& layer : spec_.layers) {
      window = std::max(window, layer.attention.window);
      pattern.push_back(layer.attention.window > 0 ? 1 : 0);
    }
    if (window == 0) return;
    numbers_.add("attention.sliding_window", window);
    numbers_.pairs.push_back({"attention.sliding_window_pattern", std::move(pattern)});
  }

  void add_states() {
    for (const model::LayerSpec& layer : spec_.layers) {
      if (!layer.recurrent) continue;
      const model::RecurrentSpec& mixer = *layer.recurrent;
      if (mixer.kind == model::RecurrentKind::short_conv)
        return numbers_.add("shortconv.l_cache", mixer.conv.taps);
      numbers_.add("ssm.conv_kernel", mixer.conv.taps);
      numbers_.add("ssm.inner_size", mixer.width());
      numbers_.add("ssm.state_size", mixer.state);
      if (mixer.kind != model::RecurrentKind::mamba1) numbers_.add("ssm.group_count", mixer.groups);
      return;
    }
  }

  const std::string& path_;
  ConfigView root_;
  std::string outer_, language_;
  Json text_;
  model::ModelSpec spec_;
  std::string architecture_;
  Numbers numbers_;
  int64_t experts_ = 0, used_ = 0, expert_width_ = 0, group_ = 0;
  const model::AttentionSpec* latent_ = nullptr;
  bool packed_experts_ = false;  // MXFP4, which stays so
};

}  // namespace

Model converted(const Json& config, const std::string& path, std::string_view name) {
  const Mixture* const mixture = find_mixture(name);
  if (mixture == nullptr) {
    fail(ExitCode::usage, "--gguf-type {}: not {}; one of {}", name,
         is_unplanned_mixture(name) ? "planned" : "known", fmt::join(mixture_names(), ", "));
  }
  return Converter(config, path).convert(*mixture);
}

bool needs_importance_matrix(std::string_view mixture) {
  return find_mixture(mixture) == find_mixture("Q2_K_S");
}

int64_t left_out_layers(const Json& config, const std::string& path) {
  constexpr const char* kKeys[] = {"num_nextn_predict_layers", "mtp_num_hidden_layers"};
  const ConfigView root(config, path);
  int64_t layers = 0;
  for (const ConfigView& view : {root, root.child({"text_config"})})
    for (const char* key : kKeys) layers = std::max(layers, view.integer({key}, 0, {0, 1024}));
  return layers;
}

}  // namespace plimsoll::engines::llamacpp
