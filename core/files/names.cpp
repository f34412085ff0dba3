#include "files/names.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "files/descriptor.h"
#include "files/seam.h"

namespace plimsoll::files {
std::string reason() {
  return std::strerror(errno);
}

namespace {

bool describe(const UsedFile& file, struct stat& found) {
  if (file.path != "-") return stat(file.path.c_str(), &found) == 0;
  return fstat(file.use == Use::read ? STDIN_FILENO : STDOUT_FILENO, &found) == 0;
}

// Identity of a file: the file itself where it exists, else its folder and name.
struct Place {
  std::optional<FileId> file;
  std::optional<FileId> folder;
  std::string name;
};

// The identity of a file; nullopt for files that may be read and written at once: terminals,
// /dev/null, sockets.
std::optional<Place> place_of(const UsedFile& file) {
  struct stat found {};
  Place place;
  if (describe(file, found)) {
    if (S_ISCHR(found.st_mode) || S_ISSOCK(found.st_mode)) return std::nullopt;
    place.file = FileId{found.st_dev, found.st_ino};
    return place;
  }
  place.folder = file_id(folder_of(file.path));
  place.name = std::filesystem::path(file.path).filename().string();
  return place;
}

bool same(const Place& a, const Place& b) {
  if (a.file || b.file) return a.file == b.file;
  return a.folder && a.folder == b.folder && a.name == b.name;
}

void sync_folder(const std::string& path) {
  const Descriptor folder(open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || (fsync(folder.get()) != 0 && errno != EINVAL)) {
    fail(ExitCode::output_unwritable, "{}: its folder cannot be synced: {}", path, reason());
  }
}

}  // namespace

std::optional<FileId> file_id(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileId{found.st_dev, found.st_ino};
}

bool exists(const std::string& path) {
  return file_id(path).has_value();
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_stream(const std::string& path) {
  if (path == "-") return true;
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode);
}

std::string absolute_path(const std::string& path) {
  std::error_code ignored;
  return path.empty() || path == "-" ? path : std::filesystem::absolute(path, ignored).string();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string scratch_folder_of(const std::string& path) {
  return is_stream(path) ? "" : folder_of(path);
}

void check_distinct(const std::vector<UsedFile>& used) {
  std::vector<std::optional<Place>> places;
  for (const UsedFile& file : used) places.push_back(place_of(file));
  for (size_t b = 0; b < used.size(); ++b) {
    if (used[b].use == Use::read || !places[b]) continue;
    for (size_t a = 0; a < used.size(); ++a) {
      // When both files are written, the message blames the later one.
      if (a == b || (a > b && used[a].use == Use::write)) continue;
      if (!places[a] || !same(*places[a], *places[b])) continue;
      fail(ExitCode::usage, "{} {}: is the file of {} too; give them different files", used[b].role,
           used[b].path, used[a].role);
    }
  }
}

void check_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  if (!is_folder(folder)) {
    fail(ExitCode::output_unwritable, "{}: the folder {} does not exist; make it first (mkdir -p)",
         path, folder);
  }
  if (is_folder(path)) fail(ExitCode::output_unwritable, "{}: is a folder; a file is wanted", path);
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(ExitCode::output_unwritable, "{}: its folder cannot be written to: {}", path, reason());
  }
}

void check_name(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    if (errno != ENAMETOOLONG) return;
    fail(ExitCode::output_unwritable, "{}: {}; choose a shorter name", path, reason());
  }
  if (!S_ISLNK(found.st_mode) || exists(path)) return;
  fail(ExitCode::output_unwritable,
       "{}: is a link to a file that is not there; give that file's name", path);
}

void check_absent(const std::string& path, const std::string& kept) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return;
  fail(ExitCode::foreign_output,
       "{}: appeared while the run went on and is left alone; the answers are in {}: move {} away, "
       "and the same command goes on",
       path, kept, path);
}

void rename_file(const std::string& from, const std::string& to, Existing existing) {
  const auto rename = existing == Existing::refuse ? rename_new : rename_over;
  if (rename(from.c_str(), to.c_str()) != 0) {
    const int cause = errno;
    if (cause == EEXIST) check_absent(to, from);
    errno = cause;
    fail(ExitCode::output_unwritable, "{}: cannot be renamed to {}: {}", from, to, reason());
  }
  sync_folder(to);
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return;
  fail(ExitCode::output_unwritable, "{}: cannot be removed: {}", path, reason());
}

void remove_if_possible(const std::string& path) noexcept {
  ::unlink(path.c_str());
}

uint64_t free_bytes_beside(const std::string& path) {
  struct statvfs status {};
  if (statvfs(folder_of(path).c_str(), &status) != 0) {
    fail(ExitCode::output_unwritable, "{}: its file system tells no free space: {}", path,
         reason());
  }
  return uint64_t{status.f_bavail} * status.f_frsize;
}

}  // namespace plimsoll::files
