// Control messages between processes: that they live, what went wrong, and texts.
//
// A thread of its own receives, so that a process whose rank computes for long is still heard, and
// a process that is stopped or gone is not.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "processes/link.h"

namespace plimsoll::processes {

enum class Kind : int32_t {
  pulse,    // both ways
  fault,    // to process 0: ends the launch
  left,     // from process 0: the launch has ended, with this exit code
  facts,    // from process 0: the layout that all must have alike
  agreed,   // to process 0
  begin,    // from process 0
  account,  // to process 0: of a process's ranks
  end,      // from process 0: no message follows
  ended     // to process 0: this process has ended in order
};

/// Why a launch ends.
struct Fault {
  ExitCode code = ExitCode::device_lost;
  std::string text;
};

struct ControlOptions {
  /// A process from which no pulse comes for so long, while this one runs, is lost. With half a
  /// second between pulses, and the patience of process 0 followed by that of the other processes,
  /// all have exited 8.5 seconds after one was stopped, at the latest.
  std::chrono::milliseconds silence = std::chrono::seconds(5);
  /// Time between a fault and leave(), in which the other threads can end by themselves.
  std::chrono::milliseconds patience = std::chrono::milliseconds(1500);
  /// Called when a fault is known: wakes the threads that wait for ranks.
  std::function<void()> abort{};
  /// Ends the process; called by the thread of Control.
  std::function<void(const Fault&)> leave{};
};

class Control {
 public:
  Control(Link& link, ControlOptions options);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Sends a text without waiting.
  void tell(int process, Kind kind, const std::string& text, ExitCode code = ExitCode::done);
  /// Waits for the next text of this kind from a process. Throws Error with the fault where there
  /// is one.
  std::string await(int process, Kind kind);
  [[nodiscard]] std::optional<Fault> fault();
  /// Stops receiving; process 0 also tells all others that the launch has ended with `code`. Waits
  /// a moment for the messages to go out. Nothing is left to be sent or received afterwards.
  void shut_down(ExitCode code) noexcept;
  /// Ends Control after all texts have been exchanged; throws as await.
  void end();

 private:
  struct Sent {
    int to = 0;
    Kind kind = Kind::pulse;
    std::vector<std::byte> bytes;
    PlimsollMpiRequest request{};
  };
  struct Incoming {
    int from = 0;
    std::vector<std::byte> bytes;
    PlimsollMpiRequest request{};
  };
  using Clock = std::chrono::steady_clock;

  void work();
  void send_pulses(Clock::time_point now);
  void receive();
  void take(int from, Kind kind, ExitCode code, std::string text);
  void forget_sent();
  void note_silence(Clock::duration passed);
  void set_fault(Fault fault);
  void stop();
  /// Waits a moment until all messages have gone out.
  void flush();
  [[nodiscard]] bool is_first() const { return link_.process() == 0; }
  /// Processes whose pulses this one expects: process 0 all others, the others process 0.
  [[nodiscard]] std::vector<int> peers() const;

  Link& link_;
  ControlOptions options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::list<Sent> sent_;  // on their way
  std::map<std::pair<int, Kind>, std::deque<std::string>> texts_;
  std::optional<Fault> fault_;
  Clock::time_point fault_at_;
  bool stopped_ = false;
  std::atomic<bool> ending_ = false;
  std::map<int, Clock::duration> silent_;  // used by the thread alone, as the next two
  std::optional<Incoming> incoming_;
  Clock::time_point pulsed_{};
  std::thread thread_;
};

}  // namespace plimsoll::processes
