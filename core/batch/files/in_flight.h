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
  /// Takes up what an earlier life has left. Throws Error(output_unwritable, locked).
  explicit InFlight(const std::string& output);
  /// The life ends in good order: what is still under suspicion stays noted, else nothing.
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// How often the process died by itself with this line (1-based number) in hand. What kills it
  /// from outside and cannot be caught (SIGKILL) does not count.
  [[nodiscard]] int deaths(uint64_t line) const;
  /// So many make the line fail.
  static constexpr int kTooMany = 2;

  /// The line goes to the engine; it has its record. A note that cannot be written is no reason to
  /// end a run.
  void begin(uint64_t line) noexcept;
  void end(uint64_t line) noexcept;

  /// This life ends by something that the lines in hand may have brought about.
  void mark_crash() noexcept;
  /// The same for signal handlers: writing kMark to this descriptor.
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
