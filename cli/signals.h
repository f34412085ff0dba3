// Signals: the first SIGINT, SIGTERM, SIGHUP or SIGUSR2 asks a run to stop, the second ends the
// process.
#pragma once

#include <atomic>
#include <string_view>

namespace plimsoll::cli {

/// Set by the first stop signal, and by every SIGUSR1 (which asks for a status line).
struct SignalFlags {
  std::atomic<bool> stop{false};
  std::atomic<bool> status{false};
};

/// Installs the handlers (a signal that the parent chose to ignore stays ignored) and ignores
/// SIGPIPE, so that a log reader's end does not end the run. The flags live as long as the process.
SignalFlags& install_signal_handlers();

/// Lets a process that dies by a fault of its own (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) write
/// `mark` to the descriptor first; -1: no longer. `mark` must outlive that.
void mark_crashes(int descriptor, std::string_view mark);

/// Ends the process as the signal would do without a handler (141 for SIGPIPE, to a shell).
[[noreturn]] void die_by_signal(int number);

}  // namespace plimsoll::cli
