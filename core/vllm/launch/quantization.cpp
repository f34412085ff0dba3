// Quantization of a launch of vLLM: the checkpoint's, or the one that --quantization asks for.
#include "vllm/launch/quantization.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "vllm/shapes/model_shape.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kMarlinGptqAlone{0, 30, 0};
constexpr VllmVersion kRefusesDeprecated{0, 32, 0};  // releases before it were not looked at

/// One name for a method and for the kernels of it that the flag may ask for.
std::string family_of(std::string method) {
  if (method.starts_with("auto_")) method.erase(0, 5);
  if (method.ends_with("_marlin")) method.erase(method.size() - 7);
  if (method == "gpt_oss_mxfp4") return "mxfp4";
  if (method == "deepseek_v4_fp8") return "fp8";
  if (method == "intel/auto-round" || method == "inc") return "auto-round";
  return method.starts_with("modelopt") ? "modelopt" : method;
}

void check_method(const Quantization& own, const EngineArgs& args) {
  const std::string& asked = args.quantization;
  if (asked.empty() || asked == "humming" || family_of(asked) == family_of(own.method())) return;
  // These go before what the argument says.
  const std::string family = family_of(own.method());
  if (family == "modelopt" || family == "auto-round" || family == "mxfp4") return;
  const bool packed = own.method().starts_with("awq") || own.method().starts_with("gptq");
  if (asked == "moe_wna16" && packed) return;
  fail(ExitCode::usage,
       "Quantization method specified in the model config ({}) does not match the quantization "
       "method specified in the `quantization` argument ({}). Leave --quantization out.",
       own.method(), asked);
}

void check_deprecated(const std::string& method, const EngineArgs& args) {
  if (args.version < kRefusesDeprecated || args.deprecated_quantization) return;
  fail(ExitCode::usage,
       "The quantization method {} is deprecated and will be removed in future versions of vLLM. "
       "To bypass, set `--allow-deprecated-quantization`.",
       method);
}

model::Codes codes_of(const ConfigView& config) {
  const model::Family* const row = language_family(config);
  return row == nullptr ? model::Codes::as_stated : row->codes;
}

/// The checkpoint's, if its config states one that is known.
Quantization stated_quantization(const ConfigView& config, const EngineArgs& args) {
  const ConfigView text = text_config(config);
  for (const ConfigView* view : {&config, &text}) {
    if (!view->has_child({"quantization_config", "compression_config"})) continue;
    const ConfigView settings = view->child({"quantization_config", "compression_config"});
    Quantization own(settings);
    const model::Codes codes = codes_of(config);
    if (codes == model::Codes::fp4_experts) {
      own.specialize_for_deepseek_v4(config.text({"expert_dtype"}, "fp4"),
                                     settings.text({"moe_quant_algo"}, ""));
    }
    if (codes == model::Codes::experts_alone) own.leave_all_but_experts();
    if (!own.dropped().empty() && args.version >= kMarlinGptqAlone) {
      fail(ExitCode::usage, "{}: {} --vllm-version 0.29 and earlier read it.", settings.path(),
           own.dropped());
    }
    if (own.is("fbgemm_fp8")) check_deprecated(own.method(), args);
    if (!own.method().empty()) return own;
  }
  return {};
}

/// A word of the model's name that says how its weights are stored; empty: none.
std::string stated_by_name(const ConfigView& config) {
  std::string name = config.path() + " " + config.text({"_name_or_path"}, "");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const std::string_view word : {"NVFP4", "MXFP4", "FP8", "AWQ", "GPTQ", "W4A16", "W8A8"}) {
    if (name.find(word) != std::string::npos) return std::string(word);
  }
  const std::string producer = config.child({"producer"}).text({"name"}, "");
  if (producer == "modelopt") return "ModelOpt";
  return config.child({"quantization"}).text({"quant_algo"}, "");
}

/// The flag that plans for it.
std::string_view method_of_name(const std::string& word) {
  if (word == "NVFP4") return "modelopt_fp4";
  if (word == "FP8") return "modelopt, or fp8 for weights that are quantized while loading";
  if (word == "AWQ" || word == "W4A16") return "awq";
  if (word == "GPTQ") return "gptq";
  return "METHOD";
}

}  // namespace

Quantization quantization_of(const ConfigView& config, const EngineArgs& args) {
  Quantization own = stated_quantization(config, args);
  if (!own.method().empty()) {
    check_method(own, args);
    return own;
  }
  if (!args.quantization.empty()) return Quantization::asked(args.quantization);
  return args.as_awq ? Quantization::asked("awq") : own;
}

std::string quantization_note(const ConfigView& config, const EngineArgs& args,
                              const Quantization& quantization) {
  if (quantization.is_assumed() && !args.as_awq) {
    return fmt::format(
        "the config states no quantization: planned as {} checkpoints usually are; its own "
        "quantization_config, or hf_quant_config.json beside it, would say what is left whole",
        args.quantization);
  }
  if (!quantization.method().empty() || args.as_awq) return "";
  const std::string word = stated_by_name(config);
  if (word.empty()) return "";
  return fmt::format(
      "{} is said of this model, but its config has no quantization_config: planned with whole "
      "weights; put hf_quant_config.json beside config.json, or say --quantization {}",
      word, method_of_name(word));
}

void check_card(const std::string& method, const VllmVersion& version, const hardware::Gpu* gpu) {
  if (gpu == nullptr || gpu->compute_capability == 0 || method.empty()) return;
  const int recent = version >= VllmVersion{0, 14, 0} ? 75 : 80;
  const std::map<std::string_view, int> least = {
      {"fp8", version < VllmVersion{0, 5, 2} ? 89 : recent},
      {"awq", 75},
      {"awq_marlin", recent},
      {"gptq", 60},
      {"gptq_marlin", version >= VllmVersion{0, 22, 0} ? 60 : recent},
      {"compressed-tensors", 70},
      {"bitsandbytes", 70},
      {"quark", 70},
      {"fbgemm_fp8", 80},
      {"mxfp4", 80},
      {"gpt_oss_mxfp4", 80},
      {"modelopt", version >= VllmVersion{0, 27, 0} ? 80 : 89},
      {"modelopt_fp4", recent}};
  const auto wanted = least.find(method);
  const auto has = static_cast<int>(std::lround(gpu->compute_capability * 10));
  if (wanted == least.end() || has >= wanted->second) return;
  fail(ExitCode::usage,
       "The quantization method {} is not supported for the current GPU. Minimum capability: {}. "
       "Current capability: {}.",
       method, wanted->second, has);
}

void check_dtype(const std::string& method, const std::string& dtype, const VllmVersion& version) {
  const bool recent = version >= VllmVersion{0, 30, 0};  // AWQ and GPTQ by Marlin's kernels alone
  const char* supported = "torch.bfloat16, torch.float16";
  if (method.empty() || method == "bitsandbytes") return;
  if (method == "compressed-tensors" && version >= VllmVersion{0, 20, 0}) return;
  if ((method == "awq" || method == "gptq") && !recent) supported = "torch.float16";
  if (method == "mxfp4") supported = "torch.bfloat16";
  // Marlin's kernels are chosen where AWQ's and GPTQ's own do not take bfloat16.
  if (dtype == "bfloat16" || (dtype == "float16" && method != "mxfp4")) return;
  fail(ExitCode::usage,
       "torch.{} is not supported for quantization method {}. Supported dtypes: [{}]. Use --dtype "
       "{}.",
       dtype, method, supported, method == "mxfp4" ? "bfloat16" : "float16");
}

}  // namespace plimsoll::vllm
