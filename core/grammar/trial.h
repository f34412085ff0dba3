// Work of a library on strangers' input, tried in a process of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace plimsoll::grammar {

struct TrialLimits {
  std::chrono::milliseconds time{10'000};
  size_t memory = size_t{2} << 30;  // beside what this process has; not under AddressSanitizer
};

/// Runs `work` in a child process, so that a crash, a hang or too much memory ends there. Returns
/// why the work must not be done in this process; empty: it may be, and an exception of it counts
/// as done.
std::string try_in_child(const std::function<void()>& work, const TrialLimits& limits);

}  // namespace plimsoll::grammar
