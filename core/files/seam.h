// System calls that change the disk, each through a seam at which tests let one of them fail.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace plimsoll::files {

/// A function of tests that is asked before every call that changes the disk, with the call's name:
/// "open", "write", "fsync", "close", "rename", "unlink", "ftruncate", "fallocate", "mkdir".
/// Returns 0 to let it happen, kShortWrite to let a write take one byte alone, or the errno that
/// the call fails with.
using IoFault = int (*)(const char* call);
inline constexpr int kShortWrite = -1;
/// Sets that function; null: no call fails.
void set_io_fault(IoFault fault);

/// Bytes of pages that each PagedBytes has in memory at most, whatever it is allowed. For tests.
void set_page_bound(size_t most_bytes);
size_t page_bound();

/// False, with errno set, when the seam wants the call to fail.
bool allowed(const char* call);

// System calls of these names, through the seam: -1 with errno set when they fail.
int open_to_write(const char* path, int flags);  // files are made with mode 0666
ssize_t write(int descriptor, const char* bytes, size_t count);
ssize_t write_at(int descriptor, const void* bytes, size_t count, off_t offset);
int fsync(int descriptor);
int close(int descriptor);
int unlink(const char* path);
int ftruncate(int descriptor, off_t length);
/// Reserves the first `length` bytes of a file.
int reserve(int descriptor, off_t length);
/// Gives bytes within a file back to the file system; they read as zeros.
int punch(int descriptor, off_t from, off_t length);
/// Renames a file that must be new; fails with EEXIST when `to` exists, where the file system can
/// tell in one step.
int rename_new(const char* from, const char* to);
int rename_over(const char* from, const char* to);

}  // namespace plimsoll::files
