// Stands before the C library's clocks of a program that loads it first: the time of day jumps by a
// day and back with every look at it; monotonic clocks go on as they are.
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace {

constexpr time_t kDay = 86400;

time_t jump() {
  static std::atomic<unsigned> looks{0};
  return looks.fetch_add(1) % 2 == 0 ? kDay : -kDay;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto failed = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (failed == 0 && clock == CLOCK_REALTIME) now->tv_sec += jump();
  return failed;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}
}
