#include "model/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

namespace plimsoll::model {
namespace {

constexpr IntegerRange kTrainedPositions{1, int64_t{1} << 40};

// Numbers that all kinds of RoPE are computed from.
struct Input {
  const ConfigReader& parameters;  // rope_scaling or rope_parameters
  double theta;
  int64_t dim;  // rotated part of the head
  int64_t max_position;
  int64_t original_max_position;
};

// theta^(2i / dim): the exponent in float32 as torch.arange gives it, the power rounded once.
std::vector<float> wavelengths(double theta, int64_t dim) {
  std::vector<float> result(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    result[i] = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return result;
}

std::vector<float> frequencies(double theta, int64_t dim) {
  std::vector<float> result = wavelengths(theta, dim);
  for (float& value : result) value = 1.0f / value;
  return result;
}

Rope plain(const Input& in) {
  Rope rope;
  rope.spec.table.inverse_frequencies = frequencies(in.theta, in.dim);
  rope.context = in.max_position;
  return rope;
}

double required_factor(const Input& in) {
  if (in.parameters.find({"factor"}) == nullptr) in.parameters.refuse("factor", "a number above 0");
  return in.parameters.positive({"factor"}, 1);
}

int64_t stretched(const Input& in, int64_t positions, double factor) {
  const double context = static_cast<double>(positions) * factor;
  if (!(context >= 1 && context <= 0x1p40)) {
    in.parameters.refuse("factor", "a factor that gives a context of 1 to 2^40 positions");
  }
  return static_cast<int64_t>(context);
}

Rope linear(const Input& in) {
  const double factor = required_factor(in);
  Rope rope = plain(in);
  for (float& value : rope.spec.table.inverse_frequencies) value /= static_cast<float>(factor);
  rope.context = stretched(in, in.max_position, factor);
  return rope;
}

// One table, as vLLM has it: that of texts within max_position, which is the plain one unless the
// config says that the model was trained on shorter texts. (transformers makes new ones as a text
// grows beyond max_position.)
Rope dynamic(const Input& in) {
  if (in.dim < 4) in.parameters.refuse("rope_type", "a head of at least 4 for dynamic scaling");
  const double dim = static_cast<double>(in.dim);
  const auto alpha = in.parameters.positive({"alpha"});
  const double factor = alpha ? 1 : required_factor(in);
  const int64_t trained =
      in.parameters.integer({"max_trained_positions"}, in.max_position, kTrainedPositions);
  double growth = 1;
  if (alpha) {
    growth = *alpha;
  } else if (in.max_position > trained) {
    growth =
        factor * static_cast<double>(in.max_position) / static_cast<double>(trained) - (factor - 1);
  }
  Rope rope;
  rope.spec.table.inverse_frequencies =
      frequencies(in.theta * std::pow(growth, dim / (dim - 2)), in.dim);
  rope.context = stretched(in, in.max_position, factor);
  return rope;
}

Rope llama3(const Input& in) {
  const auto factor = static_cast<float>(required_factor(in));
  const double low = in.parameters.positive({"low_freq_factor"}, 1);
  const double high = in.parameters.positive({"high_freq_factor"}, 4);
  if (high < low) in.parameters.refuse("high_freq_factor", "low_freq_factor or more");
  const auto original = static_cast<double>(in.original_max_position);
  Rope rope = plain(in);
  for (float& value : rope.spec.table.inverse_frequencies) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / value;
    if (wavelength < static_cast<float>(original / high)) continue;
    if (high == low || wavelength > static_cast<float>(original / low)) {
      value /= factor;
    } else {
      const float smooth = (static_cast<float>(original) / wavelength - static_cast<float>(low)) /
                           static_cast<float>(high - low);
      value = (1 - smooth) * value / factor + smooth * value;
    }
  }
  return rope;
}

double yarn_attention_factor(const Input& in, double factor) {
  if (const auto given = in.parameters.positive({"attention_factor"})) return *given;
  const auto mscale = yarn_mscale(in.parameters, "mscale");
  const auto all_dim = yarn_mscale(in.parameters, "mscale_all_dim");
  if (!mscale || !all_dim) return yarn_scale(factor, 1);
  return yarn_scale(factor, *mscale) / yarn_scale(factor, *all_dim);
}

// Peng et al. 2023, "YaRN": fast dimensions keep their speed, slow ones are interpolated.
Rope yarn(const Input& in) {
  const double factor =
      in.parameters.positive({"factor"}, static_cast<double>(in.max_position) /
                                             static_cast<double>(in.original_max_position));
  if (in.theta <= 1) in.parameters.refuse("rope_theta", "a base above 1 for yarn");
  const auto dimension_of = [&](double rotations) {
    return static_cast<double>(in.dim) *
           std::log(static_cast<double>(in.original_max_position) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(in.theta));
  };
  double low = dimension_of(in.parameters.positive({"beta_fast"}, 32));
  double high = dimension_of(in.parameters.positive({"beta_slow"}, 1));
  if (in.parameters.boolean({"truncate"}, true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(in.dim - 1));
  if (low == high) high += 0.001;
  const auto extrapolated = static_cast<float>(low);
  const auto range = static_cast<float>(high - low);

  Rope rope;
  rope.spec.table.inverse_frequencies = wavelengths(in.theta, in.dim);
  float index = 0;
  for (float& value : rope.spec.table.inverse_frequencies) {
    const float keep = 1 - std::clamp((index++ - extrapolated) / range, 0.0f, 1.0f);
    value = 1.0f / (static_cast<float>(factor) * value) * (1 - keep) + 1.0f / value * keep;
  }
  rope.spec.table.scale = static_cast<float>(yarn_attention_factor(in, factor));
  rope.context = stretched(in, in.original_max_position, factor);
  return rope;
}

// TeleChat 3's, whose attention factor grows more slowly.
Rope telechat_yarn(const Input& in) {
  Rope rope = yarn(in);
  rope.spec.table.scale = static_cast<float>(0.07 * std::log(required_factor(in)) + 1);
  return rope;
}

RopeTable longrope_table(const Input& in, std::string_view key, double scale) {
  const std::vector<double> factors = in.parameters.positives(key, static_cast<size_t>(in.dim / 2));
  RopeTable table{wavelengths(in.theta, in.dim), static_cast<float>(scale)};
  for (size_t i = 0; i < factors.size(); ++i) {
    table.inverse_frequencies[i] =
        1.0f / (static_cast<float>(factors[i]) * table.inverse_frequencies[i]);
  }
  return table;
}

// Ding et al. 2024, "LongRoPE": one table for texts within the original context, one for longer.
Rope longrope(const Input& in) {
  const auto original = static_cast<double>(in.original_max_position);
  const double factor =
      in.parameters.positive({"factor"}, static_cast<double>(in.max_position) / original);
  const double scale = in.parameters.positive(
      {"attention_factor"},
      factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(std::max(original, 2.0))));
  Rope rope;
  rope.spec.table =
      longrope_table(in, "short_factor", in.parameters.positive({"short_mscale"}, scale));
  rope.spec.long_table =
      longrope_table(in, "long_factor", in.parameters.positive({"long_mscale"}, scale));
  rope.spec.original_max_position = in.original_max_position;
  rope.context = in.max_position;
  return rope;
}

// Wang et al. 2024, "Qwen2-VL": times, rows and columns each turn a section of the speeds, whatever
// kind the speeds are of. transformers saves such a model as "default", its publishers as "mrope".
std::vector<int64_t> sections(const Input& in) {
  std::vector<int64_t> result;
  int64_t sum = 0;
  for (const Json& section : *in.parameters.find({"mrope_section"})) {
    const bool good = section.is_number_integer() && section >= 0 && section <= in.dim;
    result.push_back(good ? section.get<int64_t>() : -1);
    sum += result.back();
  }
  if (result.size() != 3 || sum != in.dim / 2) {
    in.parameters.refuse("mrope_section", "three numbers with half the rotated part as their sum");
  }
  return result;
}

struct Kind {
  std::string_view name;
  Rope (*make)(const Input& in);
};
constexpr std::array<Kind, 10> kKinds = {{{"default", plain},
                                          {"mrope", plain},
                                          {"linear", linear},
                                          {"dynamic", dynamic},
                                          {"llama3", llama3},
                                          {"yarn", yarn},
                                          {"telechat3-yarn", telechat_yarn},
                                          {"deepseek_yarn", yarn},  // vLLM's and Sarvam's name
                                          {"longrope", longrope},
                                          {"su", longrope}}};

int64_t rotated_part(const ConfigReader& config, const ConfigReader& parameters,
                     const RopeDefaults& defaults) {
  constexpr std::string_view kNewer = "partial_rotary_factor";  // in rope_parameters
  const bool within = parameters.find({kNewer}) != nullptr;
  const ConfigReader& source = within ? parameters : config;
  const std::string_view key = within ? kNewer : defaults.share_key;
  const double factor = source.positive({key}, defaults.share);
  const auto dim =
      factor > 1 ? 0 : static_cast<int64_t>(static_cast<double>(defaults.head_dim) * factor);
  const std::string expected =
      "a part of the head (" + std::to_string(defaults.head_dim) + ") of an even size";
  if (factor > 1) source.refuse(key, expected);
  if (dim < 2 || dim % 2 != 0) source.doubt(key, expected);
  return dim;
}

// `rope_scaling` or `rope_parameters`, or what they hold for a layer type.
struct Parameters {
  ConfigReader reader;
  bool of_layer_type = false;
};

// The length of training before it was stretched. Where all layers share one set of parameters, the
// config's own key goes before theirs, and a class that has the key (Phi-3) has a value for it.
int64_t original_max_position(const ConfigReader& config, const Parameters& parameters,
                              const RopeDefaults& defaults) {
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  const auto own = [&] {
    return parameters.reader.integer({kOriginal}, defaults.max_position, kTrainedPositions);
  };
  if (parameters.of_layer_type) return own();
  if (const auto outside = config.integer({kOriginal}, kTrainedPositions)) return *outside;
  return defaults.original_max_position != 0 ? defaults.original_max_position : own();
}

/// Rows of vLLM's table, which does not shrink; a kind that is not known stretches nothing.
RotaryRows rotary_rows(std::string_view kind, const Input& in, bool in_sections) {
  const auto stretched = [&](int64_t positions) {
    constexpr double kMost = 1e15;  // far beyond any memory, and still an integer
    const double factor = in.parameters.positive({"factor"}, 1);
    const double rows = static_cast<double>(positions) * std::max(1.0, factor);
    return static_cast<int64_t>(std::min(rows, kMost));
  };
  RotaryRows rows{.positions = in.max_position, .theta = in.theta, .kind = std::string(kind)};
  // vLLM has classes with sections for these kinds alone.
  rows.in_sections = in_sections && (kind == "default" || kind == "mrope" || kind == "yarn");
  if (kind == "linear") rows.positions = stretched(in.max_position);
  if (is_yarn(kind)) rows.positions = stretched(in.original_max_position);
  if (is_longrope(kind)) rows.positions += in.original_max_position;
  return rows;
}

Rope make_rope(const ConfigReader& config, const Parameters& found, const RopeDefaults& defaults) {
  const ConfigReader& parameters = found.reader;
  std::string name = parameters.text({"rope_type", "type"}, "default");
  // Phi-3 was published under this name of its one kind too.
  if (defaults.original_max_position != 0 && name == "yarn") name = "longrope";
  const auto* const kind = std::ranges::find(kKinds, name, &Kind::name);
  if (kind == kKinds.end()) {
    parameters.doubt(parameters.has("rope_type") ? "rope_type" : "type",
                     "default, linear, dynamic, llama3, yarn or longrope");
  }
  const Input in{.parameters = parameters,
                 .theta = parameters.positive(
                     {"rope_theta"}, config.positive({defaults.theta_key}, defaults.theta)),
                 .dim = rotated_part(config, parameters, defaults),
                 .max_position = defaults.max_position,
                 .original_max_position = original_max_position(config, found, defaults)};
  Rope rope;
  rope.context = in.max_position;
  const bool in_sections = parameters.find({"mrope_section"}) != nullptr;
  if (!config.describes()) {
    rope = kind->make(in);
    if (in_sections) rope.spec.sections = sections(in);
  }
  rope.spec.rotary_dim = in.dim;
  rope.spec.vllm = rotary_rows(name, in, in_sections);
  return rope;
}

const Json& no_parameters() {
  static const Json empty = Json::object();
  return empty;
}

// rope_parameters of a layer type; flat ones count for all layers.
std::optional<Parameters> parameters_of(const ConfigReader& outer, std::string_view layer_type) {
  const Json* nested = outer.find({layer_type});
  if (nested != nullptr && nested->is_object()) {
    const auto found = outer.object(layer_type);
    return found ? std::optional(Parameters{*found, true}) : std::nullopt;
  }
  for (const char* type : {"full_attention", "sliding_attention"}) {
    if (outer.has(type)) return std::nullopt;
  }
  return Parameters{outer};
}

}  // namespace

Rope read_rope(const ConfigReader& config, const RopeDefaults& defaults) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto outer = config.object(key);
    const auto parameters = outer ? parameters_of(*outer, defaults.layer_type) : std::nullopt;
    const bool passed_over = defaults.flat_is_idle && std::string_view(key) == "rope_parameters" &&
                             parameters && !parameters->of_layer_type;
    if (parameters && !passed_over) return make_rope(config, *parameters, defaults);
  }
  return make_rope(config, {ConfigReader::plain(no_parameters())}, defaults);
}

Rope plain_rope(const ConfigReader& config, double theta, int64_t rotary_dim,
                int64_t max_position) {
  Rope rope = plain({.parameters = config,
                     .theta = theta,
                     .dim = rotary_dim,
                     .max_position = max_position,
                     .original_max_position = max_position});
  rope.spec.rotary_dim = rotary_dim;
  rope.spec.vllm = {.positions = max_position, .theta = theta, .kind = "default"};
  return rope;
}

Rope read_local_rope(const ConfigReader& config, const RopeDefaults& defaults) {
  const auto outer = config.object("rope_parameters");
  if (outer && outer->has(defaults.layer_type)) {
    if (const auto parameters = parameters_of(*outer, defaults.layer_type)) {
      return make_rope(config, *parameters, defaults);
    }
  }
  return make_rope(config, {ConfigReader::plain(no_parameters())}, defaults);
}

bool is_yarn(std::string_view kind) {
  return kind.ends_with("yarn");
}

bool is_longrope(std::string_view kind) {
  return kind == "longrope" || kind == "su";
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

std::optional<double> yarn_mscale(const ConfigReader& parameters, std::string_view key) {
  const Json* stated = parameters.find({key});
  if (stated != nullptr && stated->is_number() && stated->get<double>() == 0) return std::nullopt;
  return parameters.positive({key});
}

}  // namespace plimsoll::model
