// A run as other programs see it: JSON lines on a descriptor, a metrics file.
#pragma once

#include <mutex>
#include <string>

#include "batch/progress.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

class StatusSink {
 public:
  /// Writes the first metrics. Throws Error(usage) for a descriptor that is not open,
  /// Error(output_unwritable).
  explicit StatusSink(const RunOptions& options);

  /// From any thread. A reader that is slow misses lines; a file that cannot be written
  /// is left as it was.
  void publish(const batch::ProgressSample& sample) noexcept;
  /// The last line: what is published after it is left out.
  void end(const batch::ProgressSample& sample, int exit_status) noexcept;

 private:
  void tell(const batch::ProgressSample& sample) const noexcept;
  void write(const std::string& line) const;

  std::mutex mutex_;
  bool ended_ = false;
  int descriptor_;  // -1: none
  std::string metrics_;
};

}  // namespace plimsoll::cli
