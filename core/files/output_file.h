// Files that are appended to: whole writes, or an error that names the path.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "files/descriptor.h"
#include "files/names.h"

namespace plimsoll::files {

/// The reader of our output went away (EPIPE): the process ends as if SIGPIPE had killed it.
class BrokenPipe : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file that is written. Every error is Error(output_unwritable) naming the path, except
/// BrokenPipe.
class OutputFile {
 public:
  /// Opens standard output ("-"), a pipe or a device.
  static OutputFile open_stream(const std::string& path);
  /// Opens a working file, made where it is missing, that this process owns by a kernel lock, which
  /// ends with the process; never reached through a link. Throws Error(locked) when another process
  /// holds it, Error(output_unwritable) when the folder is missing or not writable. Nothing else in
  /// this process may open and close the file: that would end the lock.
  static OutputFile open_owned(const std::string& path);

  /// Writes all of `bytes`, repeating short writes, EINTR and EAGAIN.
  void append(std::string_view bytes);
  /// Reads bytes [offset, offset + bytes) of what was appended (not for streams).
  void read_at(uint64_t offset, char* to, size_t bytes) const;
  [[nodiscard]] uint64_t size() const;
  void truncate(uint64_t bytes);
  /// True when the file system can give back space within a file.
  [[nodiscard]] bool can_punch() const;
  /// Gives the disk space of bytes [0, bytes) back; they read as zeros then.
  void punch_head(uint64_t bytes);
  /// Syncs the file to the disk; a failure is final.
  void sync();
  /// Renames the synced file; see rename_file().
  void rename(const std::string& to, Existing existing);
  [[nodiscard]] uint64_t inode() const;
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  void close();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Descriptor descriptor_;
  std::string path_;
};

/// Writes a small file whole or not at all: temporary name, sync, rename. A stream is written
/// directly.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace plimsoll::files
