// Input of any kind: a regular file, a pipe, a terminal, a device. gzip and zstd are recognised by
// content and unpacked while reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/descriptor.h"
#include "files/names.h"
#include "files/packing.h"

namespace plimsoll::files {

/// One input, as it is.
class OneInput {
 public:
  explicit OneInput(const std::string& path);

  std::optional<size_t> read(char* to, size_t bytes, int timeout_ms);
  std::optional<size_t> read_stored(char* to, size_t bytes, int timeout_ms);
  void rewind();
  /// Reads stored bytes of a regular file from `offset` on, counted from where reading begins;
  /// fewer than `bytes` at its end.
  size_t read_at(uint64_t offset, char* to, size_t bytes) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_regular() const { return regular_; }
  [[nodiscard]] bool is_packed() const { return unpacker_ != nullptr; }
  [[nodiscard]] bool is_terminal() const;
  [[nodiscard]] uint64_t size() const { return size_; }

 private:
  [[nodiscard]] bool sniff(int timeout_ms);
  size_t unpack(char* to, size_t bytes);
  void check_whole() const;

  Descriptor descriptor_;
  std::string name_;
  bool regular_ = false;
  uint64_t size_ = 0;
  uint64_t start_ = 0;     // of a regular file; standard input may have been read before
  uint64_t position_ = 0;  // of a regular file
  Packing packing_ = Packing::none;
  std::unique_ptr<Unpacker> unpacker_;
  bool sniffed_ = false;
  bool ended_ = false;  // the end of the stored bytes has been read
  std::string stored_;  // read, and not returned or unpacked yet, from at_
  size_t at_ = 0;
};

/// Inputs that are read one after the other as if they were one. A missing line end is added at the
/// end of each, and byte order marks at their beginnings are left out.
class InputFile {
 public:
  /// Opens an input; "-" is standard input. Throws Error(input_unusable) naming the path and the
  /// cure, when it is missing, unreadable, or a folder.
  static InputFile open(const std::string& path);
  static InputFile open(const std::vector<std::string>& paths);

  /// Reads up to `bytes` bytes, unpacked; 0 at the end; none when nothing came within `timeout_ms`,
  /// or a signal came. Throws Error(input_unusable) for packed data that is damaged or cut off,
  /// after all that could be unpacked, and when a regular file ends before its size at opening.
  std::optional<size_t> read(char* to, size_t bytes, int timeout_ms);
  /// Reads stored bytes as read() does, without unpacking, and without line ends added between
  /// inputs.
  std::optional<size_t> read_stored(char* to, size_t bytes, int timeout_ms);
  /// Rewinds regular files: the next read begins where the first one did.
  void rewind();
  /// Reads bytes again that read() returned from its `offset`-th on, all of one input; needs
  /// regular inputs that are not packed. Throws Error(input_unusable) when they are gone.
  void read_again(uint64_t offset, char* to, size_t bytes) const;

  /// Name of the input for messages; several names where there are several inputs.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_regular() const;
  /// True when an input is packed; known for a stream after the first read.
  [[nodiscard]] bool is_packed() const;
  [[nodiscard]] bool is_terminal() const;
  /// Stored bytes of regular files, from where reading begins, as they were when opened.
  [[nodiscard]] uint64_t size() const;

 private:
  explicit InputFile(const std::vector<std::string>& paths);
  [[nodiscard]] bool is_last() const { return at_ + 1 == inputs_.size(); }

  std::vector<OneInput> inputs_;
  std::string name_;
  /// Where an input begins: its place among the bytes that read() returns, and the bytes of its
  /// byte order mark.
  struct Start {
    uint64_t offset = 0;
    uint64_t skipped = 0;
  };
  std::vector<Start> starts_;  // of the inputs that were read so far
  uint64_t returned_ = 0;      // bytes, since the beginning
  size_t at_ = 0;              // the input that is read
  bool at_start_ = true;       // nothing of the current input has been read
  char last_ = '\n';           // the last character that was returned
};

}  // namespace plimsoll::files
