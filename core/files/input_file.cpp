#include "files/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace plimsoll::files {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kReadBytes = size_t{64} << 10;

}  // namespace

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

void InputFile::rewind() {
  position_ = start_;
  stored_.clear();
  at_ = 0;
  sniffed_ = ended_ = false;
}

std::optional<size_t> InputFile::read_stored(char* to, size_t bytes, int timeout_ms) {
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

// Looks at the first bytes; false when they have not come yet.
bool InputFile::sniff(int timeout_ms) {
  while (!ended_ && stored_.size() < kMagicBytes) {
    const size_t before = stored_.size();
    stored_.resize(before + kReadBytes);
    const auto got = read_stored(stored_.data() + before, kReadBytes, timeout_ms);
    stored_.resize(before + got.value_or(0));
    if (!got) return false;
    ended_ = *got == 0;
    // What begins as no packed file does need not wait for more.
    const bool packed = stored_.starts_with('\x1f') || stored_.starts_with('\x28');
    if (!packed) break;
  }
  packing_ = packing_of(stored_);
  unpacker_ = Unpacker::make(packing_);
  sniffed_ = true;
  return true;
}

std::optional<size_t> InputFile::read(char* to, size_t bytes, int timeout_ms) {
  if (!sniffed_ && !sniff(timeout_ms)) return std::nullopt;
  if (!unpacker_ && at_ < stored_.size()) {
    const size_t count = stored_.copy(to, bytes, at_);
    at_ += count;
    return count;
  }
  if (!unpacker_) return ended_ ? 0 : read_stored(to, bytes, timeout_ms);
  while (true) {
    if (const size_t count = unpack(to, bytes)) return count;
    if (ended_ && unpacker_->is_whole()) return 0;
    if (ended_) {
      fail(ExitCode::input_unusable,
           "{}: ends in the middle of its compressed data; it was cut off", name_);
    }
    stored_.resize(kReadBytes);
    at_ = 0;
    const auto got = read_stored(stored_.data(), kReadBytes, timeout_ms);
    stored_.resize(got.value_or(0));
    if (!got) return std::nullopt;
    ended_ = *got == 0;
  }
}

// As much as there is of it; 0 when more has to be read first.
size_t InputFile::unpack(char* to, size_t bytes) {
  std::string_view packed = std::string_view(stored_).substr(at_);
  size_t count = 0;
  try {
    while (count == 0) {
      const size_t before = packed.size();
      count = unpacker_->unpack(packed, to, bytes);
      if (packed.size() == before) break;
    }
  } catch (const std::runtime_error& error) {
    fail(ExitCode::input_unusable, "{}: {}", name_, error.what());
  }
  at_ = stored_.size() - packed.size();
  return count;
}

}  // namespace plimsoll::files
