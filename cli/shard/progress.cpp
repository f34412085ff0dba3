#include "cli/shard/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "batch/progress.h"
#include "cli/terminal.h"

namespace plimsoll::cli {

ByteProgress::ByteProgress(int64_t total, bool quiet, const Environment& environment)
    : total_(total), quiet_(quiet), redraw_(can_redraw(environment)) {}

void ByteProgress::show(int64_t done) {
  const Clock::time_point now = Clock::now();
  const auto pause = redraw_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  if (quiet_ || now - last_ < pause) return;
  last_ = now;
  const std::string line = describe(done, now);
  write_error_stream(redraw_ ? fmt::format("\r\x1b[K{}", line) : line + "\n");
}

void ByteProgress::finish() const {
  if (redraw_ && !quiet_) write_error_stream("\r\x1b[K");
}

double ByteProgress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string ByteProgress::describe(int64_t done, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
  const double left = static_cast<double>(total_ - done) / std::max(rate, 1.0);
  return fmt::format("{:.2f} of {:.2f} GB, {:.0f} MB/s, {} left", static_cast<double>(done) / 1e9,
                     static_cast<double>(total_) / 1e9, rate / 1e6, batch::format_duration(left));
}

}  // namespace plimsoll::cli
