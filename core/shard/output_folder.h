// The folder that shards are written to: owned by one process, whole files only, links replaced and
// never written through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::shard {

/// Throws Error(foreign_output) where `output` is `source` or lies in it; `what` names it in the
/// message ("the source").
void check_apart(const std::filesystem::path& source, const std::filesystem::path& output,
                 std::string_view what);

/// True where the folder `output` is there, false where it can be made: its parent is there. Throws
/// Error(output_unwritable) for anything else.
bool check_place(const std::filesystem::path& output);

/// Names of all entries of a folder but temporary ones, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Throws Error(checkpoint_unusable) where copying would fail: a link without its file, a file that
/// may not be read, neither file nor folder, folders nested too deep. `depth`: folders above
/// `from`.
void check_copyable(const std::filesystem::path& from, int depth = 0);

class OutputFolder {
 public:
  /// Makes the folder where it is missing (its parent must be there) and locks it until the end of
  /// this object. Throws Error(locked) when another process has it, Error(output_unwritable).
  explicit OutputFolder(const std::filesystem::path& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Names of all entries but temporary ones, sorted.
  [[nodiscard]] std::vector<std::string> names() const { return names_in(path_); }
  [[nodiscard]] bool is_file(const std::string& name) const;  // no link
  [[nodiscard]] uint64_t free_bytes() const;

  /// Writes a small file, whole or not at all.
  void write_file(const std::string& name, const std::string& text);
  /// Copies a file with its permissions, or a folder with all that is in it; links are followed.
  void copy(const std::filesystem::path& from, const std::string& name);
  /// Renames the synced temporary entry of this name to its final name, then syncs the folder.
  void publish(const std::string& name);
  void remove(const std::string& name);
  /// Removes temporary entries that an interrupted process left.
  void remove_temporaries();

 private:
  friend class TemporaryFile;
  void sync();

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool made_ = false;  // the folder is new
};

/// Alignment in bytes, in memory and file, of blocks that can go to the disk directly.
inline constexpr size_t kDirectBlock = 4096;

/// A file that is being written, under a temporary name; removed unless it was published.
class TemporaryFile {
 public:
  /// Makes the temporary file of the final name `name` and reserves `bytes` of disk where the file
  /// system can. A file whose size is given bypasses the page cache where the file system can, as
  /// long as it is written in whole blocks (kDirectBlock).
  TemporaryFile(OutputFolder& folder, std::string name, int64_t bytes);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(const void* bytes, size_t count);
  void set_mode(unsigned mode);
  /// Syncs the file to the disk and closes it. Throws Error(output_unwritable).
  void finish();
  /// Gives the file its final name; finish() must have been called.
  void publish();

 private:
  [[noreturn]] void refuse(const char* call, int error) const;
  void reserve(int64_t bytes);
  void set_direct();
  void leave_direct();

  OutputFolder* folder_;
  std::string name_;
  int descriptor_ = -1;
  int64_t written_ = 0;
  int64_t started_ = 0;  // bytes whose way to the disk has begun
  bool direct_ = false;
  bool published_ = false;
};

}  // namespace plimsoll::shard
