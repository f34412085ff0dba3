#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "batch/progress.h"

namespace plimsoll::cli {

bool can_redraw(const Environment& environment) {
  return isatty(STDERR_FILENO) == 1 && !environment.dumb_terminal;
}

int terminal_width(const Environment& environment) {
  if (environment.columns) return *environment.columns;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void write_error_stream(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void say(std::string_view message) {
  write_error_stream("plimsoll: " + batch::printable(message) + "\n");
}

void flush_output() {
  // A text longer than the stream's buffer fails before the flush.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  fail(ExitCode::output_unwritable, "standard output cannot be written");
}

}  // namespace plimsoll::cli
