// Records the calls by which this process changes a folder on the disk. Linked into a test program,
// it stands before the C library's write, fsync, rename and their like. It reports what a power cut
// could take, which killing a process never shows, and answers calls in the disk's place.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::test {

struct DiskCall {
  /// "write" (pwrite, too), "fsync" (fdatasync, too), "rename", "unlink", "lock", ...
  std::string name;
  std::filesystem::path path;  // what is written, synced, renamed or removed
  std::filesystem::path to;    // of a rename
  size_t bytes = 0;            // of a write
};

/// An answer of the disk that does not do all of a call.
struct DiskAnswer {
  int error = 0;     // errno; 0: only `bytes` of a write are taken
  size_t bytes = 0;  // at least 1
};

/// The recorder of this process, one at a time; records what lies below `folder` while it lives, in
/// all threads.
class DiskRecorder {
 public:
  explicit DiskRecorder(const std::filesystem::path& folder);
  ~DiskRecorder();
  DiskRecorder(const DiskRecorder&) = delete;
  DiskRecorder& operator=(const DiskRecorder&) = delete;

  /// Asked before each call, in the thread that makes it; none: the call is made.
  using Disk = std::function<std::optional<DiskAnswer>(const DiskCall&)>;
  void answer_with(Disk disk) { disk_ = std::move(disk); }

  [[nodiscard]] std::vector<DiskCall> calls(const std::string& name) const;
  /// Data that a power cut could have taken although it counted as done, a line each: names that
  /// were given before the bytes behind them were synced, and renames that no sync of their folder
  /// followed before the next rename or removal there, or before now.
  [[nodiscard]] std::vector<std::string> losses() const;

  // Functions for the calls that stand before the C library's.
  [[nodiscard]] bool sees(const std::filesystem::path& path) const;
  [[nodiscard]] std::optional<DiskAnswer> ask(const DiskCall& call);
  void done(const DiskCall& call);

 private:
  enum class Unsynced : uint8_t { bytes, names, renames };  // of a file; of a folder

  void on_rename(const DiskCall& call);
  void check_renames(const std::filesystem::path& folder, const DiskCall& call);

  std::filesystem::path folder_;
  Disk disk_;
  mutable std::mutex mutex_;
  std::vector<DiskCall> calls_;
  std::map<std::filesystem::path, Unsynced> unsynced_;
  std::vector<std::string> losses_;
};

}  // namespace plimsoll::test
