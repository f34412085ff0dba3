#include "shard/release.h"

#include <regex>

#include "base/error.h"

namespace plimsoll::shard {

Release parse_release(const std::string& text) {
  static const std::regex form(R"(v?0\.(\d{1,4})(?:\.(\d{1,4}))?)");
  std::smatch match;
  if (!std::regex_match(text, match, form)) {
    fail(ExitCode::usage, "--vllm-version {}: expected a release such as {}", text,
         model::version_text(kNewestRelease));
  }
  const Release release{.minor = std::stoi(match[1]),
                        .patch = match[2].matched ? std::stoi(match[2]) : 0};
  if (release < kOldestRelease || release.minor > kNewestRelease.minor) {
    fail(ExitCode::usage, "--vllm-version {}: known are {} to {}", text,
         model::version_text(kOldestRelease), model::version_text(kNewestRelease));
  }
  return release;
}

}  // namespace plimsoll::shard
