#include "engines/model_config.h"

#include <algorithm>

#include "base/error.h"
#include "model/class_defaults.h"

namespace plimsoll::engines {
namespace {

constexpr Keys kTextParts = {"text_config", "llm_config", "language_config"};

Json completed(Json config) {
  model::complete_config(config, model::ConfigClasses::transformers);
  return config;
}

std::string first_architecture(const ConfigView& root) {
  const std::vector<std::string> names = root.texts({"architectures"});
  if (!names.empty()) return names.front();
  fail(ExitCode::checkpoint_unusable,
       "{}: \"architectures\" is missing, expected a list of one name, such as "
       "[\"LlamaForCausalLM\"]",
       root.path());
}

}  // namespace

ModelConfig::ModelConfig(const Json& config, const std::string& path)
    : config_(completed(config)), path_(path) {
  architecture_ = first_architecture(root());
}

ConfigView ModelConfig::text() const {
  const ConfigView whole = root();
  if (whole.has_child({"thinker_config"})) {
    const ConfigView thinker = whole.child({"thinker_config"});
    if (thinker.has_child(kTextParts)) return thinker.child(kTextParts);
  }
  return whole.has_child(kTextParts) ? whole.child(kTextParts) : whole;
}

int64_t ModelConfig::layers() const {
  return text().required({"num_hidden_layers", "n_layer", "num_layers", "n_layers"},
                         {1, int64_t{1} << 14});
}

int64_t ModelConfig::heads() const {
  return text().required({"num_attention_heads", "n_head", "n_heads", "num_heads"}, kHead);
}

int64_t ModelConfig::hidden() const {
  return text().required({"n_embed", "hidden_size", "n_embd", "d_model"}, kSize);
}

int64_t ModelConfig::head_dim() const {
  const int64_t stated = text().integer({"head_dim"}, 0, kHeadOrNone);
  if (stated > 0) return stated;
  const int64_t width = hidden(), count = heads();
  if (width < count) {
    fail(
        ExitCode::checkpoint_unusable,
        "{}: {} attention heads for a hidden size of {}: expected at most as many, or \"head_dim\"",
        path_, count, width);
  }
  return width / count;
}

int64_t ModelConfig::kv_heads() const {
  const ConfigView config = text();
  const bool falcon = config.text({"model_type"}, "") == "falcon" ||
                      config.text({"model_type"}, "").starts_with("RefinedWeb");
  if (falcon && !config.flag({"new_decoder_architecture"}, false) &&
      config.flag({"multi_query"}, false)) {
    return 1;
  }
  return config.integer(
      {"n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num"}, heads(),
      kHead);
}

int64_t ModelConfig::experts() const {
  return text().integer({"n_routed_experts", "num_experts", "num_local_experts"}, 0, kSizeOrNone);
}

int64_t ModelConfig::latent_width() const {
  const ConfigView config = text();
  return config.required({"kv_lora_rank"}, kHead) +
         config.integer({"qk_rope_head_dim"}, 0, kHeadOrNone);
}

int64_t ModelConfig::index_width() const {
  return text().integer({"index_head_dim"}, 128, kHead);
}

std::optional<int64_t> ModelConfig::indexing_layers() const {
  if (!text().has("indexer_types")) return std::nullopt;
  const std::vector<std::string> types = text().texts({"indexer_types"});
  return std::min(layers(), std::ssize(types) - count_of(types, "shared"));
}

int64_t ModelConfig::compressed_layers(int64_t ratio) const {
  std::vector<int64_t> ratios = text().integers({"compress_ratios"});
  if (std::ssize(ratios) > layers()) ratios.resize(static_cast<size_t>(layers()));
  return std::ranges::count(ratios, ratio);
}

DeltaSizes ModelConfig::delta_sizes() const {
  const ConfigView config = text();
  return {.k_heads = config.required({"linear_num_key_heads"}, kHead),
          .k_dim = config.required({"linear_key_head_dim"}, kHead),
          .v_heads = config.required({"linear_num_value_heads"}, kHead),
          .v_dim = config.required({"linear_value_head_dim"}, kHead),
          .kernel = config.integer({"linear_conv_kernel_dim"}, 4, {1, 1024})};
}

int64_t ModelConfig::vocabulary() const {
  return text().required({"vocab_size", "padded_vocab_size"}, {1, int64_t{1} << 24});
}

std::string ModelConfig::dtype() const {
  for (const ConfigView& part : {text(), root()}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (!part.is_text(key)) continue;
      std::string name = part.text({key}, "");
      if (name.starts_with("torch.")) name.erase(0, std::string("torch.").size());
      if (name == "half") return "float16";
      if (name == "float") return "float32";
      return name;
    }
  }
  return "";
}

ConfigView ModelConfig::quantization() const {
  const Keys keys = {"quantization_config", "compression_config"};
  return root().has_child(keys) ? root().child(keys) : text().child(keys);
}

bool ModelConfig::stores_fp8_cache() const {
  const ConfigView stated = quantization();
  const ConfigView inner =
      stated.has_child({"quantization"}) ? stated.child({"quantization"}) : stated;
  if (inner.is_text("kv_cache_quant_algo") && inner.text({"kv_cache_quant_algo"}, "") == "FP8")
    return true;
  if (!stated.has_child({"kv_cache_scheme"})) return false;
  const ConfigView scheme = stated.child({"kv_cache_scheme"});
  return scheme.text({"type"}, "") == "float" && scheme.integer({"num_bits"}, 0) == 8;
}

std::vector<std::string> ModelConfig::layer_types() const {
  const ConfigView config = text();
  if (config.has("layer_types")) return config.texts({"layer_types"});
  return {};
}

int64_t count_of(const std::vector<std::string>& types, std::string_view kind) {
  return std::ranges::count(types, kind);
}

int64_t element_bytes(std::string_view dtype) {
  if (dtype.starts_with("float8") || dtype.starts_with("fp8")) return 1;
  return dtype == "float32" ? 4 : 2;
}

}  // namespace plimsoll::engines
