#include "grammar/trial.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <new>
#include <thread>

namespace plimsoll::grammar {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kLimitsMemory = false;  // its shadow takes terabytes of addresses
#else
constexpr bool kLimitsMemory = true;
#endif
constexpr int kOutOfMemory = 2;  // status of the child
constexpr std::chrono::microseconds kWait{500};

/// Bytes of address space that this process has.
size_t own_memory() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void limit(int resource, size_t most) {
  const rlimit both{most, most};
  (void)setrlimit(static_cast<__rlimit_resource_t>(resource), &both);
}

[[noreturn]] void be_child(const std::function<void()>& work, const TrialLimits& limits) {
  limit(RLIMIT_CORE, 0);
  if (kLimitsMemory) limit(RLIMIT_AS, own_memory() + limits.memory);
  for (const int fault : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) (void)std::signal(fault, SIG_DFL);
  try {
    work();
  } catch (const std::bad_alloc&) {
    _exit(kOutOfMemory);
  } catch (...) {
    // The work ends by itself: the caller does it again and gets the exception.
  }
  _exit(0);
}

}  // namespace

std::string try_in_child(const std::function<void()>& work, const TrialLimits& limits) {
  const auto end = std::chrono::steady_clock::now() + limits.time;
  const pid_t child = fork();
  if (child == 0) be_child(work, limits);
  if (child < 0) return "there is no process to try it in";
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return "there is no word of the process that tried it";
    if (std::chrono::steady_clock::now() > end) {
      (void)kill(child, SIGKILL);
      (void)waitpid(child, &status, 0);
      return fmt::format("takes more than {:g} s to compile",
                         std::chrono::duration<double>(limits.time).count());
    }
    std::this_thread::sleep_for(kWait);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status)) {
    return fmt::format("takes more than {} MiB to compile", limits.memory >> 20);
  }
  return "nests too deeply, or is nothing that can be compiled";
}

}  // namespace plimsoll::grammar
