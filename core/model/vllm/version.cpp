#include "model/vllm/version.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::model {

VllmVersion parse_version(const std::string& text) {
  VllmVersion version{0, 0, 0};
  const char* at = text.c_str();
  if (*at == 'v' || *at == 'V') ++at;
  int numbers = 0;
  for (int* part : {&version.major, &version.minor, &version.patch}) {
    int digits = 0;
    while (*at >= '0' && *at <= '9' && digits < 6) {
      *part = *part * 10 + (*at++ - '0');
      ++digits;
    }
    if (digits == 0) break;
    ++numbers;
    if (*at != '.') break;
    ++at;
  }
  if (numbers < 2) {
    fail(ExitCode::usage, "--vllm-version {}: expected a version such as 0.32.0", text);
  }
  return version;
}

std::string version_text(const VllmVersion& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace plimsoll::model
