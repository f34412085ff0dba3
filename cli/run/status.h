// Status of a run for other programs: JSON lines on a descriptor, a metrics file.
#pragma once

#include <mutex>
#include <string>

#include "batch/progress.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

class StatusSink {
 public:
  /// Throws Error(usage) for a descriptor that is not open.
  explicit StatusSink(const RunOptions& options);

  /// Writes the first metrics of a run that writes to `output`. Throws Error(output_unwritable).
  void begin(const std::string& output);
  /// Publishes a sample; thread-safe. A slow reader misses lines; a file that cannot be written
  /// stays as it was.
  void publish(const batch::ProgressSample& sample) noexcept;
  /// Writes the last line, however the command ends; later samples are dropped.
  void end(int exit_status) noexcept;

 private:
  void tell(const batch::ProgressSample& sample) const noexcept;
  void write(const std::string& line) const;

  std::mutex mutex_;
  bool ended_ = false;
  int descriptor_;       // -1: none
  std::string metrics_;  // empty: none
  std::string output_;   // the output that the metrics are labelled with
};

}  // namespace plimsoll::cli
