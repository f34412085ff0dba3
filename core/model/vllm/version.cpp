#include "model/vllm/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>

#include "base/error.h"

namespace plimsoll::model {
namespace {

/// Last patch of each minor release from 0.4 to the newest (PyPI).
constexpr int kFirstMinor = 4;
constexpr auto kLastPatches =
    std::to_array({3, 5, 6, 3, 5, 2, 2, 2, 0, 0, 1, 1, 0, 1, 1,
                   1, 2, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, kNewestRelease.patch});
static_assert(kFirstMinor + kLastPatches.size() == kNewestRelease.minor + 1);

/// major.minor[.patch[.fix]], then what says that it is no release or not the first of its number.
const std::regex& version_form() {
  static const std::regex form(
      R"(v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.\d{1,6})?)"
      R"((?:[-.]?(?:a|b|rc)\d*)?(?:\.?post\d+)?(\.?dev\d*)?(?:[-+][\w.-]*)?)",
      std::regex::icase);
  return form;
}

/// The newest known release before `version`.
VllmVersion release_before(VllmVersion version) {
  if (version > kNewestRelease) return kNewestRelease;
  if (version.patch == 0) {
    version.minor = std::max(version.minor - 1, 0);
    version.patch = version.minor < kFirstMinor
                        ? 0
                        : kLastPatches.at(static_cast<size_t>(version.minor - kFirstMinor));
    return version;
  }
  --version.patch;
  return version;
}

}  // namespace

VllmVersion parse_version(const std::string& text) {
  std::smatch match;
  if (!std::regex_match(text, match, version_form())) {
    fail(ExitCode::usage, "--vllm-version {}: expected a version such as {}", text,
         version_text(kNewestRelease));
  }
  const VllmVersion version{std::stoi(match[1]), std::stoi(match[2]),
                            match[3].matched ? std::stoi(match[3]) : 0};
  return match[4].matched ? release_before(version) : version;
}

bool is_development_build(const std::string& text) {
  std::smatch match;
  return std::regex_match(text, match, version_form()) && match[4].matched;
}

std::string version_text(const VllmVersion& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace plimsoll::model
