// The lines of a file that this process owns, one after the other in bounded memory.
#pragma once

#include <cstdint>
#include <string>

#include "files/output_file.h"

namespace plimsoll::batch {

/// A record's place in its file, with its line end.
struct Extent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class FileLines {
 public:
  /// Lines from byte `from` on, as far as the file reaches now.
  FileLines(const files::OutputFile& file, uint64_t from)
      : file_(file), at_(from), end_(file.size()) {}

  /// The next line without its end; false when no line end follows. Throws
  /// Error(output_unwritable) where the file cannot be read.
  bool next(std::string& line, Extent& extent);
  /// Where the next line begins.
  [[nodiscard]] uint64_t at() const { return at_; }

 private:
  const files::OutputFile& file_;
  uint64_t at_;
  uint64_t end_;
  std::string buffer_;
  size_t start_ = 0;
  size_t scanned_ = 0;
};

}  // namespace plimsoll::batch
