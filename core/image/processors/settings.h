// A processor's configuration: numbers within their ranges, or a SettingsError that names them.
#pragma once

#include <optional>
#include <string_view>

#include "image/processor.h"
#include "image/resample.h"

namespace plimsoll::image::processors {

/// Means and deviations of red, green and blue.
struct Channels {
  std::array<double, 3> mean, deviation;
};
inline constexpr Channels kHalves{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
inline constexpr Channels kClipChannels{{0.48145466, 0.4578275, 0.40821073},
                                        {0.26862954, 0.26130258, 0.27577711}};

class Settings {
 public:
  /// Settings with overrides; throws SettingsError for overrides that `known` does not list.
  Settings(const Json& settings, const Json& overrides, std::span<const std::string_view> known);

  /// A whole number in [1, most]; `usual` when missing or null.
  [[nodiscard]] int64_t count(std::string_view name, int64_t usual, int64_t most = kLargest) const;
  [[nodiscard]] double number(std::string_view name, double usual) const;
  /// A boolean; `usual` when missing; null is false, as in transformers.
  [[nodiscard]] bool flag(std::string_view name, bool usual) const;
  [[nodiscard]] Filter filter(Filter usual) const;
  /// settings[name][key], a whole number in [1, most]; none when missing.
  [[nodiscard]] std::optional<int64_t> side(std::string_view name, std::string_view key,
                                            int64_t most = kLargest) const;
  /// A size {height, width}, or one number for both; none when missing.
  [[nodiscard]] std::optional<Size> size(std::string_view name) const;
  /// A single number, which is the short side in processors whose sizes are not squares; none
  /// otherwise.
  [[nodiscard]] std::optional<int64_t> single(std::string_view name) const;
  /// Three numbers, one for each channel.
  [[nodiscard]] std::array<double, 3> channels(std::string_view name,
                                               std::array<double, 3> usual) const;
  /// True when the setting is present and not null.
  [[nodiscard]] bool has(std::string_view name) const { return !find(name).is_null(); }
  /// True when `overrides` has the setting.
  [[nodiscard]] bool is_overridden(std::string_view name) const;

  static constexpr int64_t kLargest = int64_t{1} << 31;
  static constexpr int64_t kLongestSide = int64_t{1} << 22;  // of images after resizing

 private:
  [[nodiscard]] const Json& find(std::string_view name) const;
  Json settings_;
  Json overrides_;
};

/// Names of the settings that all of torchvision's processors have, and of `own`.
std::vector<std::string_view> with_common(std::initializer_list<std::string_view> own);

/// Treatment of the transparent colour in torchvision's processors: white where Pillow, which knows
/// it, converts to RGB.
Clear clear_of(const Settings& settings);

/// Value tables of torchvision's processors, which rescale and normalise in one step, in float32.
LevelTables torchvision_tables(const Settings& settings, const Channels& usual = kHalves);
/// Value tables of InternVL's processor, which rescales and then normalises.
LevelTables stepwise_tables(const Settings& settings);

/// Throws ImageError where `to`, an intermediate size of an image, is larger than images may be.
void check_resized(Size from, Size to);

/// Throws ImageError for images without `do_resize`: the tower takes only size `taken`.
[[noreturn]] void refuse_unsized(Size size, Size taken);

/// Writes a part of an image as three planes, [3, height, width], to `to`; returns the end of
/// them.
uint8_t* write_planes(const Image& image, int64_t x, int64_t y, Size size, uint8_t* to);

}  // namespace plimsoll::image::processors
