#include "files/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "files/seam.h"

namespace plimsoll::files {
namespace {

[[noreturn]] void cannot_create(const std::string& path) {
  const int cause = errno;
  if (cause == ENOENT) check_folder(path);
  fail(ExitCode::output_unwritable, "{}: cannot be written: {}", path, std::strerror(cause));
}

// Takes the write lock of a whole file, or says who has it.
void lock(int descriptor, const std::string& path) {
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  // File systems without locks (some network ones): go on; nobody else could lock either.
  const bool locked = fcntl(descriptor, F_SETLK, &wanted) == 0;
  if (locked || (errno != EACCES && errno != EAGAIN)) return;
  if (fcntl(descriptor, F_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK) {
    fail(ExitCode::locked, "{}: another process (pid {}) is writing it; wait for it to end", path,
         wanted.l_pid);
  }
  fail(ExitCode::locked, "{}: another process is writing it; wait for it to end", path);
}

}  // namespace

OutputFile OutputFile::open_stream(const std::string& path) {
  OutputFile file;
  file.path_ = path == "-" ? "standard output" : path;
  const int number = path == "-" ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                 : open_to_write(path.c_str(), O_WRONLY);
  if (number < 0) cannot_create(file.path_);
  file.descriptor_ = Descriptor(number);
  return file;
}

OutputFile OutputFile::open_owned(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  while (true) {
    const int number = open_to_write(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
    if (number < 0) cannot_create(path);
    file.descriptor_ = Descriptor(number);
    lock(number, path);
    // Another process may have renamed or removed the file between our open and our lock.
    struct stat found {};
    if (fstat(number, &found) != 0) cannot_create(path);
    if (file_id(path) != FileId{found.st_dev, found.st_ino}) continue;
    if (!S_ISREG(found.st_mode)) fail(ExitCode::output_unwritable, "{}: not a regular file", path);
    return file;
  }
}

void OutputFile::append(std::string_view bytes) {
  const size_t wanted = bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = files::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      pollfd wait{descriptor_.get(), POLLOUT, 0};
      poll(&wait, 1, -1);
      continue;
    }
    if (errno == EPIPE) throw BrokenPipe(path_ + ": the reader has closed the pipe");
    fail(ExitCode::output_unwritable, "{}: {} bytes could not be written: {}", path_, wanted,
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

uint64_t OutputFile::size() const {
  struct stat found {};
  if (fstat(descriptor_.get(), &found) == 0) return static_cast<uint64_t>(found.st_size);
  fail(ExitCode::output_unwritable, "{}: cannot be looked at: {}", path_, reason());
}

void OutputFile::truncate(uint64_t bytes) {
  if (ftruncate(descriptor_.get(), static_cast<off_t>(bytes)) == 0) return;
  fail(ExitCode::output_unwritable, "{}: cannot be cut to {} bytes: {}", path_, bytes, reason());
}

bool OutputFile::can_punch() const {
  // The hole is punched behind the end, where there is nothing to lose.
  return punch(descriptor_.get(), static_cast<off_t>(size()), 1) == 0;
}

void OutputFile::punch_head(uint64_t bytes) {
  if (bytes == 0 || punch(descriptor_.get(), 0, static_cast<off_t>(bytes)) == 0) return;
  fail(ExitCode::output_unwritable, "{}: {} bytes cannot be given back: {}", path_, bytes,
       reason());
}

void OutputFile::sync() {
  // Pipes and terminals cannot be synced.
  if (files::fsync(descriptor_.get()) == 0 || errno == EINVAL || errno == EROFS ||
      errno == ENOTSUP) {
    return;
  }
  fail(ExitCode::output_unwritable, "{}: not safely on the disk: {}", path_, reason());
}

void OutputFile::rename(const std::string& to, Existing existing) {
  rename_file(path_, to, existing);
  path_ = to;
}

uint64_t OutputFile::inode() const {
  struct stat found {};
  return fstat(descriptor_.get(), &found) == 0 ? found.st_ino : 0;
}

void OutputFile::close() {
  if (descriptor_.get() < 0 || files::close(descriptor_.release()) == 0 || errno == EINTR) return;
  fail(ExitCode::output_unwritable, "{}: not safely on the disk: {}", path_, reason());
}

void write_file(const std::string& path, std::string_view bytes) {
  if (is_stream(path)) {
    OutputFile file = OutputFile::open_stream(path);
    file.append(bytes);
    file.close();
    return;
  }
  const std::string temporary = path + ".part";
  OutputFile file = OutputFile::open_owned(temporary);
  try {
    file.truncate(0);
    file.append(bytes);
    file.sync();
    rename_file(temporary, path);
  } catch (const Error&) {
    remove_if_possible(temporary);
    throw;
  }
  file.close();
}

}  // namespace plimsoll::files
