#include "cli/run/crash_notes.h"

#include "cli/signals.h"

namespace plimsoll::cli {

CrashNotes::CrashNotes(const std::string& output, const batch::RunFiles& files) {
  if (files::is_stream(output)) return;
  if (!files.is_known_run()) files::remove_file(output + ".running");
  notes_.emplace(output);
  mark_crashes(notes_->descriptor(), batch::InFlight::kMark);
}

CrashNotes::~CrashNotes() {
  mark_crashes(-1, {});
}

void forget_crash_notes(const std::string& output) noexcept {
  files::remove_if_possible(output + ".running");
}

}  // namespace plimsoll::cli
