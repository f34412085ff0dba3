// The C library's functions that change files, as the programs that link this see them: the
// recorder is asked first, then the system call is made.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "recorder/disk_recorder.h"

namespace plimsoll::test {
DiskRecorder* disk_recorder();
}

namespace {

namespace fs = std::filesystem;
using plimsoll::test::disk_recorder;
using plimsoll::test::DiskAnswer;
using plimsoll::test::DiskCall;
using plimsoll::test::DiskRecorder;

fs::path path_of(int descriptor) {
  char text[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), text, sizeof text);
  return length < 0 ? fs::path() : fs::path(std::string(text, static_cast<size_t>(length)));
}

// The path of a name below an open folder, or below the working one.
fs::path path_at(int folder, const char* name) {
  std::error_code ignored;
  const fs::path path = fs::path(name).is_absolute() ? fs::path(name)
                        : folder == AT_FDCWD         ? fs::current_path(ignored) / name
                                                     : path_of(folder) / name;
  return fs::canonical(path.parent_path(), ignored) / path.filename();
}

// `make` gets the bytes that the disk takes.
template <typename Make>
auto recorded(DiskCall call, Make make) -> decltype(make(size_t{})) {
  DiskRecorder* recorder = disk_recorder();
  if (recorder == nullptr || !recorder->sees(call.path)) return make(call.bytes);
  const int before = errno;
  if (const auto answer = recorder->ask(call)) {
    if (answer->error != 0) {
      errno = answer->error;
      return -1;
    }
    call.bytes = std::min(call.bytes, answer->bytes);
  }
  errno = before;
  const auto result = make(call.bytes);
  const int after = errno;
  if (result >= 0) recorder->done(call);
  errno = after;
  return result;
}

DiskCall call_of(const char* name, int descriptor, size_t bytes = 0) {
  if (disk_recorder() == nullptr) return {.name = {}, .path = {}, .to = {}, .bytes = bytes};
  return {.name = name, .path = path_of(descriptor), .to = {}, .bytes = bytes};
}

DiskCall call_at(const char* name, int folder, const char* path) {
  if (disk_recorder() == nullptr) return {};
  return {.name = name, .path = path_at(folder, path), .to = {}, .bytes = 0};
}

int system_call(long number, auto... arguments) {
  return static_cast<int>(syscall(number, arguments...));
}

// The disk is spared: power is cut by the recorder alone. What is neither file nor folder answers
// itself.
int sync(int descriptor, long number) {
  return recorded(call_of("fsync", descriptor), [&](size_t) {
    struct stat status {};
    const bool spared =
        fstat(descriptor, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
    return spared ? 0 : system_call(number, descriptor);
  });
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const auto open_now = [&](size_t) { return system_call(SYS_openat, folder, path, flags, mode); };
  if ((flags & O_CREAT) == 0) return open_now(0);
  return recorded(call_at("open", folder, path), open_now);
}

mode_t mode_of(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

int rename_at(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  DiskCall call = call_at("rename", from_folder, from);
  if (!call.name.empty()) call.to = path_at(to_folder, to);
  return recorded(call, [&](size_t) {
    return system_call(SYS_renameat2, from_folder, from, to_folder, to, flags);
  });
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* from, size_t bytes) {
  return recorded(call_of("write", descriptor, bytes), [&](size_t taken) -> ssize_t {
    return syscall(SYS_write, descriptor, from, taken);
  });
}

ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  return recorded(call_of("write", descriptor, bytes), [&](size_t taken) -> ssize_t {
    return syscall(SYS_pwrite64, descriptor, from, taken, offset);
  });
}

int fsync(int descriptor) {
  return sync(descriptor, SYS_fsync);
}

int fdatasync(int descriptor) {
  return sync(descriptor, SYS_fdatasync);
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  return recorded(call_of("ftruncate", descriptor),
                  [&](size_t) { return system_call(SYS_ftruncate, descriptor, bytes); });
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  return recorded(call_of("fallocate", descriptor), [&](size_t) {
    return system_call(SYS_fallocate, descriptor, mode, offset, bytes);
  });
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_at(folder, path, flags, mode);
}

int fcntl(int descriptor, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);  // a number or an address; Linux takes either
  va_end(rest);
  const auto now = [&](size_t) { return system_call(SYS_fcntl, descriptor, command, argument); };
  return command == F_SETLK ? recorded(call_of("lock", descriptor), now) : now(0);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return recorded(call_at("mkdir", AT_FDCWD, path),
                  [&](size_t) { return system_call(SYS_mkdirat, AT_FDCWD, path, mode); });
}

int rename(const char* from, const char* to) noexcept {
  return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return rename_at(from_folder, from, to_folder, to, 0);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  return rename_at(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) noexcept {
  return recorded(call_at("unlink", AT_FDCWD, path),
                  [&](size_t) { return system_call(SYS_unlinkat, AT_FDCWD, path, 0); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  return recorded(call_at("unlink", folder, path),
                  [&](size_t) { return system_call(SYS_unlinkat, folder, path, flags); });
}

}  // extern "C"
