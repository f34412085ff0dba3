#include "engines/release.h"

#include <regex>

#include "base/error.h"

namespace plimsoll::engines {

Version parse_release(const std::string& text, Version newest) {
  static const std::regex form(
      R"(v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[-.]?(?:a|b|rc|post|dev)\.?\d*)*(?:[-+][\w.-]*)?)",
      std::regex::icase);
  std::smatch match;
  if (text.size() > 64 || !std::regex_match(text, match, form)) {
    fail(ExitCode::usage, "--engine-version {}: expected a version such as {}", text,
         model::version_text(newest));
  }
  return {std::stoi(match[1]), std::stoi(match[2]), match[3].matched ? std::stoi(match[3]) : 0};
}

}  // namespace plimsoll::engines
