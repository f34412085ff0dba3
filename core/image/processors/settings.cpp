#include "image/processors/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "image/axis_passes.h"

namespace plimsoll::image::processors {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view expected, const Json& found) {
  throw SettingsError(
      fmt::format("{}: expected {}, found {}", name, expected, found.dump().substr(0, 64)));
}

int64_t whole(std::string_view name, const Json& value, int64_t most) {
  const bool good = value.is_number_integer() && value >= 1 && value <= most;
  if (!good) refuse(name, fmt::format("a whole number from 1 to {}", most), value);
  return value.get<int64_t>();
}

}  // namespace

Settings::Settings(const Json& settings, const Json& overrides,
                   std::span<const std::string_view> known)
    : settings_(settings.is_object() ? settings : Json::object()), overrides_(overrides) {
  if (!overrides_.is_object()) refuse("mm_processor_kwargs", "an object", overrides_);
  for (const auto& [name, value] : overrides_.items()) {
    if (std::ranges::find(known, name) == known.end()) {
      throw SettingsError(fmt::format("mm_processor_kwargs: \"{}\" is none of the model's: {}",
                                      name.substr(0, 64), fmt::join(known, ", ")));
    }
    settings_[name] = value;
  }
}

const Json& Settings::find(std::string_view name) const {
  static const Json kNone;
  const auto at = settings_.find(name);
  return at == settings_.end() ? kNone : *at;
}

bool Settings::is_overridden(std::string_view name) const {
  return overrides_.contains(name);
}

int64_t Settings::count(std::string_view name, int64_t usual, int64_t most) const {
  const Json& value = find(name);
  return value.is_null() ? usual : whole(name, value, most);
}

double Settings::number(std::string_view name, double usual) const {
  const Json& value = find(name);
  if (value.is_null()) return usual;
  if (!value.is_number() || !(value.get<double>() > 0)) refuse(name, "a number above 0", value);
  return value.get<double>();
}

bool Settings::flag(std::string_view name, bool usual) const {
  if (!settings_.contains(name)) return usual;
  const Json& value = find(name);
  if (value.is_null()) return false;
  if (!value.is_boolean()) refuse(name, "true or false", value);
  return value.get<bool>();
}

// Pillow's numbers.
Filter Settings::filter(Filter usual) const {
  const Json& value = find("resample");
  if (value.is_null()) return usual;
  if (value == 0) return Filter::nearest;
  if (value == 1) return Filter::lanczos;
  if (value == 2) return Filter::bilinear;
  if (value == 3) return Filter::bicubic;
  refuse("resample", "0 to 3 (nearest, Lanczos, bilinear, bicubic)", value);
}

std::optional<int64_t> Settings::side(std::string_view name, std::string_view key,
                                      int64_t most) const {
  const Json& value = find(name);
  if (!value.is_object()) return std::nullopt;
  const auto at = value.find(key);
  if (at == value.end() || at->is_null()) return std::nullopt;
  return whole(fmt::format("{}.{}", name, key), *at, most);
}

std::optional<Size> Settings::size(std::string_view name) const {
  const Json& value = find(name);
  if (value.is_number()) {
    const int64_t both = whole(name, value, kLongestSide);
    return Size{both, both};
  }
  if (value.is_array() && value.size() == 2) {
    return Size{whole(name, value[1], kLongestSide), whole(name, value[0], kLongestSide)};
  }
  const auto height = side(name, "height", kLongestSide);
  const auto width = side(name, "width", kLongestSide);
  if (!height || !width) return std::nullopt;
  return Size{*width, *height};
}

std::optional<int64_t> Settings::single(std::string_view name) const {
  const Json& value = find(name);
  if (!value.is_number()) return std::nullopt;
  return whole(name, value, kLargest);
}

std::array<double, 3> Settings::channels(std::string_view name, std::array<double, 3> usual) const {
  const Json& value = find(name);
  if (value.is_null()) return usual;
  if (!value.is_array() || value.size() != 3 ||
      !std::ranges::all_of(value, [](const Json& x) { return x.is_number(); })) {
    refuse(name, "three numbers", value);
  }
  return {value[0].get<double>(), value[1].get<double>(), value[2].get<double>()};
}

std::vector<std::string_view> with_common(std::initializer_list<std::string_view> own) {
  std::vector<std::string_view> all(own);
  for (const std::string_view name : {"do_convert_rgb", "do_normalize", "do_rescale", "do_resize",
                                      "image_mean", "image_std", "resample", "rescale_factor"}) {
    all.push_back(name);
  }
  return all;
}

Clear clear_of(const Settings& settings) {
  return settings.flag("do_convert_rgb", true) ? Clear::white : Clear::as_stored;
}

LevelTables torchvision_tables(const Settings& settings, const Channels& usual) {
  const bool rescale = settings.flag("do_rescale", true);
  const bool normalize = settings.flag("do_normalize", true);
  const double factor = settings.number("rescale_factor", 1 / 255.0);
  const auto means = settings.channels("image_mean", usual.mean);
  const auto deviations = settings.channels("image_std", usual.deviation);
  // The tensors of mean and deviation are multiplied, not the pixels.
  const auto unscale = rescale ? static_cast<float>(1.0 / factor) : 1.f;
  LevelTables tables{};
  for (size_t c = 0; c < tables.size(); ++c) {
    const float mean = static_cast<float>(means[c]) * unscale;
    const float deviation = static_cast<float>(deviations[c]) * unscale;
    for (size_t level = 0; level < 256; ++level) {
      const auto x = static_cast<float>(level);
      if (normalize) {
        tables[c][level] = (x - mean) / deviation;
      } else {
        tables[c][level] = rescale ? x * static_cast<float>(factor) : x;
      }
    }
  }
  return tables;
}

LevelTables stepwise_tables(const Settings& settings) {
  const auto means = settings.channels("image_mean", {0.485, 0.456, 0.406});
  const auto deviations = settings.channels("image_std", {0.229, 0.224, 0.225});
  LevelTables tables{};
  for (size_t c = 0; c < tables.size(); ++c) {
    for (size_t level = 0; level < 256; ++level) {
      const float x = static_cast<float>(level) / 255.f;
      tables[c][level] = (x - static_cast<float>(means[c])) / static_cast<float>(deviations[c]);
    }
  }
  return tables;
}

void check_resized(Size from, Size to) {
  const Limits limits;
  if (to.width * to.height <= static_cast<int64_t>(limits.memory_bytes / 3)) return;
  throw ImageError(
      code::too_large,
      fmt::format("{} x {} pixels would be resized to {} x {}, which is more memory "
                  "than images may take ({} MiB)",
                  from.width, from.height, to.width, to.height, limits.memory_bytes >> 20));
}

void refuse_unsized(Size size, Size taken) {
  throw ImageError(code::aspect_ratio,
                   fmt::format("{} x {} pixels: without do_resize the model takes {} x {} alone",
                               size.width, size.height, taken.width, taken.height));
}

uint8_t* write_planes(const Image& image, int64_t x, int64_t y, Size size, uint8_t* to) {
  const int64_t plane = size.width * size.height;
  for (int64_t row = 0; row < size.height; ++row) {
    uint8_t* at = to + row * size.width;
    axis_passes().front().split(image.rgb.data() + 3 * ((y + row) * image.size.width + x),
                                size.width, {at, at + plane, at + 2 * plane});
  }
  return to + 3 * plane;
}

}  // namespace plimsoll::image::processors
