#include "processes/link.h"

#include <array>

#include "base/error.h"

namespace plimsoll::processes {

Link::Link(const PlimsollMpi& mpi) : mpi_(mpi) {
  check(mpi_.start(&process_, &count_));
}

PlimsollMpiRequest Link::send(const Address& to, std::span<const std::byte> bytes) {
  PlimsollMpiRequest request{};
  const std::lock_guard lock(mutex_);
  check(mpi_.send(to.channel, to.process, to.tag, bytes.data(), bytes.size(), &request));
  return request;
}

PlimsollMpiRequest Link::receive(const Address& from, std::span<std::byte> bytes) {
  PlimsollMpiRequest request{};
  const std::lock_guard lock(mutex_);
  check(mpi_.receive(from.channel, from.process, from.tag, bytes.data(), bytes.size(), &request));
  return request;
}

std::optional<size_t> Link::test(PlimsollMpiRequest& request) {
  int done = 0;
  size_t count = 0;
  const std::lock_guard lock(mutex_);
  check(mpi_.test(&request, &done, &count));
  return done != 0 ? std::optional(count) : std::nullopt;
}

void Link::cancel(PlimsollMpiRequest& request) noexcept {
  const std::lock_guard lock(mutex_);
  mpi_.cancel(&request);
}

std::optional<Link::Ready> Link::probe() {
  int found = 0;
  Ready ready;
  const std::lock_guard lock(mutex_);
  check(mpi_.probe(kPlimsollMpiControl, 0, &found, &ready.from, &ready.bytes));
  return found != 0 ? std::optional(ready) : std::nullopt;
}

void Link::finish() {
  check(mpi_.finish());
}

void Link::check(int error) const {
  if (error == 0) return;
  std::array<char, 512> text{};
  mpi_.explain(error, text.data(), text.size());
  fail(ExitCode::device_lost, "MPI: {}", text.data());
}

}  // namespace plimsoll::processes
