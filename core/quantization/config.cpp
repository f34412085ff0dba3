#include "quantization/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"

namespace plimsoll::quantization {
namespace {

WeightScheme refined_fp8(int64_t outputs, int64_t inputs) {
  WeightScheme scheme = block_fp8(outputs, inputs);
  scheme.refine_expert_blocks = true;
  return scheme;
}

constexpr Bounds kBlock{1, 1 << 20};
/// transformers' default of fbgemm_fp8's activation_scale_ub.
constexpr double kFbgemmMost = 1200;

/// vLLM's resolution of "auto" from a ModelOpt checkpoint.
bool modelopt_fp8_kv(const ConfigView& config) {
  if (config.has_child({"kv_cache_scheme"})) {
    const ConfigView scheme = config.child({"kv_cache_scheme"});
    return !scheme.flag({"dynamic"}, true) && scheme.integer({"num_bits"}, 0) == 8 &&
           scheme.text({"type"}, "") == "float";
  }
  return lower_case(config.text({"kv_cache_scheme", "kv_cache_quant_algo"}, "")) == "fp8";
}

WeightScheme modelopt_algorithm(const std::string& algorithm, int64_t group) {
  if (algorithm == "NVFP4") return nvfp4(group);
  if (algorithm == "W4A16_NVFP4") {
    WeightScheme scheme = nvfp4(group, false);
    scheme.unused_input = true;
    scheme.whole_inputs = true;
    return scheme;
  }
  if (algorithm == "FP8") return tensor_fp8(true);
  if (algorithm == "FP8_PB_WO") return refined_fp8(128, 128);
  if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN") return channel_fp8();
  if (algorithm == "MXFP8") {
    WeightScheme scheme = block_fp8(1, 32);
    scheme.scale_bytes = 1;
    scheme.token_inputs = TokenInputs::mxfp8;
    scheme.inputs_not_run = nullptr;
    return scheme;
  }
  fail(ExitCode::checkpoint_unusable,
       "quantization_config: ModelOpt's quant_algo \"{}\" is not supported; known are NVFP4, "
       "W4A16_NVFP4, FP8, FP8_PB_WO, FP8_PER_CHANNEL_PER_TOKEN, MXFP8, MIXED_PRECISION",
       algorithm);
}

std::vector<std::string> names(const ConfigView& config, Keys keys) {
  return config.texts(keys);
}

/// True when the config lists groups and none of them has activations rounded.
bool leaves_inputs_whole(const ConfigView& config) {
  const ConfigView groups = config.child({"config_groups"});
  for (const auto& [name, value] : groups.json().items()) {
    const ConfigView group(value, groups.path() + ": " + name);
    if (group.has_child({"input_activations"})) return false;
  }
  return !groups.json().empty();
}

}  // namespace

Quantization::Quantization(const ConfigView& config) {
  method_ = lower_case(config.text({"quant_method"}, ""));
  if (method_ == "fp8" || method_ == "deepseek_v4_fp8") {
    read_fp8(config);
  } else if (method_.starts_with("modelopt")) {
    read_modelopt(config);
  } else if (method_ == "compressed-tensors") {
    read_compressed(config);
  } else if (method_ == "fbgemm_fp8") {
    base_ = channel_fp8();
    base_.input_bound = true;
    base_.most_input = static_cast<float>(config.number({"activation_scale_ub"}, kFbgemmMost));
    if (!(base_.most_input > 0))
      fail(ExitCode::checkpoint_unusable, "{}: \"activation_scale_ub\" must be a positive number",
           config.path());
    expert_scheme_ = WeightScheme{};
    ignored_ = NameList(names(config, {"modules_to_not_convert"}), NameMatch::exact);
  } else if (method_ == "quark") {
    read_quark(config);
  } else if (method_ == "awq" || method_ == "gptq" || method_ == "gptq_marlin" ||
             method_ == "awq_marlin") {
    read_packed(config);
  } else if (method_ == "auto-round" || method_ == "intel/auto-round") {
    read_auto_round(config);
  } else if (method_ == "mxfp4" || method_ == "gpt_oss_mxfp4") {
    expert_scheme_ = mxfp4();
  } else if (method_ == "bitsandbytes") {
    const bool four = config.flag({"load_in_4bit", "_load_in_4bit"}, false);
    base_ = {.format = WeightFormat::bitsandbytes, .bits = four ? 4 : 8};
    base_.nested_scales = config.flag({"bnb_4bit_use_double_quant"}, false);
    ignored_ = NameList(names(config, {"llm_int8_skip_modules"}), NameMatch::substring);
  } else if (!method_.empty()) {
    fail(ExitCode::checkpoint_unusable,
         "quantization_config: quant_method \"{}\" is not supported; known are fp8, modelopt, "
         "compressed-tensors, awq, gptq, auto-round, mxfp4, bitsandbytes, quark, fbgemm_fp8",
         method_);
  }
}

namespace {

/// Usual configuration of a method, for configs that leave things out.
struct UsualConfig {
  std::string_view method;
  const char* config;
};
constexpr auto kUsual = std::to_array<UsualConfig>({
    {"modelopt", R"({"quant_method":"modelopt","quant_algo":"FP8","ignore":["lm_head"]})"},
    {"modelopt_fp4",
     R"({"quant_method":"modelopt_fp4","quant_algo":"NVFP4","ignore":["lm_head","*.mlp.gate"]})"},
    {"modelopt_mxfp8",
     R"({"quant_method":"modelopt_mxfp8","quant_algo":"MXFP8","ignore":["lm_head"]})"},
    {"awq", R"({"quant_method":"awq","bits":4,"group_size":128,"zero_point":true})"},
    {"gptq", R"({"quant_method":"gptq","bits":4,"group_size":128,"sym":true})"},
});

Quantization usual_of(const std::string& method, bool& found) {
  std::string name = method;
  if (name.starts_with("auto_")) name.erase(0, 5);
  if (name.ends_with("_marlin")) name.erase(name.size() - 7);
  const auto row = std::find_if(kUsual.begin(), kUsual.end(),
                                [&](const UsualConfig& usual) { return usual.method == name; });
  found = row != kUsual.end();
  if (!found) return {};
  const Json config = Json::parse(row->config);
  return Quantization(ConfigView(config, "--quantization " + method));
}

/// vLLM's further methods (model_executor/layers/quantization/__init__.py of 0.33.0).
constexpr std::string_view kUnplanned[] = {"mxfp8",
                                           "int8_per_channel_weight_only",
                                           "nvfp4_per_token",
                                           "torchao",
                                           "experts_int8",
                                           "humming",
                                           "compressed-tensors",
                                           "quark",
                                           "moe_wna16",
                                           "inc",
                                           "online",
                                           "deepseek_v4_fp8",
                                           "fbgemm_fp8",
                                           "fp_quant",
                                           "gpt_oss_mxfp4",
                                           "mxfp4",
                                           "modelopt_mixed",
                                           "bitblas",
                                           "gptq_bitblas",
                                           "hqq",
                                           "aqlm",
                                           "deepspeedfp",
                                           "tpu_int8",
                                           "ptpc_fp8",
                                           "auto-round"};

}  // namespace

Quantization Quantization::asked(const std::string& method) {
  Quantization result;
  result.method_ = method;
  result.online_ = true;
  if (method == "fp8" || method == "fp8_per_tensor") {
    result.base_ = tensor_fp8(false);
  } else if (method == "fp8_per_channel") {
    result.base_ = channel_fp8();
  } else if (method == "fp8_per_block") {
    result.base_ = refined_fp8(128, 128);
  } else if (method == "bitsandbytes") {
    result.base_ = {.format = WeightFormat::bitsandbytes, .bits = 4};
  } else {
    bool known = false;
    result = usual_of(method, known);
    result.assumed_ = true;
    if (known) return result;
    for (const std::string_view name : kUnplanned) {
      if (method != name) continue;
      fail(ExitCode::usage,
           "--quantization {}: vLLM has this method, and plan does not know what it takes; a "
           "checkpoint whose config states it is planned as that says",
           method);
    }
    fail(ExitCode::usage,
         "Unknown quantization method: {}. Must be one of fp8, fp8_per_tensor, fp8_per_channel, "
         "fp8_per_block, bitsandbytes (while loading), modelopt, modelopt_fp4, modelopt_mxfp8, "
         "awq, gptq (of the checkpoint), or what the checkpoint's config states.",
         method);
  }
  return result;
}

void Quantization::read_fp8(const ConfigView& config) {
  attention_scales_ = true;
  const std::vector<int64_t> block = config.integers({"weight_block_size"});
  if (!block.empty()) {
    if (block.size() != 2 || block[0] < 1 || block[1] < 1) {
      fail(ExitCode::checkpoint_unusable, "{}: \"weight_block_size\" must be two positive integers",
           config.path());
    }
    base_ = refined_fp8(block[0], block[1]);
  } else {
    base_ = tensor_fp8(config.choice("activation_scheme", {"dynamic", "static"}) == "static");
  }
  std::vector<std::string> ignored = names(config, {"ignored_layers"});
  if (ignored.empty()) ignored = names(config, {"modules_to_not_convert"});
  ignored_ = NameList(ignored, NameMatch::exact);
}

void Quantization::read_modelopt(const ConfigView& outer) {
  const ConfigView config =
      outer.has_child({"quantization"}) ? outer.child({"quantization"}) : outer;
  attention_scales_ = latent_attention_scales_ = true;
  fp8_kv_cache_ = modelopt_fp8_kv(config) || modelopt_fp8_kv(outer);
  const std::string algorithm = config.text({"quant_algo"}, "");
  int64_t group = config.integer({"group_size"}, 0, kBlock);
  for (const char* name : {"group_0", "group_1"}) {
    const ConfigView weights = config.child({"config_groups"}).child({name}).child({"weights"});
    if (group == 0) group = weights.integer({"group_size"}, 0, kBlock);
  }
  if (group == 0) group = 16;
  ignored_ = NameList(names(config, {"ignore", "exclude_modules"}), NameMatch::wildcard);
  lm_head_ = true;
  if (algorithm == "MIXED_PRECISION") {
    attention_scales_ = fp8_kv_cache_;
    latent_attention_scales_ = false;
    read_layers(config);
  } else {
    const bool whole = algorithm == "NVFP4" && leaves_inputs_whole(outer);
    base_ = modelopt_algorithm(whole ? "W4A16_NVFP4" : algorithm, group);
  }
}

void Quantization::read_layers(const ConfigView& config) {
  const ConfigView layers = config.child({"quantized_layers"});
  for (const auto& [name, recipe] : layers.json().items()) {
    const ConfigView view(recipe, config.path() + ": quantized_layers: " + name);
    const WeightScheme scheme =
        modelopt_algorithm(view.text({"quant_algo"}, ""), view.integer({"group_size"}, 16, kBlock));
    list_layer(name, scheme);
  }
}

void Quantization::list_layer(const std::string& name, const WeightScheme& scheme) {
  const std::string canonical = canonical_name(name);
  by_layer_.emplace(canonical, scheme);
  // Experts are found by the module that holds them: "layers.0.mlp.experts.7.up_proj" counts for
  // "layers.0.mlp.experts".
  const size_t experts = canonical.find(".experts.");
  if (experts != std::string::npos) {
    by_layer_.emplace(canonical.substr(0, experts) + ".experts", scheme);
  }
}

const WeightScheme* Quantization::listed_layer(const ModuleName& module) const {
  const auto find = [&](const std::string& name) {
    const auto at = by_layer_.find(name);
    return at == by_layer_.end() ? nullptr : &at->second;
  };
  if (const WeightScheme* scheme = find(module.full())) return scheme;
  for (size_t i = 0; i < module.shards.size(); ++i) {
    if (const WeightScheme* scheme = find(module.shard(i))) return scheme;
  }
  return nullptr;
}

void Quantization::leave_all_but_experts() {
  if (mxfp4_packed_) {
    method_ = "mxfp4";
    expert_scheme_ = mxfp4();
    attention_scales_ = false;
    experts_alone_ = true;
  }
}

void Quantization::specialize_for_deepseek_v4(const std::string& expert_dtype,
                                              const std::string& expert_method) {
  if (method_ != "fp8" || expert_dtype != "fp4") return;
  base_.scale_bytes = 1;
  expert_scheme_ = expert_method == "NVFP4" ? nvfp4(16) : mxfp4();
}

bool Quantization::int8_activations() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return group.scheme.format == WeightFormat::int8; });
}

/// Scheme of the group that names a module. Whole names go before patterns, and among patterns
/// those of names before those of classes; the matrices of a fused module may be named one by one.
const WeightScheme* Quantization::group_scheme(const ModuleName& module) const {
  for (const Group& group : groups_)
    if (group.names.lists(module)) return &group.scheme;
  if (groups_.size() > 1) {
    for (const Rule& rule : rules_)
      if (rule.names.lists(module)) return &rule.scheme;
  }
  for (const Group& group : groups_)
    if (group.targets.lists(module)) return &group.scheme;
  return nullptr;
}

WeightScheme Quantization::linear(const ModuleName& module) const {
  return experts_alone_ ? WeightScheme{} : stored(module);
}

WeightScheme Quantization::stored(const ModuleName& module) const {
  if (ignored_.lists(module)) return {};
  if (!by_layer_.empty()) {
    const WeightScheme* scheme = listed_layer(module);
    if (scheme != nullptr) return *scheme;
    if (!others_quantized_) return {};
  }
  if (const WeightScheme* scheme = group_scheme(module)) return *scheme;
  for (const Group& group : groups_) {
    if (group.every_linear) return group.scheme;
  }
  if (!blocks_.empty() && !blocks_.lists(module)) return {};
  return in_blocks(module) ? by_rules(module) : WeightScheme{};
}

WeightScheme Quantization::experts(const ModuleName& module) const {
  if (expert_scheme_) return *expert_scheme_;
  const std::string name = module.full();
  if (!by_layer_.empty()) return linear(module);
  if (!groups_.empty()) {
    // compressed-tensors names the experts one by one.
    std::vector<std::string> matrices = module.shards;
    if (matrices.empty()) matrices = {"gate_proj", "up_proj", "down_proj"};
    const ModuleName first{name + ".0", "w13", std::move(matrices)};
    return linear(first);
  }
  if (method_ == "fp8" || method_ == "deepseek_v4_fp8") {
    return ignored_.mentions(name) ? WeightScheme{} : base_;
  }
  if (base_.format == WeightFormat::gptq)
    return in_blocks(module) ? by_rules(module) : WeightScheme{};
  return linear(module);
}

WeightScheme Quantization::lm_head(const ModuleName& module) const {
  if (experts_alone_ || (!lm_head_ && groups_.empty())) return {};
  if (ignored_.lists(module)) return {};
  if (groups_.empty()) return linear(module);
  const WeightScheme* scheme = group_scheme(module);
  return scheme != nullptr ? *scheme : WeightScheme{};
}

}  // namespace plimsoll::quantization
