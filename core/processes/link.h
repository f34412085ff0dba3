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

/// No call blocks. Throws Error(device_lost) with what MPI says.
class Link {
 public:
  /// Starts MPI, with all other processes at the same time.
  explicit Link(const PlimsollMpi& mpi);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] bool is_near(int process) const {
    return mpi_.machine(process) == mpi_.machine(process_);
  }
  [[nodiscard]] std::string host(int process) const { return mpi_.host(process); }

  /// Who sends or receives, and as what.
  struct Address {
    int channel = kPlimsollMpiData;
    int process = 0;
    int tag = 0;
  };
  PlimsollMpiRequest send(const Address& to, std::span<const std::byte> bytes);
  PlimsollMpiRequest receive(const Address& from, std::span<std::byte> bytes);
  /// The bytes that came, or went, once the request has ended.
  std::optional<size_t> test(PlimsollMpiRequest& request);
  void cancel(PlimsollMpiRequest& request) noexcept;
  /// A message of the control channel that lies ready, and its length.
  struct Ready {
    int from = 0;
    size_t bytes = 0;
  };
  std::optional<Ready> probe();
  /// Ends MPI, as the constructor began it.
  void finish();

 private:
  void check(int error) const;

  const PlimsollMpi& mpi_;
  std::mutex mutex_;
  int process_ = 0, count_ = 1;
};

}  // namespace plimsoll::processes
