#include "model/input_norm.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace plimsoll::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestFile = size_t{64} << 20;  // tokenizer_config.json may be one of them
constexpr const char* kImage = "image_processor";

struct Rescaling {
  std::vector<double> mean, std;
  double factor = 1;
};

/// A configuration and the file that it is from.
struct Source {
  Json json = Json::object();
  std::string file;

  [[noreturn]] void refuse(const char* key, const char* expected) const {
    fail(ExitCode::checkpoint_unusable, "{}: \"{}\": expected {}", file, key, expected);
  }

  [[nodiscard]] bool has(const char* key) const { return json.contains(key); }

  [[nodiscard]] bool boolean(const char* key, bool missing) const {
    const auto at = json.find(key);
    if (at == json.end()) return missing;
    if (at->is_null()) return false;
    if (!at->is_boolean()) refuse(key, "true or false");
    return at->get<bool>();
  }

  [[nodiscard]] double number(const char* key, double missing) const {
    const auto at = json.find(key);
    if (at == json.end()) return missing;
    if (!at->is_number() || !std::isfinite(at->get<double>()) || at->get<double>() == 0) {
      refuse(key, "a number other than 0");
    }
    return at->get<double>();
  }

  [[nodiscard]] std::vector<double> channels(const char* key) const {
    constexpr size_t kChannels = 3;
    const auto at = json.find(key);
    if (at == json.end() || !at->is_array() || at->size() != kChannels ||
        !std::ranges::all_of(*at, [](const Json& value) { return value.is_number(); })) {
      refuse(key, "a list of 3 numbers");
    }
    return at->get<std::vector<double>>();
  }

  /// The object at `key`, or all of it where there is none.
  [[nodiscard]] Source within(const char* key) const {
    const auto at = json.find(key);
    if (at == json.end()) return *this;
    if (!at->is_object()) refuse(key, "an object");
    return {*at, file};
  }
};

Source read(const fs::path& folder, const char* name) {
  const fs::path file = folder / name;
  std::error_code error;
  if (!fs::exists(file, error)) return {.json = Json::object(), .file = file.string()};
  Source source{.json = read_json_file(file, kLargestFile), .file = file.string()};
  if (!source.json.is_object()) {
    fail(ExitCode::checkpoint_unusable, "{}: expected an object", source.file);
  }
  return source;
}

// vLLM first takes the file that names the processor's class, then the image processor's own.
Source find_configuration(const fs::path& folder) {
  for (const char* name : kInputNormFiles) {
    const Source source = read(folder, name);
    if (!source.has("processor_class")) continue;
    Source image = source.within(kImage);
    for (const char* key : {"do_normalize", "do_rescale", "image_mean", "image_std"}) {
      if (image.has(key)) return image;
    }
    break;
  }
  const Source nested = read(folder, "processor_config.json");
  return nested.has(kImage) ? nested.within(kImage) : read(folder, "preprocessor_config.json");
}

Rescaling read_rescaling(const fs::path& folder) {
  const Source source = find_configuration(folder).within("media_proc_cfg");
  const bool complete = source.has("image_mean") && source.has("image_std");
  Rescaling result{.mean = {0, 0, 0}, .std = {1, 1, 1}};
  if (source.boolean("do_rescale", complete)) {
    result.factor = source.number("rescale_factor", 1.0 / 255);
  }
  if (source.boolean("do_normalize", complete)) {
    result.mean = source.channels("image_mean");
    result.std = source.channels("image_std");
    if (std::ranges::find(result.std, 0.0) != result.std.end()) {
      source.refuse("image_std", "numbers other than 0");
    }
  }
  return result;
}

// Python's math.isclose(value, 1, rel_tol=1e-5, abs_tol=1e-8), and the same for 0.
bool changes_nothing(const Rescaling& rescaling) {
  for (size_t i = 0; i < rescaling.mean.size(); ++i) {
    const double scale = rescaling.factor / rescaling.std[i];
    const double shift = rescaling.mean[i] / rescaling.std[i];
    const double tolerance = std::max(1e-5 * std::max(std::abs(scale), 1.0), 1e-8);
    if (std::abs(scale - 1) > tolerance || std::abs(shift) > std::max(1e-8, 1e-9 * std::abs(shift)))
      return false;
  }
  return true;
}

}  // namespace

std::vector<WeightSpec> read_input_norm(const fs::path& folder, const std::string& module) {
  const Rescaling rescaling = read_rescaling(folder);
  if (changes_nothing(rescaling)) return {};
  std::vector<float> weight, bias;
  for (size_t i = 0; i < rescaling.mean.size(); ++i) {
    // Weight and bias are rounded as torch rounds them, step by step in float32.
    const auto std = static_cast<float>(rescaling.std[i]);
    const float reciprocal = 1.0f / std;
    weight.push_back(reciprocal * static_cast<float>(rescaling.factor));
    bias.push_back(-static_cast<float>(rescaling.mean[i]) / std);
  }
  const auto buffer = [&](const char* name, std::vector<float> values) {
    return WeightSpec{.name = module + name,
                      .shape = {static_cast<int64_t>(values.size())},
                      .use = WeightUse::vector,
                      .dtype = DType::f32,
                      .constant = std::move(values)};
  };
  return {buffer(".weight", std::move(weight)), buffer(".bias", std::move(bias))};
}

}  // namespace plimsoll::model
