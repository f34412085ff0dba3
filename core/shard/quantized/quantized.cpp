#include "shard/quantized/quantized.h"

#include <map>
#include <utility>
#include <vector>

#include "base/config_view.h"
#include "base/error.h"
#include "model/vision_spec.h"
#include "quantization/config.h"
#include "quantization/weight_modules.h"
#include "shard/layout.h"
#include "shard/quantized/cache_scales.h"
#include "shard/quantized/layer_class.h"
#include "shard/renumber.h"

namespace plimsoll::shard {
namespace {

using model::ModelSpec;
using model::WeightId;
using model::WeightSpec;
using quantization::module_of_experts;
using quantization::module_of_weight;
using quantization::WeightFormat;
using quantization::WeightScheme;

// ---- options ----

void check_groups(const ConfigView& config) {
  const ConfigView groups = config.child({"config_groups"});
  for (const auto& [name, value] : groups.json().items()) {
    const ConfigView weights = ConfigView(value, groups.path() + ": " + name).child({"weights"});
    const std::string order = weights.text({"actorder"}, "");
    if (order == "group" || order == "dynamic") {
      refuse_quantized("actorder \"" + order +
                       "\" (activation order), which vLLM 0.32 no longer takes; quantize with "
                       "actorder \"static\"");
    }
  }
}

void check_cache_scheme(const ConfigView& scheme) {
  const std::string strategy = scheme.text({"strategy"}, "tensor");
  if (strategy != "tensor") {
    refuse_quantized(
        "its KV cache has scales per " + strategy +
        ", of which vLLM computes others for each rank; scales per tensor are written");
  }
}

void check_gptq(const ConfigView& config) {
  const bool grouped = config.integer({"group_size"}, -1, {-1, 1 << 20}) > 0;
  if (config.flag({"desc_act"}, false) && grouped) {
    refuse_quantized(
        "GPTQ with desc_act (activation order), which vLLM 0.32 no longer takes, and the layouts "
        "of "
        "quantized layers are known of no earlier release; quantize with desc_act false (static "
        "groups)");
  }
  if (!config.flag({"sym"}, true)) {
    refuse_quantized("GPTQ with sym false, which vLLM 0.32 does not take");
  }
  if (config.has_child({"dynamic"}) && !config.child({"dynamic"}).json().empty()) {
    refuse_quantized("GPTQ with rules for single modules (dynamic)");
  }
}

void check_fbgemm(const ConfigView& config) {
  for (const char* key : {"modules_to_not_convert", "activation_scale_ub"}) {
    if (config.has(key)) continue;
    refuse_quantized(
        fmt::format("fbgemm_fp8 without \"{}\" in config.json, which vLLM asks for", key));
  }
}

// Why there are no shards of a method, or null.
const char* reason_without(const std::string& method) {
  if (method == "mxfp4" || method == "gpt_oss_mxfp4") {
    return "vLLM pads its experts to what the kernel asks for that it takes for the card, so no "
           "one layout serves all";
  }
  if (method == "bitsandbytes") {
    return "vLLM 0.32 has moved it to a plug-in, and keeps its constants outside the parameters "
           "that shards hold";
  }
  return nullptr;
}

// Options that vLLM 0.32 refuses too, or whose layout is not known.
const LayerClass& check_options(const std::string& method, const ConfigView& config) {
  const LayerClass* const of = find_layer_class(method);
  if (of == nullptr) {
    const char* const reason = reason_without(method);
    refuse_quantized(fmt::format(
        "the shards of method \"{}\" are not known{}; fp8, fbgemm_fp8, modelopt, quark, awq, gptq "
        "and compressed-tensors are",
        method, reason == nullptr ? "" : fmt::format(" ({})", reason)));
  }
  if (method == "gptq") check_gptq(config);
  if (method == "fbgemm_fp8") check_fbgemm(config);
  if (method != "compressed-tensors") return *of;
  check_groups(config);
  if (config.has_child({"kv_cache_scheme"})) check_cache_scheme(config.child({"kv_cache_scheme"}));
  return *of;
}

// ---- towers ----

// Layers of towers that vLLM's classes never quantize: InternVL's projector is made of plain
// modules, SigLIP's MLPs are whole where their sizes are no multiples of 64.
bool is_always_whole(const model::VisionSpec& vision, const WeightSpec& weight) {
  constexpr int64_t kMultiple = 64;
  if (vision.kind == model::VisionKind::internvl) return weight.name.starts_with("mlp1.");
  const bool siglip =
      vision.kind == model::VisionKind::gemma3 || vision.kind == model::VisionKind::siglip;
  return siglip && weight.name.find(".mlp.fc") != std::string::npos &&
         (weight.rows() % kMultiple != 0 || weight.columns() % kMultiple != 0);
}

// ---- the model ----

/// Makes the table of a quantized model from that of the plain one.
class Conversion {
 public:
  Conversion(const quantization::Quantization& quantization, const LayerClass& of,
             const StoredTensors& stored, ModelSpec& spec)
      : quantization_(quantization), of_(of), stored_(stored), spec_(spec) {
    if (spec.is_recurrent()) {
      refuse_quantized("quantized recurrent layers (" + spec.architecture +
                       "), whose layouts are not known here yet");
    }
    for (const model::LayerSpec& layer : spec.layers) {
      if (!layer.has_attention()) continue;
      const model::AttentionSpec& attention = layer.attention;
      if (attention.latent.kv_rank > 0) {
        refuse_quantized("quantized latent attention (" + spec.architecture +
                         "), whose layouts are not known here yet");
      }
      attention_after_[attention_end(attention)] = &attention;
      linear_[attention.qkv.weight] = &attention;
      linear_[attention.out.weight] = nullptr;
      if (layer.mlp.kind == model::MlpKind::experts) {
        experts_[layer.mlp.up.weight] = layer.mlp.down.weight;
        continue;
      }
      linear_[layer.mlp.up.weight] = linear_[layer.mlp.down.weight] = nullptr;
    }
  }

  void run() {
    std::vector<WeightId> now;
    for (size_t i = 0; i < spec_.weights.size(); ++i) {
      const auto id = static_cast<WeightId>(i);
      now.push_back(static_cast<WeightId>(weights_.size()));
      add(id);
      const auto attention = attention_after_.find(id);
      if (attention != attention_after_.end()) add_attention(*attention->second);
    }
    spec_.weights = std::move(weights_);
    renumber(spec_, now);
  }

  /// Configurations name towers' modules in too many ways: the tensors say which are quantized.
  void run_towers() {
    std::vector<WeightSpec> towers;
    for (const WeightSpec& weight : spec_.towers) {
      if (!stored_.holds_codes(weight)) {
        towers.push_back(weight);
        continue;
      }
      if (spec_.vision != nullptr && is_always_whole(*spec_.vision, weight)) {
        refuse_quantized(fmt::format("{}, which vLLM's {} always has whole; vLLM refuses it too",
                                     weight.name, spec_.architecture));
      }
      const WeightScheme stated = quantization_.linear(module_of_weight(weight));
      add_quantized_linear(weight, stated.plain() ? quantization_.usual() : stated, of_, stored_,
                           towers);
    }
    spec_.towers = std::move(towers);
  }

 private:
  void add(WeightId id) {
    const WeightSpec& weight = spec_.weight(id);
    const auto experts = experts_.find(id);
    if (experts != experts_.end()) return add_experts(weight, spec_.weight(experts->second));
    if (weight.is_stack()) return;  // the second of the experts'
    const auto linear = linear_.find(id);
    const bool is_head = id == spec_.head && id != spec_.embedding;
    WeightScheme scheme;
    if (is_head) scheme = quantization_.lm_head(module_of_weight(weight));
    if (linear != linear_.end()) scheme = quantization_.linear(module_of_weight(weight));
    if (is_plain(weight, scheme)) {
      weights_.push_back(weight);
      return;
    }
    if (is_head && !of_.quantizes_head) {
      refuse_quantized(weight.name + " is quantized, which vLLM does not load of " +
                       quantization_.method());
    }
    const size_t first = weights_.size();
    add_quantized_linear(weight, scheme, of_, stored_, weights_);
    if (is_head || linear->second == nullptr) return;
    for (size_t i = first; i < weights_.size(); ++i) {
      weights_[i].heads = linear->second->heads;
      weights_[i].kv_heads = linear->second->kv_heads;
    }
  }

  void add_experts(const WeightSpec& up, const WeightSpec& down) {
    const WeightScheme scheme = quantization_.experts(module_of_experts(up, down));
    if (is_plain(up, scheme)) {
      weights_.push_back(up);
      weights_.push_back(down);
      return;
    }
    add_quantized_experts(up, down, scheme, of_, stored_, weights_);
  }

  void add_attention(const model::AttentionSpec& attention) {
    const std::string& stored = spec_.weight(attention.out.weight).parts.front().tensor;
    if (!quantization_.has_attention_scales(/*latent=*/false)) return;
    add_cache_scales(quantization_.method(), attention_module(spec_, attention),
                     std::string(module_of(module_of(stored))), stored_, weights_);
  }

  // AWQ and GPTQ leave layers plain whose weights are stored so.
  [[nodiscard]] bool is_plain(const WeightSpec& weight, const WeightScheme& scheme) const {
    const bool packed = scheme.format == WeightFormat::awq || scheme.format == WeightFormat::gptq;
    return scheme.plain() || (packed && stored_.is_plain(weight));
  }

  const quantization::Quantization& quantization_;
  const LayerClass& of_;
  const StoredTensors& stored_;
  ModelSpec& spec_;
  std::map<WeightId, const model::AttentionSpec*> linear_;  // with the heads of q, k and v
  std::map<WeightId, WeightId> experts_;                    // up to down
  std::map<WeightId, const model::AttentionSpec*> attention_after_;
  std::vector<WeightSpec> weights_;
};

}  // namespace

void quantize_weights(const Json& config, const StoredTensors& stored, ModelSpec& spec) {
  const ConfigView settings = ConfigView(config, "config.json").child({"quantization_config"});
  const quantization::Quantization schemes(settings);
  const LayerClass& of = check_options(schemes.method(), settings);
  if (!schemes.online_transform().empty()) {
    refuse_quantized("transforms that are computed at run time (" + schemes.online_transform() +
                     "), whose layouts are not known here");
  }
  Conversion conversion(schemes, of, stored, spec);
  conversion.run();
  conversion.run_towers();
  spec.quantization.clear();
}

std::string saver_behaviour(const std::string& method) {
  if (method == "fp8") {
    return "vLLM's own saver fails for scales per tensor, whose weights it holds transposed, and "
           "leaves out the attention's scales for scales per block, so that its loader refuses "
           "them.";
  }
  if (method == "awq") {
    return "vLLM's own saver writes the same with the Triton kernel, and with Marlin the repacked "
           "weights, which its loader would repack once more. vLLM 0.32 loads AWQ shards of "
           "Qwen3-MoE only when config.json lists the routers (mlp.gate) in "
           "modules_to_not_convert.";
  }
  if (method == "gptq") {
    return "vLLM's own saver writes the kernels' repacked weights, which its loader would repack "
           "once more. vLLM 0.32 loads GPTQ shards only when config.json lists the quantized "
           "layers "
           "as modules_in_block_to_quantize.";
  }
  if (method != "compressed-tensors") {
    return "vLLM's own saver fails for 8-bit weights that it holds transposed, and writes others "
           "as its kernels repacked them, which its loader would repack once more.";
  }
  return "vLLM's own saver fails for 8-bit weights, which it holds transposed, and writes packed "
         "ones as its kernels repacked them, which its loader would repack once more.";
}

}  // namespace plimsoll::shard
