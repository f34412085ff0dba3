#include "batch/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace plimsoll::batch {
namespace {

std::string reason() {
  return std::strerror(errno);
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

[[noreturn]] void cannot_create(const std::string& path) {
  const int cause = errno;
  const std::string folder = folder_of(path);
  if (cause == ENOENT && !exists(folder)) {
    fail(ExitCode::output_unwritable, "{}: the folder {} does not exist; make it first (mkdir -p)",
         path, folder);
  }
  fail(ExitCode::output_unwritable, "{}: cannot be written: {}", path, std::strerror(cause));
}

// Takes the write lock of a whole file, or says who has it.
void lock(int descriptor, const std::string& path) {
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  if (fcntl(descriptor, F_SETLK, &wanted) == 0) return;
  // File systems without locks (some network ones): go on; nobody else could lock either.
  if (errno != EACCES && errno != EAGAIN) return;
  if (fcntl(descriptor, F_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK) {
    fail(ExitCode::locked, "{}: another process (pid {}) is writing it; wait for it to end", path,
         wanted.l_pid);
  }
  fail(ExitCode::locked, "{}: another process is writing it; wait for it to end", path);
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

// ---- Descriptor ----

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (number_ >= 0) close(number_);
    number_ = other.release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

int Descriptor::release() {
  const int number = number_;
  number_ = -1;
  return number;
}

// ---- InputFile ----

InputFile InputFile::open(const std::string& path) {
  InputFile file;
  file.name_ = path == "-" ? "standard input" : path;
  const int number = path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number < 0) fail(ExitCode::input_unusable, "{}: cannot be read: {}", file.name_, reason());
  file.descriptor_ = Descriptor(number);
  struct stat found {};
  if (fstat(number, &found) != 0) {
    fail(ExitCode::input_unusable, "{}: cannot be read: {}", file.name_, reason());
  }
  if (S_ISDIR(found.st_mode)) {
    fail(ExitCode::input_unusable,
         "{}: is a folder; -i takes a JSONL file, or - for standard input", file.name_);
  }
  file.regular_ = S_ISREG(found.st_mode);
  file.size_ = file.regular_ ? static_cast<uint64_t>(found.st_size) : 0;
  file.id_ = {found.st_dev, found.st_ino};
  return file;
}

bool InputFile::is_terminal() const {
  return isatty(descriptor_.get()) == 1;
}

std::optional<size_t> InputFile::read(char* to, size_t bytes, int timeout_ms) {
  if (!regular_) {
    pollfd wait{descriptor_.get(), POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) <= 0) return std::nullopt;
  }
  const ssize_t got = ::read(descriptor_.get(), to, bytes);
  if (got >= 0) return static_cast<size_t>(got);
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
  fail(ExitCode::input_unusable, "{}: cannot be read: {}", name_, reason());
}

// ---- OutputFile ----

OutputFile OutputFile::open_stream(const std::string& path) {
  OutputFile file;
  file.path_ = path == "-" ? "standard output" : path;
  const int number = path == "-" ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                 : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (number < 0) cannot_create(file.path_);
  file.descriptor_ = Descriptor(number);
  return file;
}

OutputFile OutputFile::open_owned(const std::string& path, Existing existing) {
  OutputFile file;
  file.path_ = path;
  while (true) {
    const int number =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (number < 0) cannot_create(path);
    file.descriptor_ = Descriptor(number);
    lock(number, path);
    // Another process may have renamed or removed the file between our open and our lock.
    struct stat found {};
    if (fstat(number, &found) != 0) cannot_create(path);
    if (file_id(path) != FileId{found.st_dev, found.st_ino}) continue;
    if (!S_ISREG(found.st_mode)) fail(ExitCode::output_unwritable, "{}: not a regular file", path);
    if (found.st_size > 0 && existing == Existing::refuse) {
      fail(ExitCode::foreign_output,
           "{}: holds the finished lines of an earlier run that did not end; keep it elsewhere, or "
           "start anew with --overwrite",
           path);
    }
    if (ftruncate(number, 0) != 0) cannot_create(path);
    return file;
  }
}

void OutputFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{descriptor_.get(), POLLOUT, 0};
      poll(&wait, 1, -1);
      continue;
    }
    if (errno == EPIPE) throw BrokenPipe(path_ + ": the reader has closed the pipe");
    fail(ExitCode::output_unwritable, "{}: {} bytes could not be written: {}", path_, bytes.size(),
         reason());
  }
}

void OutputFile::read_at(uint64_t offset, char* to, size_t bytes) const {
  while (bytes > 0) {
    const ssize_t got = pread(descriptor_.get(), to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      fail(ExitCode::output_unwritable, "{}: cannot be read back at byte {}: {}", path_, offset,
           got == 0 ? "it ends there" : reason());
    }
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
}

void OutputFile::sync() {
  // Pipes and terminals cannot be synced.
  if (fsync(descriptor_.get()) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP)
    return;
  fail(ExitCode::output_unwritable, "{}: not safely on the disk: {}", path_, reason());
}

void OutputFile::close() {
  if (descriptor_.get() < 0 || ::close(descriptor_.release()) == 0 || errno == EINTR) return;
  fail(ExitCode::output_unwritable, "{}: not safely on the disk: {}", path_, reason());
}

// ---- names ----

void rename_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    fail(ExitCode::output_unwritable, "{}: cannot be renamed to {}: {}", from, to, reason());
  }
  sync_folder(to);
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return;
  fail(ExitCode::output_unwritable, "{}: cannot be removed: {}", path, reason());
}

void remove_if_possible(const std::string& path) noexcept {
  unlink(path.c_str());
}

void write_file(const std::string& path, std::string_view bytes) {
  if (is_stream(path)) {
    OutputFile file = OutputFile::open_stream(path);
    file.append(bytes);
    file.close();
    return;
  }
  const std::string temporary = path + ".part";
  OutputFile file = OutputFile::open_owned(temporary, OutputFile::Existing::replace);
  file.append(bytes);
  file.sync();
  rename_file(temporary, path);
  file.close();
}

}  // namespace plimsoll::batch
