// Source: llama_tensor_get_type_impl of llama.cpp's src/llama-quant.cpp.
#include "engines/llamacpp/conversion/mixtures.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "base/lower_case.h"

namespace plimsoll::engines::llamacpp {
namespace {

using checkpoint::gguf::Tensor;

constexpr Mixture kMixtures[] = {
    {"F32", "F32"},         {"F16", "F16"},       {"BF16", "BF16"},   {"Q4_0", "Q4_0"},
    {"Q4_1", "Q4_1"},       {"Q5_0", "Q5_0"},     {"Q5_1", "Q5_1"},   {"Q8_0", "Q8_0"},
    {"Q2_K", "Q2_K"},       {"Q2_K_S", "Q2_K"},   {"Q3_K_S", "Q3_K"}, {"Q3_K_M", "Q3_K"},
    {"Q3_K_L", "Q3_K"},     {"Q4_K_S", "Q4_K"},   {"Q4_K_M", "Q4_K"}, {"Q5_K_S", "Q5_K"},
    {"Q5_K_M", "Q5_K"},     {"Q6_K", "Q6_K"},     {"IQ3_S", "IQ3_S"}, {"IQ3_M", "IQ3_S"},
    {"IQ4_NL", "IQ4_NL"},   {"IQ4_XS", "IQ4_XS"}, {"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"},
    {"MXFP4_MOE", "MXFP4"}, {"Q5_K", "Q5_K_M"},
};

/// Mixtures of llama-quantize without rules here.
constexpr std::string_view kUnplanned[] = {"Q1_0",  "Q2_0",  "TQ1_0",   "TQ2_0",
                                           "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS",
                                           "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS"};

/// Parts of a layer whose types mixtures choose; `value` is the fused projection too.
enum class Role { other, value, key, out, down };

/// Tensors of a role that a rule is about. n: the number of layers.
enum class Where {
  all,
  first_two,
  first_four,
  first_sixteenth,  // of n layers
  first_eighth,
  more,           // the first and the last eighth, and every third between
  more_of_eight,  // likewise, of models with eight experts
  grouped,        // models with four query heads and more for a KV head
};

/// A mixture's type for a role; the first row that holds counts.
struct Rule {
  std::string_view mixture;
  Role role;
  Where where;
  std::string_view type;
};
constexpr Rule kRules[] = {
    {"Q2_K", Role::value, Where::grouped, "Q4_K"},
    {"Q2_K", Role::value, Where::all, "Q3_K"},
    {"Q2_K", Role::down, Where::all, "Q3_K"},
    {"Q2_K", Role::out, Where::all, "Q3_K"},
    {"Q2_K_S", Role::value, Where::grouped, "Q4_K"},
    {"Q2_K_S", Role::down, Where::first_eighth, "Q4_K"},
    {"IQ3_S", Role::value, Where::grouped, "Q4_K"},
    {"IQ3_M", Role::value, Where::all, "Q4_K"},
    {"IQ3_M", Role::down, Where::first_eighth, "Q4_K"},
    {"IQ3_M", Role::down, Where::more_of_eight, "Q4_K"},
    {"IQ3_M", Role::out, Where::all, "Q4_K"},
    {"Q3_K_M", Role::value, Where::first_two, "Q5_K"},
    {"Q3_K_M", Role::value, Where::all, "Q4_K"},
    {"Q3_K_M", Role::down, Where::first_sixteenth, "Q5_K"},
    {"Q3_K_M", Role::down, Where::all, "Q4_K"},
    {"Q3_K_M", Role::out, Where::all, "Q4_K"},
    {"Q3_K_L", Role::value, Where::all, "Q5_K"},
    {"Q3_K_L", Role::down, Where::all, "Q5_K"},
    {"Q3_K_L", Role::out, Where::all, "Q5_K"},
    {"Q4_K_S", Role::value, Where::first_four, "Q5_K"},
    {"Q4_K_S", Role::down, Where::first_eighth, "Q5_K"},
    {"Q4_K_M", Role::value, Where::more, "Q6_K"},
    {"Q4_K_M", Role::down, Where::more, "Q6_K"},
    {"Q5_K_M", Role::value, Where::more, "Q6_K"},
    {"Q5_K_M", Role::down, Where::more, "Q6_K"},
    {"IQ4_NL", Role::value, Where::grouped, "Q5_K"},
    {"IQ4_NL", Role::down, Where::first_eighth, "Q5_K"},
    {"IQ4_XS", Role::value, Where::grouped, "Q5_K"},
    {"IQ4_XS", Role::down, Where::first_eighth, "Q5_K"},
};
/// Falcon's rows, in place of those above for a mixture and a role; its output has no others.
constexpr Rule kFalconRules[] = {
    {"Q3_K_M", Role::down, Where::first_sixteenth, "Q5_K"},
    {"Q3_K_M", Role::down, Where::more, "Q4_K"},
    {"Q3_K_L", Role::down, Where::all, "Q4_K"},
    {"Q3_K_L", Role::out, Where::all, "Q4_K"},
    {"Q4_K_M", Role::down, Where::first_sixteenth, "Q6_K"},
    {"Q4_K_M", Role::down, Where::more, "Q5_K"},
    {"Q4_K_S", Role::down, Where::all, "Q4_K"},
};

/// Mixtures whose attention output has 5 bits where there are eight experts.
constexpr std::string_view kWideOutput[] = {"Q2_K",   "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S",
                                            "Q4_K_M", "IQ3_S",  "IQ3_M",  "IQ4_XS"};

/// The type of rows that the one wanted does not divide.
constexpr std::pair<std::string_view, std::string_view> kNarrower[] = {
    {"Q2_K", "Q4_0"}, {"Q3_K", "Q4_0"},     {"Q4_K", "Q5_0"},   {"Q5_K", "Q5_1"},
    {"Q6_K", "Q8_0"}, {"IQ4_XS", "IQ4_NL"}, {"IQ3_S", "IQ4_NL"}};

bool holds(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

/// Matrices that stay as the converter writes them: float32.
constexpr std::string_view kFloat[] = {"_norm",      "ffn_gate_inp",   "position_embd",
                                       "ssm_conv1d", "shortconv.conv", "altup_"};
/// Matrices that stay in the converter's half precision.
constexpr std::string_view kHalf[] = {"altup_proj", "altup_unembd_proj", "laurel_",
                                      "per_layer_model_proj"};

bool is_named(const Tensor& tensor, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [&](std::string_view part) { return holds(tensor.name, part); });
}

/// Sizes above 1 count as dimensions.
bool is_matrix(const Tensor& tensor) {
  const auto wide = [](int64_t size) { return size > 1; };
  return tensor.name.ends_with(".weight") && tensor.ne.size() > 1 &&
         std::any_of(tensor.ne.begin() + 1, tensor.ne.end(), wide);
}

Role role_of(std::string_view name) {
  if (name.ends_with(".attn_v.weight") || name.ends_with(".attn_qkv.weight") ||
      name.ends_with(".attn_kv_b.weight"))
    return Role::value;
  if (name.ends_with(".attn_k.weight")) return Role::key;
  if (name.ends_with(".attn_output.weight")) return Role::out;
  return holds(name, ".ffn_down") ? Role::down : Role::other;
}

bool is_embedding(std::string_view name) {
  return name == "token_embd.weight" || name == "per_layer_token_embd.weight";
}

int64_t layer_of(std::string_view name) {
  int64_t layer = 0;
  std::from_chars(name.data() + std::string_view("blk.").size(), name.data() + name.size(), layer);
  return layer;
}

class Quantizer {
 public:
  Quantizer(const Mixture& mixture, const QuantizedModel& model, const std::vector<Tensor>& tensors)
      : mixture_(mixture), model_(model) {
    values_ = std::ranges::count_if(
        tensors, [](const Tensor& tensor) { return role_of(tensor.name) == Role::value; });
  }

  const GgmlTypeInfo* type_of(const Tensor& tensor) {
    const std::string_view half =
        mixture_.base == "F16" || mixture_.base == "F32" ? mixture_.base : "BF16";
    if (!is_matrix(tensor)) return find_ggml_type("F32");
    if (model_.packed_experts && holds(tensor.name, "_exps.")) return find_ggml_type("MXFP4");
    if (is_named(tensor, kHalf)) return find_ggml_type(half);
    if (is_named(tensor, kFloat)) return find_ggml_type("F32");
    const GgmlTypeInfo* const base = find_ggml_type(mixture_.base);
    return base->is_packed() ? fitting(tensor, chosen(tensor)) : base;
  }

 private:
  [[nodiscard]] bool is_falcon() const { return model_.architecture == "falcon"; }

  std::string_view chosen(const Tensor& tensor) {
    const std::string_view base = mixture_.base;
    const bool is_head = tensor.name == "output.weight";
    if (is_head || (model_.tied && is_embedding(tensor.name))) {
      const bool divides = tensor.ne.front() % find_ggml_type(base)->values == 0;
      return base == "MXFP4" || base == "Q8_0" || is_falcon() || !divides ? "Q8_0" : "Q6_K";
    }
    if (base == "MXFP4") return tensor.ne.size() > 2 && tensor.ne[2] > 1 ? base : "Q8_0";
    const Role role = role_of(tensor.name);
    // Experts count by their layer, other tensors one after the other.
    int64_t index = 0, count = model_.layers;
    if (role == Role::value) {
      index = value_++;
      count = values_;
    } else if (role == Role::down) {
      index = model_.experts > 1 ? layer_of(tensor.name) : down_++;
    }
    std::string_view type = by_rule(role, index, count);
    if (role == Role::value && is_70b() && (type == "Q3_K" || type == "Q4_K")) type = "Q5_K";
    if (model_.experts != 8) return type;
    if (role == Role::value || role == Role::key) return "Q8_0";
    if (role != Role::out || is_falcon()) return type;
    const bool wide = std::ranges::find(kWideOutput, mixture_.name) != std::end(kWideOutput);
    return wide ? "Q5_K" : base;
  }

  /// Models that llama.cpp calls 70B by their layers.
  [[nodiscard]] bool is_70b() const {
    constexpr std::pair<std::string_view, int64_t> kLayers[] = {
        {"llama", 80}, {"qwen2", 80}, {"deci", 80}, {"olmo", 80}, {"jais2", 68}};
    const std::pair<std::string_view, int64_t> own(model_.architecture, model_.layers);
    const bool grouped = model_.architecture != "llama" || model_.group > 1;
    return grouped && std::ranges::find(kLayers, own) != std::end(kLayers);
  }

  [[nodiscard]] std::string_view by_rule(Role role, int64_t index, int64_t count) const {
    const auto is_about = [&](const Rule& rule) {
      return rule.mixture == mixture_.name && rule.role == role;
    };
    const bool own =
        is_falcon() && (role == Role::out || std::ranges::any_of(kFalconRules, is_about));
    const std::span<const Rule> rules = own ? std::span<const Rule>(kFalconRules) : kRules;
    for (const Rule& rule : rules)
      if (is_about(rule) && is_at(rule.where, index, count)) return rule.type;
    return mixture_.base;
  }

  [[nodiscard]] bool is_at(Where where, int64_t i, int64_t n) const {
    switch (where) {
      case Where::all:
        return true;
      case Where::first_two:
        return i < 2;
      case Where::first_four:
        return i < 4;
      case Where::first_sixteenth:
        return i < n / 16;
      case Where::first_eighth:
        return i < n / 8;
      case Where::more_of_eight:
        if (model_.experts != 8) return false;
        [[fallthrough]];
      case Where::more:
        return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
      case Where::grouped:
        break;
    }
    return model_.group >= 4;
  }

  static const GgmlTypeInfo* fitting(const Tensor& tensor, std::string_view name) {
    const auto divides = [&](const GgmlTypeInfo* type) {
      return tensor.ne.front() % type->values == 0;
    };
    const GgmlTypeInfo* type = find_ggml_type(name);
    if (divides(type)) return type;
    for (const auto& [wanted, narrower] : kNarrower)
      if (wanted == name) type = find_ggml_type(narrower);
    return divides(type) ? type : find_ggml_type("F16");
  }

  const Mixture& mixture_;
  const QuantizedModel& model_;
  int64_t values_ = 0;            // tensors of attention's values
  int64_t value_ = 0, down_ = 0;  // seen of them, and of down projections
};

}  // namespace

const Mixture* find_mixture(std::string_view name) {
  const std::string wanted = lower_case(std::string(name));
  for (const Mixture& mixture : kMixtures) {
    if (lower_case(std::string(mixture.name)) != wanted) continue;
    const bool is_alias = find_ggml_type(mixture.base) == nullptr;
    return is_alias ? find_mixture(mixture.base) : &mixture;
  }
  return nullptr;
}

bool is_unplanned_mixture(std::string_view name) {
  const std::string wanted = lower_case(std::string(name));
  return std::ranges::any_of(
      kUnplanned, [&](std::string_view known) { return lower_case(std::string(known)) == wanted; });
}

std::vector<std::string> mixture_names() {
  std::vector<std::string> names;
  for (const Mixture& mixture : kMixtures)
    if (find_ggml_type(mixture.base) != nullptr) names.emplace_back(mixture.name);
  return names;
}

void quantize(const Mixture& mixture, const QuantizedModel& model, std::vector<Tensor>& tensors) {
  Quantizer quantizer(mixture, model, tensors);
  for (Tensor& tensor : tensors) {
    tensor.type = quantizer.type_of(tensor);
    const int64_t rows = tensor.elements() / tensor.ne.front();
    const int64_t blocks = (tensor.ne.front() + tensor.type->values - 1) / tensor.type->values;
    tensor.bytes = static_cast<uint64_t>(rows * blocks * tensor.type->bytes);
  }
}

}  // namespace plimsoll::engines::llamacpp
