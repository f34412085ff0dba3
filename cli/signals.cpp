#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace plimsoll::cli {
namespace {

SignalFlags g_flags;
static_assert(std::atomic<bool>::is_always_lock_free, "used in signal handlers");

void on_stop(int number) {
  if (g_flags.stop.exchange(true)) {
    std::signal(number, SIG_DFL);
    raise(number);
  }
}

void on_status(int) {
  g_flags.status = true;
}

std::atomic<int> g_crash_descriptor = -1;
std::string_view g_crash_mark;

void on_crash(int number) {
  const int descriptor = g_crash_descriptor.exchange(-1);
  if (descriptor >= 0) {
    [[maybe_unused]] const ssize_t written =
        ::write(descriptor, g_crash_mark.data(), g_crash_mark.size());
  }
  std::signal(number, SIG_DFL);
  raise(number);
}

void install(int number, void (*handler)(int)) {
  struct sigaction current {};
  if (sigaction(number, nullptr, &current) != 0 || current.sa_handler == SIG_IGN) return;
  struct sigaction wanted {};
  wanted.sa_handler = handler;
  sigemptyset(&wanted.sa_mask);
  sigaction(number, &wanted, nullptr);
}

}  // namespace

SignalFlags& install_signal_handlers() {
  install(SIGINT, on_stop);
  install(SIGTERM, on_stop);
  install(SIGHUP, on_stop);
  install(SIGUSR2, on_stop);
  install(SIGUSR1, on_status);
  std::signal(SIGPIPE, SIG_IGN);
  return g_flags;
}

void mark_crashes(int descriptor, std::string_view mark) {
  g_crash_mark = mark;
  g_crash_descriptor = descriptor;
  if (descriptor < 0) return;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction current {};
    const bool ours = sigaction(number, nullptr, &current) == 0 && current.sa_handler == SIG_DFL;
    if (ours) install(number, on_crash);  // a sanitizer's stay
  }
}

void die_by_signal(int number) {
  std::signal(number, SIG_DFL);
  raise(number);
  _exit(128 + number);
}

}  // namespace plimsoll::cli
