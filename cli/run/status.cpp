#include "cli/run/status.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/error.h"
#include "batch/report.h"
#include "batch/telemetry.h"
#include "files/names.h"
#include "files/output_file.h"

namespace plimsoll::cli {

StatusSink::StatusSink(const RunOptions& options)
    : descriptor_(options.status_fd.value_or(-1)), metrics_(options.metrics_file) {
  if (descriptor_ >= 0 && fcntl(descriptor_, F_GETFD) < 0) {
    fail(ExitCode::usage, "--status-fd {}: is not open; redirect it: {}>status.jsonl", descriptor_,
         descriptor_);
  }
}

void StatusSink::begin(const std::string& output) {
  output_ = files::absolute_path(output);
  if (!metrics_.empty()) files::write_file(metrics_, batch::metrics_text({}, 0, output_));
}

void StatusSink::publish(const batch::ProgressSample& sample) noexcept {
  const std::lock_guard lock(mutex_);
  if (!ended_) tell(sample);
}

void StatusSink::end(int exit_status) noexcept {
  const std::lock_guard lock(mutex_);
  if (!ended_ && descriptor_ >= 0) write(batch::end_json(exit_status));
  ended_ = true;
}

void StatusSink::tell(const batch::ProgressSample& sample) const noexcept {
  try {
    const uint64_t rss = batch::peak_rss_bytes();
    if (descriptor_ >= 0) write(batch::status_json(sample, rss));
    if (!metrics_.empty()) files::write_file(metrics_, batch::metrics_text(sample, rss, output_));
  } catch (const std::exception&) {
    // The run is worth more than its figures.
  }
}

// A line that would have to wait for its reader is left out.
void StatusSink::write(const std::string& line) const {
  pollfd ready{descriptor_, POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0 || (ready.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, line.data(), line.size());
}

}  // namespace plimsoll::cli
