// Which lines a run has in hand, noted in PATH.running beside its journal: after the process has
// died by itself they run one by one, and a line that was in hand at two such deaths fails.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "files/output_file.h"

namespace plimsoll::batch {

class InFlight {
 public:
  /// Reads the notes that an earlier process of this run left. Throws Error(output_unwritable,
  /// locked).
  explicit InFlight(const std::string& output);
  /// Ends the notes in good order: lines under suspicion stay noted, all others are forgotten.
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// How often the process died by itself while this line (1-based number) was in hand. Deaths from
  /// outside that cannot be caught (SIGKILL) do not count.
  [[nodiscard]] int deaths(uint64_t line) const;
  /// A line fails after this many deaths.
  static constexpr int kTooMany = 2;

  /// Notes that the line goes to the engine (begin), and that its record is written (end). A note
  /// that cannot be written does not end the run.
  void begin(uint64_t line) noexcept;
  void end(uint64_t line) noexcept;

  /// Notes that this process dies by something that the lines in hand may have caused.
  void mark_crash() noexcept;
  /// File descriptor of the notes for signal handlers, which mark a crash by writing kMark to it.
  [[nodiscard]] int descriptor() const { return file_.descriptor(); }
  static constexpr std::string_view kMark = "\n!\n";

 private:
  void read_earlier();
  void write_anew();
  void note(char what, uint64_t line) noexcept;

  files::OutputFile file_;
  std::map<uint64_t, int> deaths_;
  std::set<uint64_t> running_;
  uint64_t bytes_ = 0;
  bool crashed_ = false;
};

}  // namespace plimsoll::batch
