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
/// Whether outputs and counts were unchanging when the process is ended.
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
  /// Publishes the status once a second, and when a stage begins or ends.
  std::function<void(const ProgressSample&)> publish_status{};
};

class Watch {
 public:
  /// `phase` is entered at once: see enter().
  Watch(Progress& progress, WatchOptions options, const std::string& phase = "");
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Begins a stage of the command without lines of its own, such as "reading weights". While there
  /// is one, a stop ends the process at once, because there is nothing to finish.
  void enter(const std::string& phase);
  /// Shows where the run stands, and counts as a sign of life.
  void show(const ProgressSample& sample);

  /// Lock that the run holds whenever it touches outputs and counts, so not during a step.
  std::timed_mutex& outputs() { return outputs_; }
  /// Sets what SIGUSR1 does beside its status line; called with outputs() held.
  void on_status(std::function<void()> sync);

  /// Why the run is to stop; none: it goes on.
  [[nodiscard]] Cause cause() const;
  /// When running lines must have ended after a stop.
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
  std::mutex board_;  // guards what follows
  ProgressSample shown_;
  Clock::time_point shown_at_ = Clock::now();
  Clock::duration silent_{};  // since the last sign of life
  std::function<void()> sync_;
  std::optional<Clock::time_point> told_;  // when a signal stopped the run
  bool ended_ = false;
  Clock::time_point published_{};  // read and written by the second thread alone, as the next
  Clock::time_point looked_ = Clock::now();
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace plimsoll::batch
