// How a run is going, for people: a bar redrawn in place, or a line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::batch {

using Clock = std::chrono::steady_clock;

/// Rate per second: `count` over `seconds`; 0 before any time has passed.
double rate(uint64_t count, double seconds);

enum class ProgressMode : uint8_t { none, lines, bar };

/// State of a run, for its progress line.
struct ProgressSample {
  std::string phase;  // before the first line: "reading weights"; then empty
  uint64_t done = 0;  // lines answered or failed
  uint64_t failed = 0;
  std::optional<uint64_t> total;   // lines, where known
  std::optional<double> fraction;  // 0..1: share of the work that is done, where known
  double before = 0;               // share of the work that earlier processes of the run did
  uint64_t tokens_in = 0;
  uint64_t tokens_out = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  double kv_use = 0;  // 0..1
  double seconds = 0;
  std::string_view order;  // in which the lines run: "file" or "prefix"; empty before it is chosen
};

/// Text of a sample: "12/40 lines (1 failed), 30 %, in 120 out 80 tok/s, running 8 (+2), KV 12 %,
/// 0:12 left", or its phase and time. What matters least is left out when it is longer than `width`
/// columns.
std::string describe(const ProgressSample& sample, size_t width = SIZE_MAX);

/// Shows the progress of a run on the terminal or in a log. Its functions may be called from
/// several threads.
class Progress {
 public:
  /// `write` takes bytes for the terminal or log; `width` is its columns (bar only).
  Progress(ProgressMode mode, int width, std::function<void(std::string_view)> write);

  /// Shows the sample when it is time: a bar 10 times a second; a line at 1 % and every 10 s.
  void tick(Clock::time_point now, const std::function<ProgressSample()>& sample);
  /// A whole line beside the progress.
  void note(std::string_view line);
  /// Erases the bar.
  void finish();

 private:
  void draw(const ProgressSample& sample);

  std::mutex mutex_;
  ProgressMode mode_;
  int width_;
  std::function<void(std::string_view)> write_;
  std::optional<Clock::time_point> last_;
  bool first_line_shown_ = false;
  bool drawn_ = false;
};

/// Control bytes as \xNN, so that a hostile name cannot drive the terminal.
std::string printable(std::string_view text);
/// "0:42", "3:05:09".
std::string format_duration(double seconds);

}  // namespace plimsoll::batch
