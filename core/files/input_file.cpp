#include "files/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace plimsoll::files {

InputFile InputFile::open(const std::string& path) {
  InputFile file;
  file.name_ = path == "-" ? "standard input" : path;
  const int number = path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  file.descriptor_ = Descriptor(number);
  struct stat found {};
  if (number < 0 || fstat(number, &found) != 0) {
    fail(ExitCode::input_unusable, "{}: cannot be read: {}", file.name_, std::strerror(errno));
  }
  if (S_ISDIR(found.st_mode)) {
    fail(ExitCode::input_unusable,
         "{}: is a folder; -i takes a JSONL file, or - for standard input", file.name_);
  }
  file.regular_ = S_ISREG(found.st_mode);
  if (!file.regular_) return file;
  const off_t start = lseek(number, 0, SEEK_CUR);
  file.start_ = file.position_ = start < 0 ? 0 : static_cast<uint64_t>(start);
  const auto whole = static_cast<uint64_t>(found.st_size);
  file.size_ = whole - std::min(whole, file.start_);
  return file;
}

bool InputFile::is_terminal() const {
  return isatty(descriptor_.get()) == 1;
}

std::optional<size_t> InputFile::read(char* to, size_t bytes, int timeout_ms) {
  ssize_t got = 0;
  if (regular_) {
    got = pread(descriptor_.get(), to, bytes, static_cast<off_t>(position_));
    if (got > 0) position_ += static_cast<uint64_t>(got);
  } else {
    pollfd wait{descriptor_.get(), POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) <= 0) return std::nullopt;
    got = ::read(descriptor_.get(), to, bytes);
  }
  if (got >= 0) return static_cast<size_t>(got);
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
  fail(ExitCode::input_unusable, "{}: cannot be read: {}", name_, std::strerror(errno));
}

}  // namespace plimsoll::files
