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
  /// `overrides` may name what `known` lists, and nothing else.
  Settings(const Json& settings, const Json& overrides, std::span<const std::string_view> known);

  /// A whole number in [1, most]; `usual` where there is none, or null.
  [[nodiscard]] int64_t count(std::string_view name, int64_t usual, int64_t most = kLargest) const;
  [[nodiscard]] double number(std::string_view name, double usual) const;
  /// `usual` where there is none; null is false, as transformers takes it.
  [[nodiscard]] bool flag(std::string_view name, bool usual) const;
  [[nodiscard]] Filter filter(Filter usual) const;
  /// settings[name][key]: a whole number likewise; nothing where there is none.
  [[nodiscard]] std::optional<int64_t> side(std::string_view name, std::string_view key,
                                            int64_t most = kLargest) const;
  /// {height, width}, a number for both, or nothing.
  [[nodiscard]] std::optional<Size> size(std::string_view name) const;
  /// A number alone, which is the short side where sizes are no squares by themselves.
  [[nodiscard]] std::optional<int64_t> single(std::string_view name) const;
  /// Three numbers of channels.
  [[nodiscard]] std::array<double, 3> channels(std::string_view name,
                                               std::array<double, 3> usual) const;
  /// Whether it is there, and not null.
  [[nodiscard]] bool has(std::string_view name) const { return !find(name).is_null(); }
  /// Whether `overrides` has it.
  [[nodiscard]] bool is_overridden(std::string_view name) const;

  static constexpr int64_t kLargest = int64_t{1} << 31;
  static constexpr int64_t kLongestSide = int64_t{1} << 22;  // of what is resized to

 private:
  [[nodiscard]] const Json& find(std::string_view name) const;
  Json settings_;
  Json overrides_;
};

/// What every one of torchvision's processors takes, and `own`.
std::vector<std::string_view> with_common(std::initializer_list<std::string_view> own);

/// What torchvision's processors make of the clear colour: Pillow, which knows it, converts.
Clear clear_of(const Settings& settings);

/// How torchvision's processors rescale and normalise: the two in one step, in float32.
LevelTables torchvision_tables(const Settings& settings, const Channels& usual = kHalves);
/// How InternVL's does: a step after the other.
LevelTables stepwise_tables(const Settings& settings);

/// Throws ImageError where `to`, which is made of a picture on the way, is larger than pictures
/// are.
void check_resized(Size from, Size to);

/// Without `do_resize`: the tower takes no picture but of size `taken`.
[[noreturn]] void refuse_unsized(Size size, Size taken);

/// Writes a picture's part as three planes, [3, height, width], to `to`; returns what is behind
/// them.
uint8_t* write_planes(const Image& image, int64_t x, int64_t y, Size size, uint8_t* to);

}  // namespace plimsoll::image::processors
