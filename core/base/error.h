// The error type for everything that users, files or the machine cause. Assertions are for our own
// bugs alone.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace plimsoll {

/// Exit status of the process; the same table stands in every man page.
enum class ExitCode : int {
  done = 0,
  bug = 1,
  usage = 2,
  some_lines_failed = 3,
  input_unusable = 4,
  checkpoint_unusable = 5,
  does_not_fit = 6,
  stopped_resumable = 7,
  foreign_output = 8,
  output_unwritable = 9,
  device_lost = 10,
  locked = 11,
};

/// An error that ends a command. The message says what was found, where (file, line, tensor), and
/// the cure.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Throws Error with a formatted message: `fail(ExitCode::usage, "unknown dtype '{}'", name)`.
template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace plimsoll
