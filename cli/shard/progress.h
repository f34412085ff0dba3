// Progress of writing shards.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/environment.h"

namespace plimsoll::cli {

/// Shows bytes and rate on standard error: a line drawn over on a terminal, else one every ten
/// seconds.
class ByteProgress {
 public:
  ByteProgress(int64_t total, bool quiet, const Environment& environment);

  void show(int64_t done);
  void finish() const;
  [[nodiscard]] double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::string describe(int64_t done, Clock::time_point now) const;

  int64_t total_;
  bool quiet_, redraw_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace plimsoll::cli
