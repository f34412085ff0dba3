#include "shard/output_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "files/descriptor.h"
#include "files/seam.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".plimsoll-tmp";
constexpr int kDeepest = 64;  // of folders in folders that are copied
constexpr size_t kBlock = size_t{1} << 20;
constexpr int64_t kWriteBehind = int64_t{32} << 20;

using files::allowed;

std::string temporary(const std::string& name) {
  return "." + name + std::string(kSuffix);
}

bool is_temporary(const std::string& name) {
  return name.starts_with('.') && name.ends_with(kSuffix);
}

[[noreturn]] void refuse(const fs::path& path, const char* call, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  fail(ExitCode::output_unwritable, "{}: {}: {}{}", path.string(), call,
       std::generic_category().message(error),
       full ? "; unfinished files are removed, finished ones stay, and the same command goes on"
            : "");
}

[[noreturn]] void refuse_source(const fs::path& path, const std::string& why) {
  fail(ExitCode::checkpoint_unusable, "{} cannot be copied: {}", path.string(), why);
}

files::Descriptor open_source(const fs::path& from, unsigned& mode) {
  files::Descriptor descriptor(open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) refuse_source(from, std::generic_category().message(errno));
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    refuse_source(from, "it is neither a file nor a folder");
  }
  mode = status.st_mode & 0777u;
  return descriptor;
}

// Reads a file block by block into `take`.
template <typename Take>
void read_blocks(const fs::path& from, unsigned& mode, Take take) {
  const files::Descriptor descriptor = open_source(from, mode);
  std::vector<char> block(kBlock);
  while (true) {
    const ssize_t count = read(descriptor.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_source(from, std::generic_category().message(errno));
    if (count == 0) return;
    take(block.data(), static_cast<size_t>(count));
  }
}

void sync_path(const fs::path& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) refuse(path, "open", errno);
  const bool synced = files::fsync(descriptor) == 0;
  const int error = errno;
  close(descriptor);
  if (!synced) refuse(path, "fsync", error);
}

void check_depth(const fs::path& from, int depth) {
  if (depth > kDeepest)
    refuse_source(from, "its folders are nested too deep; do links form a loop?");
}

// Everything in `from` into the fresh folder `to`.
void copy_tree(const fs::path& from, const fs::path& to, int depth) {
  check_depth(from, depth);
  if (!allowed("mkdir") || mkdir(to.c_str(), 0777) != 0) refuse(to, "mkdir", errno);
  std::error_code error;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    const fs::path target = to / at->path().filename();
    std::error_code ignored;
    if (fs::is_directory(at->path(), ignored)) {
      copy_tree(at->path(), target, depth + 1);
      continue;
    }
    const int descriptor = open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) refuse(target, "open", errno);
    struct Closer {
      int number;
      ~Closer() { close(number); }
    } const closer{descriptor};
    unsigned mode = 0;
    read_blocks(at->path(), mode, [&](const char* bytes, size_t count) {
      while (count > 0) {
        const ssize_t written = files::write(descriptor, bytes, count);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) refuse(target, "write", errno);
        bytes += written;
        count -= static_cast<size_t>(written);
      }
    });
    if (fchmod(descriptor, mode) != 0) refuse(target, "chmod", errno);
    if (files::fsync(descriptor) != 0) refuse(target, "fsync", errno);
  }
  if (error) refuse_source(from, error.message());
  sync_path(to, O_RDONLY | O_DIRECTORY);
}

}  // namespace

// ---- the folder ----

void check_apart(const fs::path& source, const fs::path& output, std::string_view what) {
  std::error_code error;
  const fs::path from = fs::weakly_canonical(source, error);
  const fs::path place = fs::weakly_canonical(output, error);
  if (error) fail(ExitCode::output_unwritable, "{}: {}", output.string(), error.message());
  const auto [rest, end] = std::ranges::mismatch(from, place);
  if (rest != from.end()) return;
  fail(ExitCode::foreign_output, "{} {}; {} is never written to: choose another folder",
       output.string(),
       place == from ? fmt::format("is {}", what)
                     : fmt::format("lies in {}, {}", what, from.string()),
       what);
}

void check_copyable(const fs::path& from, int depth) {
  check_depth(from, depth);
  std::error_code error;
  if (!fs::is_directory(from, error)) {
    unsigned mode = 0;
    (void)open_source(from, mode);
    return;
  }
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error))
    check_copyable(at->path(), depth + 1);
  if (error) refuse_source(from, error.message());
}

bool check_place(const fs::path& output) {
  std::error_code error;
  if (fs::is_directory(output, error)) return true;
  if (fs::exists(output, error)) {
    fail(ExitCode::output_unwritable, "{}: is a file; the output is a folder", output.string());
  }
  fs::path place = fs::absolute(output, error);
  if (!place.has_filename()) place = place.parent_path();  // of "new/"
  if (fs::is_symlink(place, error)) {
    fail(ExitCode::output_unwritable, "{}: is a link to {}, which is missing; make it first",
         output.string(), fs::read_symlink(place, error).string());
  }
  if (!fs::is_directory(place.parent_path(), error)) {
    fail(ExitCode::output_unwritable, "{}: its parent folder is missing; make it first",
         output.string());
  }
  return false;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!is_temporary(name)) names.push_back(std::move(name));
  }
  if (error) refuse(folder, "readdir", error.value());
  std::ranges::sort(names);
  return names;
}

OutputFolder::OutputFolder(const fs::path& path) {
  (void)check_place(path);
  const bool tried = allowed("mkdir");
  made_ = tried && mkdir(path.c_str(), 0777) == 0;
  if (!made_ && (!tried || errno != EEXIST)) {
    refuse(path, "mkdir", errno);
  }
  descriptor_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) refuse(path, "open", errno);
  // Some network file systems have no locks on folders; there the user must see to it.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor_);
    fail(ExitCode::locked, "{}: another process is writing to it; wait for its end", path.string());
  }
  std::error_code error;
  path_ = fs::canonical(path, error);
  if (error) path_ = path;
}

OutputFolder::~OutputFolder() {
  if (made_) rmdir(path_.c_str());  // a folder that holds something stays
  close(descriptor_);
}

bool OutputFolder::is_file(const std::string& name) const {
  struct stat status {};
  return fstatat(descriptor_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode);
}

uint64_t OutputFolder::free_bytes() const {
  struct statvfs status {};
  if (fstatvfs(descriptor_, &status) != 0) refuse(path_, "statvfs", errno);
  return uint64_t{status.f_bavail} * status.f_frsize;
}

void OutputFolder::write_file(const std::string& name, const std::string& text) {
  TemporaryFile file(*this, name, 0);
  file.write(text.data(), text.size());
  file.finish();
  file.publish();
}

void OutputFolder::copy(const fs::path& from, const std::string& name) {
  std::error_code ignored;
  if (fs::is_directory(from, ignored)) {
    // A folder cannot be replaced at once; ours is there only when it is whole.
    if (fs::exists(fs::symlink_status(path_ / name, ignored))) return;
    copy_tree(from, path_ / temporary(name), 0);
    publish(name);
    return;
  }
  TemporaryFile file(*this, name, 0);
  unsigned mode = 0;
  read_blocks(from, mode, [&](const char* bytes, size_t count) { file.write(bytes, count); });
  file.set_mode(mode);
  file.finish();
  file.publish();
}

void OutputFolder::publish(const std::string& name) {
  if (!allowed("rename") ||
      renameat(descriptor_, temporary(name).c_str(), descriptor_, name.c_str()) != 0) {
    refuse(path_ / name, "rename", errno);
  }
  sync();
}

void OutputFolder::remove(const std::string& name) {
  if (!allowed("unlink") || (unlinkat(descriptor_, name.c_str(), 0) != 0 && errno != ENOENT)) {
    refuse(path_ / name, "unlink", errno);
  }
}

void OutputFolder::remove_temporaries() {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    if (is_temporary(at->path().filename().string())) found.push_back(at->path());
  }
  for (const fs::path& path : found) {
    if (!error && allowed("unlink")) fs::remove_all(path, error);  // links are not followed
  }
  if (error) refuse(path_, "cannot be cleared of temporary files", error.value());
}

void OutputFolder::sync() {
  if (files::fsync(descriptor_) != 0) refuse(path_, "fsync", errno);
}

// ---- a file ----

TemporaryFile::TemporaryFile(OutputFolder& folder, std::string name, int64_t bytes)
    : folder_(&folder), name_(std::move(name)) {
  const std::string path = temporary(name_);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  if (allowed("open")) descriptor_ = openat(folder.descriptor_, path.c_str(), kFlags, 0666);
  if (descriptor_ < 0) refuse("open", errno);
  if (bytes <= 0) return;
  reserve(bytes);
  set_direct();
}

void TemporaryFile::reserve(int64_t bytes) {
  const bool reserved = files::reserve(descriptor_, bytes) == 0;
  const int error = reserved ? 0 : errno;  // file systems that cannot do it say EOPNOTSUPP
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    close(descriptor_);
    unlinkat(folder_->descriptor_, temporary(name_).c_str(), 0);
    refuse("fallocate", error);
  }
}

// Sets O_DIRECT where the file system has it; one in memory, say, has no cache to go past.
void TemporaryFile::set_direct() {
  const int flags = fcntl(descriptor_, F_GETFL);
  direct_ = flags >= 0 && fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0;
}

void TemporaryFile::leave_direct() {
  direct_ = false;
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) & ~O_DIRECT);
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : folder_(other.folder_),
      name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      started_(other.started_),
      direct_(other.direct_),
      published_(std::exchange(other.published_, true)) {}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!published_) unlinkat(folder_->descriptor_, temporary(name_).c_str(), 0);
}

void TemporaryFile::write(const void* bytes, size_t count) {
  const char* from = static_cast<const char*>(bytes);
  const bool whole = count % kDirectBlock == 0 && written_ % int64_t{kDirectBlock} == 0 &&
                     reinterpret_cast<uintptr_t>(from) % kDirectBlock == 0;
  if (direct_ && !whole) leave_direct();
  while (count > 0) {
    const ssize_t now = allowed("write") ? pwrite(descriptor_, from, count, written_) : -1;
    if (now < 0 && errno == EINTR) continue;
    if (now < 0 && errno == EINVAL && direct_) {  // a disk of larger blocks
      leave_direct();
      continue;
    }
    if (now < 0) refuse("write", errno);
    from += now;
    written_ += now;
    count -= static_cast<size_t>(now);
  }
  if (direct_ || written_ - started_ < kWriteBehind) return;
  // Writing to the disk goes on beside the work, so that the last fsync is short.
  sync_file_range(descriptor_, started_, written_ - started_, SYNC_FILE_RANGE_WRITE);
  started_ = written_;
}

void TemporaryFile::set_mode(unsigned mode) {
  if (fchmod(descriptor_, mode) != 0) refuse("chmod", errno);
}

void TemporaryFile::finish() {
  if (files::fsync(descriptor_) != 0) refuse("fsync", errno);
  if (close(std::exchange(descriptor_, -1)) != 0) refuse("close", errno);
}

void TemporaryFile::publish() {
  folder_->publish(name_);
  published_ = true;
}

void TemporaryFile::refuse(const char* call, int error) const {
  shard::refuse(folder_->path_ / name_, call, error);
}

}  // namespace plimsoll::shard
