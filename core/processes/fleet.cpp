#include "processes/fleet.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace plimsoll::processes {
namespace {

// The first line that differs, as "name: ours here, theirs in process 0".
std::string difference(const std::string& ours, const std::string& theirs) {
  std::istringstream own(ours), first(theirs);
  std::string line, wanted;
  while (true) {
    const bool more = static_cast<bool>(std::getline(own, line));
    if (static_cast<bool>(std::getline(first, wanted)) != more) return "another number of ranks";
    if (!more) return "";
    if (line == wanted) continue;
    const size_t name = line.find(": ");
    if (name == std::string::npos || !wanted.starts_with(line.substr(0, name + 2))) {
      return fmt::format("{} here, {} in process 0", line, wanted);
    }
    return fmt::format("{} here, {} in process 0", line, wanted.substr(name + 2));
  }
}

}  // namespace

Fleet::Fleet(const PlimsollMpi& mpi, const std::function<void(Fleet&, const Fault&)>& leave)
    : link_(mpi),
      messages_(link_),
      control_(link_, {.abort = [this] { lose(); },
                       .leave = [this, leave](const Fault& fault) { leave(*this, fault); }}) {}

bool Fleet::same_node(int64_t process) const {
  return link_.same_node(static_cast<int>(process));
}

engine::Communicator& Fleet::rank(int64_t replica, int64_t rank, int64_t ranks) {
  return messages_.rank(replica, rank, ranks / count());
}

void Fleet::agree(const std::string& facts) {
  if (process() == 0) {
    for (int other = 1; other < count(); ++other) control_.tell(other, Kind::facts, facts);
    for (int other = 1; other < count(); ++other) control_.await(other, Kind::agreed);
    for (int other = 1; other < count(); ++other) control_.tell(other, Kind::begin, "");
    return;
  }
  const std::string differs = difference(facts, control_.await(0, Kind::facts));
  if (!differs.empty()) {
    fail(ExitCode::usage,
         "the processes of one launch need the same command line and machines that are alike: {}",
         differs);
  }
  control_.tell(0, Kind::agreed, "");
  control_.await(0, Kind::begin);
}

// Values go both ways over the texts of agree(), which all processes have between the same two
// calls.
uint64_t Fleet::least(uint64_t value) {
  if (process() != 0) {
    control_.tell(0, Kind::agreed, std::to_string(value));
    return std::stoull(control_.await(0, Kind::facts));
  }
  for (int other = 1; other < count(); ++other) {
    value = std::min<uint64_t>(value, std::stoull(control_.await(other, Kind::agreed)));
  }
  for (int other = 1; other < count(); ++other) {
    control_.tell(other, Kind::facts, std::to_string(value));
  }
  return value;
}

void Fleet::when_lost(const void* who, std::function<void()> act) {
  const std::lock_guard lock(waking_);
  if (aborted()) return act();  // too late to be woken
  when_lost_[who] = std::move(act);
}

void Fleet::forget(const void* who) noexcept {
  const std::lock_guard lock(waking_);
  when_lost_.erase(who);
}

void Fleet::lose() {
  messages_.abort();
  const std::lock_guard lock(waking_);
  for (const auto& [who, act] : when_lost_) act();
}

std::string Fleet::receive_account(int64_t process) {
  return control_.await(static_cast<int>(process), Kind::account);
}

void Fleet::report(ExitCode code, const std::string& text) {
  const bool named = text.starts_with("rank ");
  control_.tell(0, Kind::fault,
                named ? text
                      : fmt::format("process {} of {}, on {}: {}", process(), count(),
                                    link_.host(link_.process()), text),
                code);
}

void Fleet::shut_down(ExitCode code) noexcept {
  if (!was_shut_down_.exchange(true)) control_.shut_down(code);
}

void Fleet::end_idle() {
  shut_down(ExitCode::done);
  link_.finish();
}

void Fleet::end() {
  control_.end();
  link_.finish();
}

}  // namespace plimsoll::processes
