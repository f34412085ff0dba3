// What processes tell each other beside the work: that they live, what went wrong, and texts.
//
// A thread of its own receives, so that a rank that computes for long is heard all the same; a
// process that is stopped or gone is not.
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
  pulse,    // of both sides
  fault,    // to the first process: ends the launch
  left,     // from it: the launch has ended, with that exit code
  facts,    // from it: what all must have laid out alike
  agreed,   // to it
  begin,    // from it
  account,  // to it: of a process's ranks
  end,      // from it: nothing comes any more
  ended     // to it
};

/// Why a launch ends.
struct Fault {
  ExitCode code = ExitCode::device_lost;
  std::string text;
};

struct ControlOptions {
  /// A process that is not heard for so long, while this one runs, is lost. With half a second
  /// between pulses, and the first process's patience before that of those that it tells, all have
  /// left 8.5 seconds after it was stopped, at the latest.
  std::chrono::milliseconds silence = std::chrono::seconds(5);
  /// Between a fault and leave(), which gives the other threads time to end by themselves.
  std::chrono::milliseconds patience = std::chrono::milliseconds(1500);
  /// A fault is known: wakes who waits for ranks.
  std::function<void()> give_up{};
  /// Ends the process; called by this one's thread.
  std::function<void(const Fault&)> leave{};
};

class Control {
 public:
  Control(Link& link, ControlOptions options);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Does not wait.
  void tell(int process, Kind kind, const std::string& text, ExitCode code = ExitCode::done);
  /// The next such text of a process. Throws Error with the fault where there is one.
  std::string await(int process, Kind kind);
  [[nodiscard]] std::optional<Fault> fault();
  /// Tells that the launch has ended, of the first process to all others, and hears no more; waits
  /// for that for a moment. Nothing is left to be sent or received afterwards.
  void farewell(ExitCode code) noexcept;
  /// The same after everything has been said; throws as await.
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
  /// Waits for a moment until all that was told has gone.
  void flush();
  [[nodiscard]] bool is_first() const { return link_.process() == 0; }
  /// Processes that this one hears: the first one all, the others the first.
  [[nodiscard]] std::vector<int> peers() const;

  Link& link_;
  ControlOptions options_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::list<Sent> sent_;  // on their way
  std::map<std::pair<int, Kind>, std::deque<std::string>> texts_;
  std::optional<Fault> fault_;
  Clock::time_point fault_at_;
  bool stopped_ = false;
  std::atomic<bool> ending_ = false;
  std::map<int, Clock::duration> silent_;  // of the thread alone, as the next two
  std::optional<Incoming> incoming_;
  Clock::time_point pulsed_{};
  std::thread thread_;
};

}  // namespace plimsoll::processes
