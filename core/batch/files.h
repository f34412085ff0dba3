// The one place that opens, reads, writes, syncs, renames and closes the files of a batch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.h"

namespace plimsoll::batch {

/// The reader of our output went away (EPIPE): the process ends as if SIGPIPE had killed it.
class BrokenPipe : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Device and inode: the same file, by whatever name.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

/// Of the file behind a path, links followed; none when there is no such file.
std::optional<FileId> file_id(const std::string& path);
bool exists(const std::string& path);
bool is_folder(const std::string& path);
/// Something that is written as it goes and never renamed: "-", a pipe, a terminal, a device.
bool is_stream(const std::string& path);

/// A descriptor that is closed in the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int get() const { return number_; }
  int release();

 private:
  int number_ = -1;
};

/// Input of any kind: regular file, pipe, terminal, device; "-" is standard input.
class InputFile {
 public:
  /// Throws Error(input_unusable) naming the path and the cure: missing, unreadable, a folder.
  static InputFile open(const std::string& path);

  /// Up to `bytes` bytes; 0 at the end; none when nothing came within `timeout_ms`, or a signal
  /// came.
  std::optional<size_t> read(char* to, size_t bytes, int timeout_ms);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_regular() const { return regular_; }
  [[nodiscard]] bool is_terminal() const;
  /// Of a regular file, as it was when opened.
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] FileId id() const { return id_; }

 private:
  Descriptor descriptor_;
  std::string name_;
  bool regular_ = false;
  uint64_t size_ = 0;
  FileId id_;
};

/// Something that is appended to. Every error is Error(output_unwritable) naming the path, except
/// BrokenPipe.
class OutputFile {
 public:
  /// Standard output ("-"), a pipe or a device.
  static OutputFile open_stream(const std::string& path);
  /// A working file that this process owns by a kernel lock, which ends with the process. Throws
  /// Error(locked) when another process holds it, Error(foreign_output) when it holds something
  /// already and `existing` is refuse, Error(output_unwritable) when the folder is missing or not
  /// writable.
  enum class Existing : uint8_t { refuse, replace };
  static OutputFile open_owned(const std::string& path, Existing existing);

  /// All of `bytes`: short writes, EINTR and EAGAIN are gone through.
  void append(std::string_view bytes);
  /// Bytes [offset, offset + bytes) of what was appended (not for streams).
  void read_at(uint64_t offset, char* to, size_t bytes) const;
  /// To the disk; a failure is final.
  void sync();
  void close();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Descriptor descriptor_;
  std::string path_;
};

/// Renames a synced file and syncs its folder. Throws Error(output_unwritable).
void rename_file(const std::string& from, const std::string& to);
/// Removes a file; a missing one is no error.
void remove_file(const std::string& path);
/// Likewise, for destructors: failure leaves the file.
void remove_if_possible(const std::string& path) noexcept;
/// Writes a small file whole or not at all: temporary name, sync, rename. A stream is written
/// directly.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace plimsoll::batch
