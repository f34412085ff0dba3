// Input of any kind: a regular file, a pipe, a terminal, a device; what is packed with gzip or zstd
// is unpacked on the way, by its content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "files/descriptor.h"
#include "files/names.h"
#include "files/packing.h"

namespace plimsoll::files {

class InputFile {
 public:
  /// "-" is standard input. Throws Error(input_unusable) naming the path and the cure: missing,
  /// unreadable, a folder.
  static InputFile open(const std::string& path);

  /// Up to `bytes` bytes, unpacked; 0 at the end; none when nothing came within `timeout_ms`, or a
  /// signal came. Throws Error(input_unusable) for packed data that is damaged or cut off, behind
  /// all that could be unpacked.
  std::optional<size_t> read(char* to, size_t bytes, int timeout_ms);
  /// The same without unpacking.
  std::optional<size_t> read_stored(char* to, size_t bytes, int timeout_ms);
  /// Of a regular file: the next read begins where the first one did.
  void rewind();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_regular() const { return regular_; }
  /// Of a stream, as far as is known after the first read.
  [[nodiscard]] bool is_packed() const { return unpacker_ != nullptr; }
  [[nodiscard]] bool is_terminal() const;
  /// Stored bytes of a regular file, from where reading begins, as it was when opened.
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  [[nodiscard]] bool sniff(int timeout_ms);
  size_t unpack(char* to, size_t bytes);

  Descriptor descriptor_;
  std::string name_;
  bool regular_ = false;
  uint64_t size_ = 0;
  uint64_t start_ = 0;     // standard input may have been read from before
  uint64_t position_ = 0;  // of a regular file
  Packing packing_ = Packing::none;
  std::unique_ptr<Unpacker> unpacker_;
  bool sniffed_ = false;
  bool ended_ = false;  // of what is stored
  std::string stored_;  // read, and not given or unpacked yet, from at_
  size_t at_ = 0;
};

}  // namespace plimsoll::files
