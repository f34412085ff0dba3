// AMD Quark: a scheme for all modules, others for those that patterns name.
#include "base/error.h"
#include "base/json.h"
#include "base/key_order.h"
#include "quantization/config.h"

namespace plimsoll::quantization {
namespace {

[[noreturn]] void refuse(const ConfigView& config, const std::string& dtype,
                         const std::string& scheme) {
  fail(ExitCode::checkpoint_unusable,
       "{}: Quark's weights of \"{}\" by \"{}\" are not supported; known are fp8_e4m3 per_tensor, "
       "per_channel and per_block of 128 x 128, int8 (symmetric, beside inputs in int8 by a stored "
       "scale) per_tensor and per_channel, int4 and uint4 per_group (without rounded inputs), fp4 "
       "per_group of 32, and of 16 beside fp8_e4m3 per_tensor (NVFP4)",
       config.path(), dtype, scheme);
}

/// Entries of the configuration for one tensor, in the order of its stages.
std::vector<ConfigView> stages_of(const ConfigView& config, const char* key) {
  std::vector<ConfigView> stages;
  const Json* const stated = config.has(key) ? &config.json()[key] : nullptr;
  if (stated == nullptr) return stages;
  if (!stated->is_array()) return {config.child({key})};
  for (const Json& stage : *stated) stages.emplace_back(stage, config.path() + ": " + key);
  return stages;
}

/// int8 on both sides, inputs by a stored scale, of the tensor.
WeightScheme static_int8(const ConfigView& weights, const ConfigView& inputs) {
  const std::string how = weights.text({"qscheme"}, "");
  const bool known = how == "per_tensor" || how == "per_channel";
  const bool beside = inputs.text({"dtype"}, "") == "int8" &&
                      inputs.text({"qscheme"}, "") == "per_tensor" &&
                      !inputs.flag({"is_dynamic"}, false);
  if (!known || !beside || !weights.flag({"symmetric"}, false)) refuse(weights, "int8", how);
  return {.format = WeightFormat::int8,
          .scales = how == "per_tensor" ? Scales::tensor : Scales::channel,
          .bits = 8,
          .static_input = true,
          .token_inputs = inputs.flag({"symmetric"}, false) ? TokenInputs::by_format
                                                            : TokenInputs::int8_static_zeros,
          .zero_points = true};  // of symmetric weights too
}

/// Integers of four bits in words, in AWQ's order.
WeightScheme packed_int4(const ConfigView& weights, const std::string& pack_method) {
  const int64_t group = weights.required({"group_size"}, {1, 1 << 20});
  const std::string how = weights.text({"qscheme"}, "per_group");
  if (pack_method != "reorder") {
    fail(ExitCode::checkpoint_unusable,
         "{}: Quark's int4 that is packed by \"{}\" is not run; export it with pack_method "
         "\"reorder\"",
         weights.path(), pack_method);
  }
  if (how != "per_group" || !weights.has("symmetric")) {
    refuse(weights, weights.text({"dtype"}, ""), how);
  }
  return {.format = WeightFormat::quark_int4,
          .bits = 4,
          .group = group,
          .zero_points = !weights.flag({"symmetric"}, false),
          .whole_inputs = true};
}

/// Floats of four bits by a float8 for each 16 inputs, and these by a float32; inputs likewise.
WeightScheme two_stages(const ConfigView& config, const std::vector<ConfigView>& weights,
                        const std::vector<ConfigView>& inputs) {
  const auto is_nvfp4 = [](const std::vector<ConfigView>& stages, bool dynamic) {
    return stages.size() == 2 && stages[0].text({"dtype"}, "") == "fp4" &&
           stages[0].text({"qscheme"}, "") == "per_group" &&
           stages[0].integer({"group_size"}, 0) == nvfp4().group &&
           stages[0].flag({"is_dynamic"}, false) == dynamic &&
           stages[1].text({"dtype"}, "") == "fp8_e4m3" &&
           stages[1].text({"qscheme"}, "") == "per_tensor" &&
           !stages[1].flag({"is_dynamic"}, false);
  };
  if (is_nvfp4(weights, false) && is_nvfp4(inputs, true)) return nvfp4();
  const std::string dtype = weights.empty() ? "" : weights[0].text({"dtype"}, "");
  refuse(config, dtype + " in stages", weights.empty() ? "" : weights[0].text({"qscheme"}, ""));
}

/// Inputs by a power of two of each group of 32, of their own.
void round_to_mx(const ConfigView& inputs, WeightScheme& scheme) {
  const std::string dtype = inputs.text({"dtype"}, "");
  const bool powers = inputs.text({"qscheme"}, "") == "per_group" &&
                      inputs.integer({"group_size"}, 0) == scheme.group &&
                      inputs.text({"scale_format"}, "") == "e8m0" &&
                      inputs.flag({"is_dynamic"}, false);
  if (powers && dtype == "fp4") {
    scheme.token_inputs = TokenInputs::mxfp4;
  } else if (powers && dtype == "fp8_e4m3") {
    scheme.token_inputs = TokenInputs::mxfp8;
  } else {
    scheme.inputs_not_run = "other numbers than MXFP4 and MXFP8 (input_tensors)";
  }
}

/// Scheme of weights and inputs by one entry of the configuration.
WeightScheme quark_scheme(const ConfigView& config, const std::string& pack_method) {
  const std::vector<ConfigView> weight_stages = stages_of(config, "weight");
  const std::vector<ConfigView> input_stages = stages_of(config, "input_tensors");
  if (weight_stages.size() > 1 || input_stages.size() > 1) {
    return two_stages(config, weight_stages, input_stages);
  }
  const Json none = Json::object();
  const ConfigView nothing(none, config.path());
  const ConfigView weights = weight_stages.empty() ? nothing : weight_stages.front();
  const ConfigView inputs = input_stages.empty() ? nothing : input_stages.front();
  const std::string dtype = weights.text({"dtype"}, "");
  const std::string how = weights.text({"qscheme"}, "");
  const bool rounded = !input_stages.empty();
  if (dtype == "fp4" && how == "per_group" && weights.integer({"group_size"}, 0) == mxfp4().group) {
    WeightScheme scheme = mxfp4();
    scheme.whole_inputs = !rounded;
    if (rounded) round_to_mx(inputs, scheme);
    return scheme;
  }
  if ((dtype == "int4" || dtype == "uint4") && !rounded) return packed_int4(weights, pack_method);
  if (dtype == "int8" && rounded) return static_int8(weights, inputs);
  if (dtype != "fp8_e4m3" || !rounded) refuse(config, dtype, how);
  const bool static_input = !inputs.flag({"is_dynamic"}, false);
  if (how == "per_tensor") return tensor_fp8(static_input);
  const bool blocks =
      how == "per_block" && weights.integers({"block_size"}) == std::vector<int64_t>{128, 128};
  if (how != "per_channel" && !blocks) refuse(config, dtype, how);
  WeightScheme scheme = blocks ? block_fp8(128, 128) : channel_fp8();
  scheme.static_input = static_input;
  if (blocks && weights.text({"scale_type"}, "") == "float8_e8m0fnu") scheme.scale_bytes = 1;
  return scheme;
}

}  // namespace

void Quantization::read_quark(const ConfigView& config) {
  attention_scales_ = true;
  ignored_ = NameList(config.texts({"exclude"}), NameMatch::regex);
  const std::string pack_method = config.child({"export"}).text({"pack_method"}, "reorder");
  base_ = quark_scheme(config.child({"global_quant_config"}), pack_method);
  const ConfigView layers = config.child({"layer_quant_config"});
  for (const std::string& pattern : keys_in_order(config.json(), "layer_quant_config")) {
    const ConfigView view(layers.json().at(pattern), layers.path() + ": " + pattern);
    rules_.push_back({NameList(std::vector<std::string>{pattern}, NameMatch::wildcard),
                      quark_scheme(view, pack_method)});
  }
}

}  // namespace plimsoll::quantization
