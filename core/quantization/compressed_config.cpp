// compressed-tensors: a scheme for each group of modules.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/lower_case.h"
#include "quantization/config.h"

namespace plimsoll::quantization {
namespace {

constexpr Bounds kBits{1, 8};
constexpr int64_t kMxGroup = 32;

bool is_float(const ConfigView& numbers) {
  return numbers.choice("type", {"int", "float"}) == "float";
}

bool has_zeros(const ConfigView& inputs) {
  return !is_float(inputs) && !inputs.flag({"symmetric"}, true);
}

/// Scales are made at run time, if not for a token then "local": for a group of a token's.
bool is_dynamic(const ConfigView& inputs) {
  return inputs.is_text("dynamic") || inputs.flag({"dynamic"}, false);
}

/// Whether inputs are in an order of their own: compressed_tensors/quantization/quant_args.py,
/// ActivationOrdering and validate_actorder.
bool orders_inputs(const ConfigView& weights) {
  if (!weights.is_text("actorder")) return weights.flag({"actorder"}, false);
  const std::string order = lower_case(weights.text({"actorder"}, ""));
  return order == "group" || order == "dynamic";
}

/// Numbers to which activations are rounded, where they are; `of_packed`: beside packed integers.
TokenInputs token_inputs(const ConfigView& inputs, bool of_packed) {
  if (has_zeros(inputs))
    return is_dynamic(inputs) ? TokenInputs::int8_zeros : TokenInputs::int8_static_zeros;
  if (!of_packed) return TokenInputs::by_format;
  return is_float(inputs) ? TokenInputs::fp8 : TokenInputs::int8;
}

/// Description of a rounding of activations that `run` does not do; null: it does this one. Beside
/// weights of 8 bits `in_blocks` or not, or beside packed integers.
const char* inputs_not_run(const ConfigView& inputs, bool of_packed, bool in_blocks) {
  if (inputs.integer({"num_bits"}, 8, kBits) != 8)
    return "bits that are not 8 (input_activations: num_bits)";
  const std::string strategy = inputs.text({"strategy"}, "tensor");
  if (of_packed) {
    const bool local = inputs.is_text("dynamic");  // for groups of inputs
    if (strategy == "token" && !local && inputs.flag({"dynamic"}, false)) return nullptr;
    return "8 bits by scales that are not each token's (input_activations: strategy, dynamic)";
  }
  const bool in_groups = strategy == "group" || strategy == "tensor_group";
  if (!in_groups) return nullptr;
  if (in_blocks)
    return inputs.integer({"group_size"}, 128, {-1, 1 << 20}) == 128 ? nullptr : kOtherGroups;
  return "8 bits by scales of groups of inputs (input_activations: strategy)";
}

/// Floats by a power of two of each 32 that a token has beside one another.
bool is_mx(const ConfigView& numbers) {
  return is_float(numbers) && numbers.text({"strategy"}, "group") == "group" &&
         numbers.integer({"group_size"}, kMxGroup, {-1, 1 << 20}) == kMxGroup;
}

/// Description of a rounding of inputs beside four-bit floats that `run` does not do; null: it does
/// this one.
const char* fp4_inputs_not_run(const ConfigView& inputs, WeightFormat format) {
  if (format == WeightFormat::mxfp4) {
    const int64_t bits = inputs.integer({"num_bits"}, 4, kBits);
    const bool run = is_mx(inputs) && is_dynamic(inputs) && (bits == 4 || bits == 8);
    return run ? nullptr : "other numbers than MXFP4 and MXFP8 (input_activations)";
  }
  const bool alike = is_float(inputs) && inputs.integer({"num_bits"}, 4, kBits) == 4;
  return alike ? nullptr : "other numbers than its weights' (input_activations: type, num_bits)";
}

void set_blocks(const ConfigView& weights, WeightScheme& scheme) {
  const std::vector<int64_t> block = weights.integers({"block_structure"});
  constexpr int64_t kMost = 1 << 20;
  const bool usable = block.size() == 2 && std::ranges::all_of(block, [](int64_t size) {
                        return size > 0 && size <= kMost;
                      });
  if (!usable && !block.empty()) {
    fail(ExitCode::checkpoint_unusable, "{}: \"block_structure\" must be two integers from 1 to {}",
         weights.path(), kMost);
  }
  scheme.block_out = usable ? block[0] : 128;
  scheme.block_in = usable ? block[1] : 128;
  if (scheme.block_in != 128 && scheme.inputs_not_run == nullptr)
    scheme.inputs_not_run = kOtherGroups;
  scheme.check_merged = true;
  scheme.scales = Scales::block;
}

/// One group: what its weights are stored as.
WeightScheme compressed_scheme(const ConfigView& group, const std::string& format) {
  const ConfigView weights = group.child({"weights"});
  const int64_t bits = weights.integer({"num_bits"}, 8, kBits);
  const std::string strategy =
      weights.choice("strategy", {"tensor", "channel", "group", "block", "tensor_group"});
  const bool of_floats = is_float(weights);
  const ConfigView inputs = group.child({"input_activations"});
  const bool quantized_inputs = group.has_child({"input_activations"});
  const bool static_input = quantized_inputs && !is_dynamic(inputs);
  WeightScheme scheme;
  scheme.bits = bits;
  scheme.group = weights.integer({"group_size"}, 0, {-1, 1 << 20});
  if (scheme.group < 0) scheme.group = 0;
  if (of_floats && bits == 4) {
    if (scheme.group == 0) scheme.group = 16;
    scheme.format = scheme.group == 32 ? WeightFormat::mxfp4 : WeightFormat::nvfp4;
    scheme.static_input = quantized_inputs;
    scheme.whole_inputs = !quantized_inputs;
    if (quantized_inputs) scheme.inputs_not_run = fp4_inputs_not_run(inputs, scheme.format);
    if (scheme.format == WeightFormat::mxfp4) {
      scheme.token_inputs =
          inputs.integer({"num_bits"}, 4, kBits) == 4 ? TokenInputs::mxfp4 : TokenInputs::mxfp8;
    }
    return scheme;
  }
  const bool packed = !of_floats && (bits < 8 || format == "pack-quantized" || !quantized_inputs);
  if (quantized_inputs) {
    scheme.token_inputs = token_inputs(inputs, packed);
    scheme.inputs_not_run = inputs_not_run(inputs, packed, strategy == "block");
    const bool powers = !packed && of_floats && is_mx(weights) && scheme.group == kMxGroup;
    if (powers && is_mx(inputs) && is_dynamic(inputs) &&
        inputs.integer({"num_bits"}, 8, kBits) == 8) {
      scheme.token_inputs = TokenInputs::mxfp8;
      scheme.inputs_not_run = nullptr;
    }
    if (!packed && is_float(inputs) != of_floats)
      scheme.inputs_not_run = "numbers of another kind than its weights (input_activations: type)";
  }
  scheme.scales = strategy == "tensor" ? Scales::tensor : Scales::channel;
  if (packed) {
    scheme.format = WeightFormat::packed;
    scheme.zero_points = !weights.flag({"symmetric"}, true);
    scheme.indexed_inputs = orders_inputs(weights);
    return scheme;
  }
  scheme.format = of_floats ? WeightFormat::fp8 : WeightFormat::int8;
  scheme.static_input = static_input;
  scheme.whole_inputs = !quantized_inputs;
  if (strategy == "block") set_blocks(weights, scheme);
  return scheme;
}

/// Name and location of the first transform that is computed at run time, because no weight has it
/// folded in; "": there is none.
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
  std::map<std::string, WeightScheme> patterns;
  for (const auto& [name, value] : groups.json().items()) {
    const ConfigView group(value, groups.path() + ": " + name);
    const std::vector<std::string> targets = group.texts({"targets"});
    const WeightScheme scheme = compressed_scheme(group, group.text({"format"}, format));
    if (orders_inputs(group.child({"weights"})))
      dropped_ =
          "Compressed-tensors group/dynamic activation ordering is no longer supported. Use a "
          "checkpoint with static/weight activation ordering or without activation ordering.";
    std::vector<std::string> whole;
    for (const std::string& target : targets) {
      if (target.starts_with("re:"))
        patterns.emplace(target, scheme);
      else
        whole.push_back(target);
    }
    const bool every_linear = std::ranges::find(whole, "Linear") != whole.end();
    groups_.push_back({NameList(whole, NameMatch::exact), NameList(targets, NameMatch::regex),
                       every_linear, scheme});
  }
  for (const auto& [pattern, scheme] : patterns)
    rules_.push_back({NameList({pattern}, NameMatch::regex), scheme});
  mxfp4_packed_ = format == "mxfp4-pack-quantized";
}

}  // namespace plimsoll::quantization
