#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace plimsoll::checkpoint {
namespace {

// The map that this thread reads, for the handler of SIGBUS.
struct Reading {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::atomic<bool>* lost = nullptr;
};
thread_local Reading reading;
struct sigaction previous_action;
uintptr_t page_size = 4096;

// Puts zeros where the file has ended, from the failing page on, and goes on; anything that is not
// a guarded read is handled as it was before.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  if (at >= reading.begin && at < reading.end) {
    const uintptr_t page = reinterpret_cast<uintptr_t>(at) & ~(page_size - 1);
    const size_t rest = reinterpret_cast<uintptr_t>(reading.end) - page;
    reading.lost->store(true);  // first: no other thread may take the zeros for the file's
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the page's first byte, which is in the map.
    void* const zeros = mmap(reinterpret_cast<void*>(page), rest, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros != MAP_FAILED) return;
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    ::signal(signal, SIG_DFL);  // the access is repeated and ends the process
  }
}

void install_handler() {
  static const bool installed = [] {
    page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &previous_action) == 0;
  }();
  (void)installed;
}

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& why) {
  fail(ExitCode::checkpoint_unusable, "{}: {}", path.string(), why);
}

std::string reason(int error) {
  if (error == ELOOP) return "its symbolic links form a loop";
  if (error == ENOENT) return "no such file, or a symbolic link to one that is gone";
  return std::generic_category().message(error);
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  install_handler();
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse_file(path_, reason(errno));
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    const bool regular = S_ISREG(status.st_mode);
    close(descriptor);
    refuse_file(path_, regular ? "the file is empty" : "not a regular file");
  }
  size_ = static_cast<size_t>(status.st_size);
  void* const map = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  close(descriptor);
  if (map == MAP_FAILED && error == ENOMEM) {
    fail(ExitCode::does_not_fit, "{}: the system refuses {} bytes of address space (ulimit -v)",
         path_.string(), size_);
  }
  if (map == MAP_FAILED) refuse_file(path_, "cannot be mapped: " + reason(error));
  data_ = static_cast<const std::byte*>(map);
}

MappedFile::~MappedFile() {
  munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::prefault(const std::byte* from, size_t count) const {
#ifdef MADV_POPULATE_READ
  const uintptr_t page = reinterpret_cast<uintptr_t>(from) & ~(page_size - 1);
  const size_t length = reinterpret_cast<uintptr_t>(from) - page + count;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the page's first byte, which is in the map.
  (void)madvise(reinterpret_cast<void*>(page), length, MADV_POPULATE_READ);
#else
  (void)from;
  (void)count;
#endif
}

std::string MappedFile::head(size_t count) const {
  const GuardedRead guard(*this);
  std::string bytes(reinterpret_cast<const char*>(data_), std::min(count, size_));
  guard.finish();
  return bytes;
}

GuardedRead::GuardedRead(const MappedFile& file) : file_(file) {
  reading = {file.data_, file.data_ + file.size_, &file.lost_};
}

GuardedRead::~GuardedRead() {
  reading = {};
}

void GuardedRead::finish() const {
  if (!file_.lost_.load()) return;
  refuse_file(file_.path(),
              "became shorter or unreadable while it was being read; is it still being "
              "written or on a failing disk?");
}

}  // namespace plimsoll::checkpoint
