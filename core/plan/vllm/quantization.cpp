// Which quantization a launch of vLLM gets: the checkpoint's, or the one that --quantization asks
// for.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "plan/vllm/plan.h"

namespace plimsoll::plan {
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

/// The checkpoint's, if its config states one that is known.
Quantization stated_quantization(const ConfigView& config, const EngineArgs& args) {
  const ConfigView text = text_config(config);
  for (const ConfigView* view : {&config, &text}) {
    if (!view->has_child({"quantization_config", "compression_config"})) continue;
    const ConfigView settings = view->child({"quantization_config", "compression_config"});
    Quantization own(settings);
    if (architecture_name(config) == "DeepseekV4ForCausalLM") {
      own.specialize_for_deepseek_v4(config.text({"expert_dtype"}, "fp4"),
                                     settings.text({"moe_quant_algo"}, ""));
    }
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

}  // namespace plimsoll::plan
