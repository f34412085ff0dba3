// Names of the programs that one program of a visit to a card can be called by.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace plimsoll::testing {

/// Programs of the whole backend: device_NAME runs the cases of tests/device/NAME.cpp.
inline constexpr std::array<std::string_view, 7> kDevicePrograms{
    "doctor", "engine", "layer_kernels", "models", "images", "ranks", "widths"};

/// The cases of a program as Catch2 names them, by the tags of their files; empty: it is no
/// program of tests.
inline std::string cases_of(std::string_view program) {
  constexpr std::string_view kPrefix = "device_";
  std::string others;
  for (const std::string_view name : kDevicePrograms) {
    const std::string tag = "[#" + std::string(name) + "]";
    if (program.starts_with(kPrefix) && program.substr(kPrefix.size()) == name) return tag;
    others += "~" + tag;
  }
  return program == "test_kernels_device" ? others : "";
}

}  // namespace plimsoll::testing
