#include "files/seam.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace plimsoll::files {
namespace {

IoFault io_fault = nullptr;

int fault_of(const char* call) {
  return io_fault == nullptr ? 0 : io_fault(call);
}

}  // namespace

void set_io_fault(IoFault fault) {
  io_fault = fault;
}

bool allowed(const char* call) {
  const int error = std::max(0, fault_of(call));
  errno = error;
  return error == 0;
}

int open_to_write(const char* path, int flags) {
  return allowed("open") ? ::open(path, flags | O_CLOEXEC, 0666) : -1;
}

ssize_t write(int descriptor, const char* bytes, size_t count) {
  const int fault = fault_of("write");
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  return ::write(descriptor, bytes, fault == kShortWrite ? std::min<size_t>(count, 1) : count);
}

int fsync(int descriptor) {
  return allowed("fsync") ? ::fsync(descriptor) : -1;
}

int close(int descriptor) {
  // The descriptor is gone whatever close says.
  const int closed = ::close(descriptor);
  return allowed("close") ? closed : -1;
}

int unlink(const char* path) {
  return allowed("unlink") ? ::unlink(path) : -1;
}

int ftruncate(int descriptor, off_t length) {
  return allowed("ftruncate") ? ::ftruncate(descriptor, length) : -1;
}

int reserve(int descriptor, off_t length) {
  return allowed("fallocate") ? ::fallocate(descriptor, 0, 0, length) : -1;
}

int punch(int descriptor, off_t from, off_t length) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  return allowed("fallocate") ? ::fallocate(descriptor, kPunch, from, length) : -1;
}

int rename_new(const char* from, const char* to) {
  if (!allowed("rename")) return -1;
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  // File systems without the flag (some network ones) look first and rename then, which is nearly
  // as safe.
  if (errno != EINVAL && errno != ENOSYS) return -1;
  struct stat found {};
  if (lstat(to, &found) == 0) {
    errno = EEXIST;
    return -1;
  }
  return std::rename(from, to);
}

int rename_over(const char* from, const char* to) {
  return allowed("rename") ? std::rename(from, to) : -1;
}

}  // namespace plimsoll::files
