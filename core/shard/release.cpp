#include "shard/release.h"

#include "base/error.h"

namespace plimsoll::shard {

Release parse_release(const std::string& text) {
  const Release release = model::parse_version(text);
  const Release next{.major = kNewestRelease.major, .minor = kNewestRelease.minor + 1, .patch = 0};
  if (release < kOldestRelease || release >= next) {
    fail(ExitCode::usage, "--vllm-version {}: known are {} to {}", text,
         model::version_text(kOldestRelease), model::version_text(kNewestRelease));
  }
  return release;
}

}  // namespace plimsoll::shard
