// compressed-tensors: a scheme for each group of modules.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "quantization/config.h"

namespace plimsoll::quantization {
namespace {

constexpr Bounds kBits{1, 8};

bool is_float(const ConfigView& numbers) {
  return numbers.text({"type"}, "int") == "float";
}

bool has_zeros(const ConfigView& inputs) {
  return !is_float(inputs) && !inputs.flag({"symmetric"}, true);
}

/// What activations that are rounded are rounded to; `of_packed`: beside packed integers.
TokenInputs token_inputs(const ConfigView& inputs, bool of_packed) {
  if (has_zeros(inputs)) return TokenInputs::int8_zeros;
  if (!of_packed) return TokenInputs::by_format;
  return is_float(inputs) ? TokenInputs::fp8 : TokenInputs::int8;
}

/// How, where run does not do so; null: it does.
const char* inputs_not_run(const ConfigView& inputs, bool of_packed) {
  const bool is_dynamic = !inputs.is_text("dynamic") && inputs.flag({"dynamic"}, false);
  if (has_zeros(inputs) && !is_dynamic)
    return "int8 with stored zero points (input_activations: symmetric false, dynamic false)";
  if (!of_packed) return nullptr;
  if (inputs.integer({"num_bits"}, 8, kBits) != 8)
    return "bits that are not 8 (input_activations: num_bits)";
  const bool by_token = inputs.text({"strategy"}, "tensor") == "token";
  if (!by_token || !is_dynamic)
    return "8 bits by scales that are not each token's (input_activations: strategy, dynamic)";
  return nullptr;
}

/// One group: what its weights are stored as.
WeightScheme compressed_scheme(const ConfigView& group, const std::string& format) {
  const ConfigView weights = group.child({"weights"});
  const int64_t bits = weights.integer({"num_bits"}, 8, kBits);
  const std::string strategy = weights.text({"strategy"}, "tensor");
  const bool of_floats = is_float(weights);
  const ConfigView inputs = group.child({"input_activations"});
  const bool quantized_inputs = group.has_child({"input_activations"});
  // "local": scales of activations for each group, at run time.
  const bool static_input =
      quantized_inputs && !inputs.is_text("dynamic") && !inputs.flag({"dynamic"}, false);
  WeightScheme scheme;
  scheme.bits = bits;
  scheme.group = weights.integer({"group_size"}, 0, {-1, 1 << 20});
  if (scheme.group < 0) scheme.group = 0;
  scheme.zero_points = !weights.flag({"symmetric"}, true);
  if (of_floats && bits == 4) {
    if (scheme.group == 0) scheme.group = 16;
    scheme.format = scheme.group == 32 ? WeightFormat::mxfp4 : WeightFormat::nvfp4;
    scheme.static_input = quantized_inputs;
    scheme.whole_inputs = !quantized_inputs;
    return scheme;
  }
  const bool packed = !of_floats && (bits < 8 || format == "pack-quantized" || !quantized_inputs);
  if (quantized_inputs) {
    scheme.token_inputs = token_inputs(inputs, packed);
    scheme.inputs_not_run = inputs_not_run(inputs, packed);
  }
  if (packed) {
    scheme.format = WeightFormat::packed;
    return scheme;
  }
  scheme.format = of_floats ? WeightFormat::fp8 : WeightFormat::int8;
  scheme.static_input = static_input;
  scheme.whole_inputs = !quantized_inputs;
  if (strategy == "block") {
    const std::vector<int64_t> block = weights.integers({"block_structure"});
    const bool usable = block.size() == 2 && block[0] > 0 && block[1] > 0;
    scheme.block_out = usable ? block[0] : 128;
    scheme.block_in = usable ? block[1] : 128;
    scheme.check_merged = true;
    scheme.scales = Scales::block;
  } else {
    scheme.scales = strategy == "tensor" ? Scales::tensor : Scales::channel;
  }
  return scheme;
}

/// Of the transforms one that no weight has in it already.
std::string transform_at_run_time(const ConfigView& config) {
  const ConfigView groups = config.child({"transform_config"}).child({"config_groups"});
  for (const auto& [name, value] : groups.json().items()) {
    const Json& places = value.is_object() && value.contains("apply") ? value["apply"] : Json();
    for (const Json& place : places) {
      if (!place.is_object()) continue;
      const ConfigView view(place, groups.path() + ": " + name + ": apply");
      const std::string location = view.text({"location"}, "");
      if (!location.starts_with("weight_")) return fmt::format("{} of location {}", name, location);
    }
  }
  return "";
}

}  // namespace

void Quantization::read_compressed(const ConfigView& config) {
  attention_scales_ = true;
  online_transform_ = transform_at_run_time(config);
  ignored_ = NameList(config.texts({"ignore"}), NameMatch::regex);
  const std::string format = config.text({"format"}, "");
  const ConfigView cache = config.child({"kv_cache_scheme"});
  fp8_kv_cache_ = cache.integer({"num_bits"}, 0) == 8 && cache.text({"type"}, "") == "float";
  const ConfigView groups = config.child({"config_groups"});
  for (const auto& [name, value] : groups.json().items()) {
    const ConfigView group(value, groups.path() + ": " + name);
    const std::vector<std::string> targets = group.texts({"targets"});
    const bool every_linear = std::find(targets.begin(), targets.end(), "Linear") != targets.end();
    groups_.push_back({NameList(targets, NameMatch::regex), every_linear,
                       compressed_scheme(group, group.text({"format"}, format))});
  }
  // Kimi-K3's experts go to the mxfp4 method, which leaves every other module plain.
  if (format == "mxfp4-pack-quantized") {
    method_ = "mxfp4";
    expert_scheme_ = mxfp4();
    attention_scales_ = false;
    groups_.clear();
  }
}

}  // namespace plimsoll::quantization
