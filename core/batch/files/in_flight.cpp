#include "batch/files/in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace plimsoll::batch {
namespace {

// Notes are lines: "+N" line N is in hand, "-N" it has its record, "?N" it was in hand at a death,
// "!" this life died by itself.
constexpr uint64_t kAnew = uint64_t{1} << 20;         // bytes of notes
constexpr uint64_t kLargestFile = uint64_t{1} << 30;  // beyond it the file is none of ours

template <typename Take>
void for_each_line(std::string_view text, Take take) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return;  // cut short
    if (end > 0) take(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

uint64_t number_behind(std::string_view note) {
  uint64_t line = 0;
  std::from_chars(note.data() + 1, note.data() + note.size(), line);
  return line;
}

}  // namespace

InFlight::InFlight(const std::string& output)
    : file_(files::OutputFile::open_owned(output + ".running")) {
  read_earlier();
  write_anew();
}

InFlight::~InFlight() {
  if (crashed_) return;
  running_.clear();
  if (deaths_.empty()) {
    files::remove_if_possible(file_.path());
    return;
  }
  try {
    write_anew();
  } catch (const Error&) {
    // The lines are tried again as if nothing had been.
  }
}

void InFlight::read_earlier() {
  std::string notes(std::min(file_.size(), kLargestFile), '\0');
  file_.read_at(0, notes.data(), notes.size());
  bool died = false;
  for_each_line(notes, [&](std::string_view note) {
    const uint64_t line = number_behind(note);
    if (note[0] == '!') died = true;
    if (note[0] == '+') running_.insert(line);
    if (note[0] == '?') ++deaths_[line];
    if (note[0] != '-') return;
    running_.erase(line);
    deaths_.erase(line);
  });
  if (died) {
    for (const uint64_t line : running_) ++deaths_[line];
  }
  running_.clear();
}

void InFlight::write_anew() {
  std::string notes;
  for (const auto& [line, deaths] : deaths_) {
    for (int i = 0; i < deaths; ++i) notes += fmt::format("?{}\n", line);
  }
  for (const uint64_t line : running_) notes += fmt::format("+{}\n", line);
  file_.truncate(0);
  file_.append(notes);
  bytes_ = notes.size();
}

int InFlight::deaths(uint64_t line) const {
  const auto found = deaths_.find(line);
  return found == deaths_.end() ? 0 : found->second;
}

void InFlight::begin(uint64_t line) noexcept {
  running_.insert(line);
  note('+', line);
}

void InFlight::end(uint64_t line) noexcept {
  deaths_.erase(line);
  if (running_.erase(line) > 0) note('-', line);
}

void InFlight::note(char what, uint64_t line) noexcept {
  try {
    const std::string text = fmt::format("{}{}\n", what, line);
    file_.append(text);
    bytes_ += text.size();
    if (bytes_ > kAnew) write_anew();
  } catch (const std::exception&) {
    // See begin().
  }
}

void InFlight::mark_crash() noexcept {
  crashed_ = true;
  try {
    file_.append(kMark);
  } catch (const std::exception&) {
    // See begin().
  }
}

}  // namespace plimsoll::batch
