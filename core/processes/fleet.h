// The processes of one launch over MPI: ranks' messages, and how the processes end together.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "engine/ranks/processes.h"
#include "processes/control.h"
#include "processes/link.h"
#include "processes/messages.h"

namespace plimsoll::processes {

class Fleet final : public engine::Processes {
 public:
  /// Starts MPI in all processes. `leave` ends this process; a thread of the fleet calls it when a
  /// fault is known and the command has not ended by itself.
  Fleet(const PlimsollMpi& mpi, const std::function<void(Fleet&, const Fault&)>& leave);

  [[nodiscard]] int64_t process() const override { return link_.process(); }
  [[nodiscard]] int64_t count() const override { return link_.count(); }
  [[nodiscard]] bool same_node(int64_t process) const override;
  engine::Communicator& rank(int64_t replica, int64_t rank, int64_t ranks) override;
  void agree(const std::string& facts) override;
  uint64_t least(uint64_t value) override;
  void abort() noexcept override { messages_.abort(); }
  [[nodiscard]] bool aborted() const noexcept override { return messages_.aborted(); }
  void when_lost(const void* who, std::function<void()> act) override;
  void forget(const void* who) noexcept override;

  /// Sends a text about this process's ranks; process 0 collects the texts when the ranks have
  /// ended.
  void send_account(const std::string& account) { control_.tell(0, Kind::account, account); }
  std::string receive_account(int64_t process);

  /// Called by a process other than 0: tells process 0 what went wrong here, which ends the launch.
  void report(ExitCode code, const std::string& text);
  [[nodiscard]] std::optional<Fault> fault() { return control_.fault(); }
  /// Called by process 0: tells all other processes to exit with this code, and stops receiving.
  void shut_down(ExitCode code) noexcept;
  /// Ends MPI in order, after all work is done; to be called by the constructor's thread.
  void end();
  /// Ends MPI when the launch had nothing to do: process 0 calls it instead of shut_down(), the
  /// others when process 0 has told them to exit with ExitCode::done.
  void end_idle();

 private:
  /// Called by the control's thread when a fault is known.
  void lose();

  Link link_;
  Messages messages_;
  /// Guards the next; held during the calls, so that what they use is not destroyed.
  std::mutex waking_;
  std::map<const void*, std::function<void()>> when_lost_;
  std::atomic<bool> was_shut_down_ = false;
  Control control_;  // constructed last, because it calls this object
};

}  // namespace plimsoll::processes
