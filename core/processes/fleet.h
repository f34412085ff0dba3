// The processes of one launch, over MPI: ranks' messages, and how they end together.
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
  /// Starts MPI in all processes. `leave` ends this process; it is called by a thread of the fleet
  /// where a fault is known and the command has not ended by itself.
  Fleet(const PlimsollMpi& mpi, const std::function<void(Fleet&, const Fault&)>& leave);

  [[nodiscard]] int64_t process() const override { return link_.process(); }
  [[nodiscard]] int64_t count() const override { return link_.count(); }
  [[nodiscard]] bool is_near(int64_t process) const override;
  engine::Communicator& rank(int64_t copy, int64_t rank, int64_t ranks) override;
  void agree(const std::string& facts) override;
  uint64_t least(uint64_t value) override;
  void give_up() noexcept override { messages_.give_up(); }
  [[nodiscard]] bool given_up() const noexcept override { return messages_.given_up(); }
  void when_lost(const void* who, std::function<void()> act) override;
  void forget(const void* who) noexcept override;

  /// Texts about a process's ranks, which the first process collects when they have ended.
  void send_account(const std::string& account) { control_.tell(0, Kind::account, account); }
  std::string receive_account(int64_t process);

  /// Of a process after the first: tells that one what went wrong here, which ends all.
  void report(ExitCode code, const std::string& text);
  [[nodiscard]] std::optional<Fault> fault() { return control_.fault(); }
  /// Of the first process: lets the others go, with that code. Nobody hears another one.
  void farewell(ExitCode code) noexcept;
  /// In order, after all is done, and where the constructor was called.
  void end();
  /// The same where there was nothing to do: of the first process instead of farewell(), of others
  /// that have been let go with ExitCode::done.
  void end_idle();

 private:
  /// By the control's thread, when a fault is known.
  void lose();

  Link link_;
  Messages messages_;
  std::mutex waking_;  // of the next; held while they are called, so that what they need is there
  std::map<const void*, std::function<void()>> when_lost_;
  std::atomic<bool> said_farewell_ = false;
  Control control_;  // begins last: it calls this
};

}  // namespace plimsoll::processes
