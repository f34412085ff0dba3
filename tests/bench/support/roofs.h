// Peak rates of this machine, measured, so that speeds can be shown as shares of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::backend {
class ThreadPool;
}

namespace plimsoll::testing {

/// Sums up memory on several threads, each of which reads four streams: memory is faster for
/// several streams than for one.
class MemoryReader {
 public:
  explicit MemoryReader(int threads);
  ~MemoryReader();
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;
  /// Reads memory, a multiple of 1 MiB.
  void read(const void* data, size_t bytes);

 private:
  std::unique_ptr<backend::ThreadPool> pool_;
  std::vector<uint64_t> sums_;
};

/// Bytes per second: the best of `rounds` sums over `bytes` bytes on `threads` threads. Pages
/// differ in speed, perhaps by half, so a rate is compared as a share of its own memory's rate.
double read_bandwidth(int threads, size_t bytes = size_t{2} << 30, int rounds = 10);

/// The instructions or library that measured the matrix rate.
struct MatrixRate {
  double flops = 0;  // per second
  std::string by;
};
struct MatrixShape {
  int64_t m = 512, k = 2048, n = 8192;
};
/// The best of `rounds` products m x k x n in bf16 by oneDNN, or, where oneDNN or the instructions
/// are missing, what independent multiply-adds reach.
MatrixRate matrix_rate(int threads, MatrixShape shape = {}, int rounds = 20);

/// Seconds of the fastest of some calls of f: at least `rounds`, for at least `seconds`.
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

/// Seconds of the fastest calls of f and of g, called by turns, so that both meet times at which
/// the machine is faster.
template <typename F, typename G>
std::pair<double, double> best_times(const F& f, const G& g, double seconds) {
  std::pair<double, double> best{1e30, 1e30};
  for (double total = 0; total < seconds;) {
    const double first = best_time(f, 1, 0), second = best_time(g, 1, 0);
    total += first + second;
    best = {std::min(best.first, first), std::min(best.second, second)};
  }
  return best;
}

}  // namespace plimsoll::testing
