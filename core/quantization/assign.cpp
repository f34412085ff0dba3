#include "quantization/assign.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "base/config_view.h"
#include "base/error.h"
#include "model/slices.h"
#include "quantization/config.h"

namespace plimsoll::quantization {
namespace {

using model::InputRounding;
using model::ModelSpec;
using model::Part;
using model::WeightSpec;

constexpr std::string_view kWeight = ".weight";

ModuleName module_name(const std::string& module) {
  const std::string name = canonical_name(module);
  const size_t dot = name.rfind('.');
  return {.path = dot == std::string::npos ? "" : name.substr(0, dot),
          .leaf = name.substr(dot + 1),
          .shards = {},
          .stored = module};
}

InputRounding input_rounding(const WeightScheme& scheme) {
  if (scheme.whole_inputs) return InputRounding::none;
  switch (scheme.token_inputs) {
    case TokenInputs::int8:
      return InputRounding::int8_token;
    case TokenInputs::int8_zeros:
      return InputRounding::int8_zeros;
    case TokenInputs::int8_static_zeros:
      return InputRounding::int8_static_zeros;
    case TokenInputs::fp8:
      return InputRounding::fp8_token;
    case TokenInputs::mxfp4:
      return InputRounding::mxfp4_group;
    case TokenInputs::mxfp8:
      return InputRounding::mxfp8_group;
    case TokenInputs::by_format:
      break;
  }
  switch (scheme.format) {
    case WeightFormat::int8:
      return scheme.static_input ? InputRounding::int8_static : InputRounding::int8_token;
    case WeightFormat::fp8:
      if (scheme.scales == Scales::block) return InputRounding::fp8_group;
      if (scheme.most_input > 0) return InputRounding::fp8_bounded;
      return scheme.static_input ? InputRounding::fp8_static : InputRounding::fp8_token;
    case WeightFormat::nvfp4:
      return InputRounding::nvfp4_group;
    default:
      return InputRounding::none;
  }
}

/// Assigns schemes to the parts of one model.
class Assignment {
 public:
  Assignment(const Quantization& schemes, const FindStored& find, Activations activations,
             ModelSpec& spec)
      : schemes_(schemes), find_(find), activations_(activations), spec_(spec) {
    for (size_t i = 0; i < spec.weights.size(); ++i)
      is_router_.push_back(spec.is_router(static_cast<model::WeightId>(i)));
  }

  void run() {
    for (size_t i = 0; i < spec_.weights.size(); ++i) {
      const auto id = static_cast<model::WeightId>(i);
      WeightSpec& weight = spec_.weights[i];
      if (!may_be_quantized(id, weight)) {
        refuse_codes(weight);
        continue;
      }
      for (Part& part : weight.parts) assign(id, weight, part);
      if (weight.is_stack()) check_alike(weight);
    }
    for (WeightSpec& weight : spec_.towers) assign_tower(weight);
  }

 private:
  [[nodiscard]] bool may_be_quantized(model::WeightId id, const WeightSpec& weight) const {
    const bool matrix =
        weight.use == model::WeightUse::linear ||
        (weight.use == model::WeightUse::experts && !weight.is_vector());  // no stacked biases
    return matrix && id != spec_.embedding && id != spec_.position_embedding;
  }

  /// Tables of tokens, norms and convolutions are read whole.
  void refuse_codes(const WeightSpec& weight) const {
    for (const Part& part : weight.parts) {
      if (!find_ || !part.tensor.ends_with(kWeight)) continue;
      const StoredMatrix matrix = stored_matrix(weight, part, find_);
      for (const char* codes : {"qweight", "weight_packed", "weight_scale", "weight.absmax"}) {
        const std::optional<StoredTensor> found = matrix.find(codes);
        if (!found) continue;
        fail(ExitCode::checkpoint_unusable,
             "tensor \"{}\": {} is quantized, and only linear layers and experts are run so; use a "
             "checkpoint that leaves it whole, or the unquantized model",
             found->name, matrix.module);
      }
    }
  }

  void assign(model::WeightId id, const WeightSpec& weight, Part& part) const {
    // A stack of plain experts stands for one of quantized experts where the configuration alone
    // decides.
    const bool of_stack = !find_ && part.tensor.ends_with("]");
    if (!of_stack && !part.tensor.ends_with(kWeight)) return;
    const StoredMatrix matrix = stored_matrix(weight, part, find_);
    pack(part, matrix, scheme_of(id, matrix));
  }

  /// Configurations name towers' modules in too many ways: the tensors say which are quantized.
  void assign_tower(WeightSpec& weight) const {
    if (weight.use != model::WeightUse::linear || !find_) return;
    for (Part& part : weight.parts) {
      if (!part.tensor.ends_with(kWeight)) continue;
      const StoredMatrix matrix = stored_matrix(weight, part, find_);
      if (holds_codes(matrix.find)) pack(part, matrix, scheme_of_codes(matrix));
    }
  }

  void pack(Part& part, const StoredMatrix& matrix, const WeightScheme& scheme) const {
    if (scheme.plain()) return;
    if (find_ && scheme.layout_not_run != nullptr) {
      fail(ExitCode::checkpoint_unusable,
           "config.json: quantization_config: codes in the order of \"{}\" are not run ({}); use a "
           "checkpoint in the usual one (AWQ's \"gemm\", \"gptq\" or \"gptq_v2\"), or the "
           "unquantized model",
           scheme.layout_not_run, matrix.module);
    }
    part.packing = packing_of(scheme, matrix);
    if (find_ && part.transposed && !is_run_transposed(part.packing->format)) {
      fail(ExitCode::checkpoint_unusable,
           "{}: quantized and stored transposed, which is not run of {}; use the unquantized model",
           matrix.module, format_name(part.packing->format));
    }
    // Rows that are not consecutive in the stored matrix cannot keep nested scales, whose blocks
    // are found by row number.
    const bool together = part.block_count == 1 && part.order == model::RowOrder::stored;
    if (part.packing->scale == model::ScaleType::nested && !together)
      part.packing->scale = model::ScaleType::f32;
    const bool rounded = activations_ != Activations::whole;
    if (rounded && !scheme.whole_inputs && scheme.inputs_not_run != nullptr) {
      fail(ExitCode::checkpoint_unusable,
           "{}: its inputs are rounded to {}, which is not run; --quantized-activations off "
           "computes from whole inputs",
           matrix.module, scheme.inputs_not_run);
    }
    part.packing->inputs = rounded ? input_rounding(scheme) : InputRounding::none;
    if (part.packing->inputs == InputRounding::fp8_bounded)
      part.packing->most_input = scheme.most_input;
  }

  /// Scheme of a matrix: by the configuration, but the checkpoint's tensors have the last word.
  [[nodiscard]] WeightScheme scheme_of(model::WeightId id, const StoredMatrix& matrix) const {
    const bool expert = spec_.weight(id).use == model::WeightUse::experts;
    const std::optional<WeightScheme>& of_experts = schemes_.expert_scheme();
    const WeightScheme stated =
        expert && of_experts && !of_experts->plain() ? *of_experts : stated_scheme(id, matrix);
    if (!find_) return stated;
    const bool codes = holds_codes(matrix.find);
    if (!codes) return matrix.find("weight") ? WeightScheme{} : stated;
    return stated.plain() ? scheme_of_codes(matrix) : stated;
  }

  /// Scheme of a matrix that holds codes. "mlp.gate" among the names of modules left whole does not
  /// mean "mlp.gate_proj".
  [[nodiscard]] WeightScheme scheme_of_codes(const StoredMatrix& matrix) const {
    const WeightScheme linear = schemes_.stored(module_name(matrix.module));
    return linear.plain() ? schemes_.usual() : linear;
  }

  [[nodiscard]] WeightScheme stated_scheme(model::WeightId id, const StoredMatrix& matrix) const {
    const ModuleName name = module_name(matrix.module);
    if (id == spec_.head) return schemes_.lm_head(name);
    return is_router_[static_cast<size_t>(id)] ? WeightScheme{} : schemes_.stored(name);
  }

  /// One offset from expert to expert serves all.
  static void check_alike(WeightSpec& weight) {
    const size_t each = weight.parts_in_matrix();
    order_alike(weight, each);
    for (size_t i = each; i < weight.parts.size(); ++i) {
      if (weight.parts[i].packing == weight.parts[i % each].packing) continue;
      fail(ExitCode::checkpoint_unusable,
           "tensor \"{}\": quantized otherwise than the first expert's, \"{}\", which is not run; "
           "use "
           "the unquantized model",
           weight.parts[i].tensor, weight.parts[i % each].tensor);
    }
    for (size_t i = 1; i < each; ++i) {
      if (weight.parts[i].packing.has_value() == weight.parts[0].packing.has_value()) continue;
      fail(ExitCode::checkpoint_unusable,
           "tensor \"{}\": one of an expert's matrices is quantized and one is not, which is not "
           "run; use the unquantized model",
           weight.parts[i].tensor);
    }
  }

  /// Gives all of a weight's experts an order of their inputs where some have one; it may be the
  /// natural order.
  static void order_alike(WeightSpec& weight, size_t each) {
    for (size_t kind = 0; kind < each; ++kind) {
      bool ordered = false;
      for (size_t i = kind; i < weight.parts.size(); i += each)
        ordered |= weight.parts[i].packing && weight.parts[i].packing->ordered;
      for (size_t i = kind; i < weight.parts.size(); i += each)
        if (weight.parts[i].packing) weight.parts[i].packing->ordered = ordered;
    }
  }

  const Quantization& schemes_;
  const FindStored& find_;
  Activations activations_;
  ModelSpec& spec_;
  std::vector<bool> is_router_;  // by WeightId
};

/// The scale of a layer's keys or values, under any of the names that it has; 1: none is stored, 0:
/// the stored tensor is not one positive number.
float cache_scale(const std::string& attention, const std::string& letter, const FindStored& find) {
  for (const char* ending : {".attn.{}_scale", ".{}_scale", ".{0}_proj.{0}_scale",
                             ".qkv_proj.{}_scale", ".{}_proj.output_scale", ".kv_scale"}) {
    const std::optional<StoredTensor> tensor =
        find(attention + fmt::format(fmt::runtime(ending), letter));
    if (!tensor) continue;
    const bool real =
        tensor->dtype == DType::f32 || tensor->dtype == DType::f16 || tensor->dtype == DType::bf16;
    float value = 0;
    if (real && tensor->elements() == 1) tensor->guarded([&] { value = tensor->number(0); });
    return value > 0 && std::isfinite(value) ? value : 0;
  }
  return 1;
}

void read_cache_scales(const FindStored& find, ModelSpec& spec) {
  for (model::LayerSpec& layer : spec.layers) {
    if (layer.attention.out.weight == model::kNoWeight) continue;
    const std::string& tensor = spec.weight(layer.attention.out.weight).parts.front().tensor;
    const std::string module = tensor.substr(0, tensor.rfind('.'));
    const std::string attention = module.substr(0, module.rfind('.'));
    layer.attention.key_scale = cache_scale(attention, "k", find);
    layer.attention.value_scale = cache_scale(attention, "v", find);
  }
}

const Json* settings_of(const Json& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object()) return &*found;
  }
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() ? settings_of(*text) : nullptr;
}

}  // namespace

StoredMatrix stored_matrix(const WeightSpec& weight, const Part& part, const FindStored& find) {
  StoredMatrix matrix;
  const bool named = part.tensor.ends_with(kWeight);
  matrix.module = part.tensor.substr(0, part.tensor.size() - (named ? kWeight.size() : 0));
  matrix.rows = part.stored_rows();
  matrix.transposed = part.transposed;
  matrix.columns = weight.columns();
  matrix.padded_rows = weight.split == model::Split::vocabulary;
  if (!find) {
    matrix.find = [](const std::string&) { return std::optional<StoredTensor>(); };
    return matrix;
  }
  matrix.find = [module = matrix.module, find](const std::string& ending) {
    return find(module + "." + ending);
  };
  return matrix;
}

void assign_packings(const Json& config, const FindStored& find, Activations activations,
                     ModelSpec& spec) {
  const Json* const settings = settings_of(config);
  if (settings == nullptr) return;
  const Quantization schemes(ConfigView(*settings, "config.json: quantization_config"));
  if (schemes.method().empty()) return;
  if (!schemes.online_transform().empty()) {
    fail(ExitCode::checkpoint_unusable,
         "config.json: quantization_config: transform_config: {} is computed at run time, which is "
         "not run; use a checkpoint whose transforms are all in its weights",
         schemes.online_transform());
  }
  Assignment(schemes, find, activations, spec).run();
  spec.quantization.clear();
  model::slice_sums(spec);
  if (find) read_cache_scales(find, spec);
  // Scales of attention: only caches of fp8 are stored by them.
  for (const char* ending : {".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".prob_output_scale",
                             ".k_zero_point", ".v_zero_point", ".q_zero_point", ".output_scale"}) {
    spec.ignored_suffixes.emplace_back(ending);
  }
}

}  // namespace plimsoll::quantization
