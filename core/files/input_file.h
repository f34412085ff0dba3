// Input of any kind: a regular file, a pipe, a terminal, a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "files/descriptor.h"
#include "files/names.h"

namespace plimsoll::files {

class InputFile {
 public:
  /// "-" is standard input. Throws Error(input_unusable) naming the path and the cure: missing,
  /// unreadable, a folder.
  static InputFile open(const std::string& path);

  /// Up to `bytes` bytes; 0 at the end; none when nothing came within `timeout_ms`, or a signal
  /// came.
  std::optional<size_t> read(char* to, size_t bytes, int timeout_ms);
  /// Of a regular file: the next read begins where the first one did.
  void rewind() { position_ = start_; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_regular() const { return regular_; }
  [[nodiscard]] bool is_terminal() const;
  /// Bytes of a regular file, from where reading begins, as it was when opened.
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  Descriptor descriptor_;
  std::string name_;
  bool regular_ = false;
  uint64_t size_ = 0;
  uint64_t start_ = 0;     // standard input may have been read from before
  uint64_t position_ = 0;  // of a regular file
};

}  // namespace plimsoll::files
