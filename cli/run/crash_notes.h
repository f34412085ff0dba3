// Lines in hand, noted beside the output, and what counts as a death of theirs.
#pragma once

#include <optional>

#include "batch/files/in_flight.h"
#include "batch/files/run_files.h"

namespace plimsoll::cli {

/// While it lives, crashes of the process are marked in the notes of its run's output; streams have
/// none.
class CrashNotes {
 public:
  /// Notes of another run with that output are forgotten.
  CrashNotes(const std::string& output, const batch::RunFiles& files);
  ~CrashNotes();
  CrashNotes(const CrashNotes&) = delete;
  CrashNotes& operator=(const CrashNotes&) = delete;

  /// Null for streams.
  [[nodiscard]] batch::InFlight* notes() { return notes_ ? &*notes_ : nullptr; }
  /// The device was lost, or a step does not end.
  void mark() noexcept {
    if (notes_) notes_->mark_crash();
  }

 private:
  std::optional<batch::InFlight> notes_;
};

/// Of a run that has ended, perhaps killed before it could forget them itself.
void forget_crash_notes(const std::string& output) noexcept;

}  // namespace plimsoll::cli
