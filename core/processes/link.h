// Calls of MPI from several threads, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "mpi/plimsoll_mpi.h"

namespace plimsoll::processes {

/// MPI calls, none of which blocks. Throws Error(device_lost) with MPI's message.
class Link {
 public:
  /// Starts MPI, together with all other processes.
  explicit Link(const PlimsollMpi& mpi);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] bool same_node(int process) const {
    return mpi_.machine(process) == mpi_.machine(process_);
  }
  [[nodiscard]] std::string host(int process) const { return mpi_.host(process); }

  /// Channel, process and tag of a message.
  struct Address {
    int channel = kPlimsollMpiData;
    int process = 0;
    int tag = 0;
  };
  PlimsollMpiRequest send(const Address& to, std::span<const std::byte> bytes);
  PlimsollMpiRequest receive(const Address& from, std::span<std::byte> bytes);
  /// Bytes received or sent once the request has ended; none before.
  std::optional<size_t> test(PlimsollMpiRequest& request);
  void cancel(PlimsollMpiRequest& request) noexcept;
  /// A message of the control channel that has arrived, and its length.
  struct Ready {
    int from = 0;
    size_t bytes = 0;
  };
  std::optional<Ready> probe();
  /// Ends MPI; to be called by the constructor's thread.
  void finish();

 private:
  void check(int error) const;

  const PlimsollMpi& mpi_;
  std::mutex mutex_;
  int process_ = 0, count_ = 1;
};

}  // namespace plimsoll::processes
