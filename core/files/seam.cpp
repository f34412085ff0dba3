#include "files/seam.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>

namespace plimsoll::files {
namespace {

IoFault io_fault = nullptr;
size_t most_page_bytes = SIZE_MAX;

int fault_of(const char* call) {
  return io_fault == nullptr ? 0 : io_fault(call);
}

// How many of `count` bytes a write may take; -1 with errno set: it fails.
ssize_t writable(size_t count) {
  const int fault = fault_of("write");
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  return static_cast<ssize_t>(fault == kShortWrite ? std::min<size_t>(count, 1) : count);
}

}  // namespace

void set_io_fault(IoFault fault) {
  io_fault = fault;
}

void set_page_bound(size_t most_bytes) {
  most_page_bytes = most_bytes;
}

size_t page_bound() {
  return most_page_bytes;
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
  const ssize_t some = writable(count);
  return some < 0 ? -1 : ::write(descriptor, bytes, static_cast<size_t>(some));
}

ssize_t write_at(int descriptor, const void* bytes, size_t count, off_t offset) {
  const ssize_t some = writable(count);
  return some < 0 ? -1 : ::pwrite(descriptor, bytes, static_cast<size_t>(some), offset);
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
