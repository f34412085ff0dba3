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
  // A file over the limit of its size is an error of the write, as a full disk is.
  std::signal(SIGXFSZ, SIG_IGN);
  return g_flags;
}

void die_by_signal(int number) {
  std::signal(number, SIG_DFL);
  raise(number);
  _exit(128 + number);
}

}  // namespace plimsoll::cli
