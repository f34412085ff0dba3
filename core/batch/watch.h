// The second thread of a run: shows progress while a step takes long, answers signals, and ends the
// process in time whatever the first thread does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "batch/progress.h"

namespace plimsoll::batch {

/// Why a run ends before its input does.
enum class Cause : uint8_t { none, signal, time_limit, stall };
/// Whether the outputs and counts were still when the process is ended.
enum class AtRest : uint8_t { no, yes };

struct WatchOptions {
  const std::atomic<bool>* stop = nullptr;      // set by a signal: admit nothing more
  std::atomic<bool>* status = nullptr;          // set by a signal: a status line and a sync, please
  std::optional<Clock::time_point> deadline{};  // --time-limit
  Clock::duration grace = std::chrono::seconds(5);
  /// Longest time that a step may take. What does not count: a reader or a disk that takes no
  /// output, and time in which nothing of this process ran (SIGSTOP).
  std::optional<Clock::duration> stall{};
  /// Ends the process, after a sync; does not return.
  std::function<void(Cause, AtRest)> leave{};
  /// Once a second, and when something ends or begins.
  std::function<void(const ProgressSample&)> publish_status{};
};

class Watch {
 public:
  /// `phase` is entered at once: see enter().
  Watch(Progress& progress, WatchOptions options, const std::string& phase = "");
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// A stage of the command without lines of its own, such as "reading weights"; while there is
  /// one, being told to stop ends the process at once: there is nothing to finish.
  void enter(const std::string& phase);
  /// Where the run stands; a sign of life.
  void show(const ProgressSample& sample);

  /// Held by the run whenever it touches outputs and counts, so not during a step.
  std::timed_mutex& outputs() { return outputs_; }
  /// What SIGUSR1 does beside its line; called with outputs() held.
  void on_status(std::function<void()> sync);

  /// Whether the run is told to stop, and why.
  [[nodiscard]] Cause cause() const;
  /// When running lines must have ended.
  [[nodiscard]] Clock::time_point end_of_grace();

 private:
  void work();
  void look();
  void publish(const ProgressSample& current, Clock::time_point now);
  void leave(Cause cause);
  [[nodiscard]] bool is_stalled(Clock::time_point now);
  [[nodiscard]] ProgressSample sample(Clock::time_point now);

  Progress& progress_;
  WatchOptions options_;
  std::timed_mutex outputs_;
  std::mutex board_;  // of what follows
  ProgressSample shown_;
  Clock::time_point shown_at_ = Clock::now();
  Clock::duration silent_{};  // since the last sign of life
  std::function<void()> sync_;
  std::optional<Clock::time_point> told_;  // to stop
  bool ended_ = false;
  Clock::time_point published_{};  // of the second thread alone, and the next
  Clock::time_point looked_ = Clock::now();
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace plimsoll::batch
