// What this machine can do at most, measured, so that speeds can be shown as shares of it.
#pragma once

#include <chrono>
#include <cstddef>

namespace plimsoll::testing {

/// Bytes per second: the best of `rounds` sums over `bytes` bytes on `threads` threads.
double read_bandwidth(int threads, size_t bytes = size_t{2} << 30, int rounds = 10);

/// What the matrix rate was measured with.
struct MatrixRate {
  double flops = 0;  // per second
  const char* by = "";
};
/// The best of `rounds` products 512 x 2048 x 8192 in bf16 by oneDNN, or, where oneDNN or the
/// instructions are missing, what independent multiply-adds reach.
MatrixRate matrix_rate(int threads, int rounds = 20);

/// Seconds of the best of some calls of f: at least `rounds`, for at least `seconds`.
template <typename F>
double best_time(const F& f, int rounds = 5, double seconds = 0.3) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  double total = 0;
  for (int i = 0; i < rounds || total < seconds; ++i) {
    const auto start = Clock::now();
    f();
    const double time = std::chrono::duration<double>(Clock::now() - start).count();
    total += time;
    best = time < best ? time : best;
  }
  return best;
}

}  // namespace plimsoll::testing
