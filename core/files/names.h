// Files by name: which file a name means, and renaming and removing files durably.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll::files {

/// Text of errno.
std::string reason();

/// Device and inode, which identify a file under any name.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

/// Identity of the file that a path names, links followed; none when there is no such file.
std::optional<FileId> file_id(const std::string& path);
bool exists(const std::string& path);
bool is_folder(const std::string& path);
/// True for outputs that are written directly and never renamed: "-", a pipe, a terminal, a device.
bool is_stream(const std::string& path);
/// The path from the root; "-" and an empty path are unchanged.
std::string absolute_path(const std::string& path);
/// The folder of a path; "." for a bare name.
std::string folder_of(const std::string& path);
/// The folder for temporary files of what writes `path`: empty, which is /var/tmp, for a stream.
std::string scratch_folder_of(const std::string& path);

enum class Use : uint8_t { read, write };

/// A file that a command will touch.
struct UsedFile {
  std::string role;  // in messages: "-i", "--report", "the model's"
  std::string path;  // "-": standard input or output, by `use`
  Use use = Use::read;
};

/// Throws Error(usage) when a file that is written is also read, or written in a second role, under
/// whatever names (device and inode; for files that do not exist yet, the folder's). Character
/// devices and sockets may serve twice.
void check_distinct(const std::vector<UsedFile>& used);

/// Throws Error(output_unwritable) when the folder of a file to be written is missing or not
/// writable.
void check_folder(const std::string& path);
/// Throws Error(output_unwritable) when a file of this name cannot be made: the name is too long
/// for the file system, or is a dangling link.
void check_name(const std::string& path);

/// Whether to replace a file that has the new name already.
enum class Existing : uint8_t { refuse, replace };

/// Renames a synced file and syncs its folder. Throws Error(output_unwritable), and
/// Error(foreign_output) when `to` exists and `existing` is refuse.
void rename_file(const std::string& from, const std::string& to,
                 Existing existing = Existing::replace);
/// Throws Error(foreign_output) when `path` exists; `kept` is the place of the answers, for the
/// message.
void check_absent(const std::string& path, const std::string& kept);
/// Removes a file; a missing one is no error.
void remove_file(const std::string& path);
/// Removes a file, for destructors: a failure leaves it.
void remove_if_possible(const std::string& path) noexcept;

/// Bytes that this process may still write beside `path`.
uint64_t free_bytes_beside(const std::string& path);

}  // namespace plimsoll::files
