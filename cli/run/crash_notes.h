// Notes of lines in hand, beside the output, and marks of crashes in them.
#pragma once

#include <optional>

#include "batch/files/in_flight.h"
#include "batch/files/run_files.h"

namespace plimsoll::cli {

/// Marks crashes of the process, while the object lives, in the notes of its run's output; streams
/// have no notes.
class CrashNotes {
 public:
  /// Opens the notes; notes of another run with that output are removed.
  CrashNotes(const std::string& output, const batch::RunFiles& files);
  ~CrashNotes();
  CrashNotes(const CrashNotes&) = delete;
  CrashNotes& operator=(const CrashNotes&) = delete;

  /// The notes; null for streams.
  [[nodiscard]] batch::InFlight* notes() { return notes_ ? &*notes_ : nullptr; }
  /// Marks a crash: the device was lost, or a step does not end.
  void mark() noexcept {
    if (notes_) notes_->mark_crash();
  }

 private:
  std::optional<batch::InFlight> notes_;
};

/// Removes the notes of a run that has ended, perhaps killed before it could remove them itself.
void forget_crash_notes(const std::string& output) noexcept;

}  // namespace plimsoll::cli
