#include "files/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace plimsoll::files {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kReadBytes = size_t{64} << 10;

}  // namespace

OneInput::OneInput(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  const int number = path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  descriptor_ = Descriptor(number);
  struct stat found {};
  if (number < 0 || fstat(number, &found) != 0) {
    fail(ExitCode::input_unusable, "{}: cannot be read: {}", name_, std::strerror(errno));
  }
  if (S_ISDIR(found.st_mode)) {
    fail(ExitCode::input_unusable,
         "{}: is a folder; -i takes a JSONL file, or - for standard input", name_);
  }
  regular_ = S_ISREG(found.st_mode);
  const off_t start = lseek(number, 0, SEEK_CUR);
  start_ = position_ = start < 0 ? 0 : static_cast<uint64_t>(start);
  const auto whole = static_cast<uint64_t>(found.st_size);
  size_ = whole - std::min(whole, start_);
}

bool OneInput::is_terminal() const {
  return isatty(descriptor_.get()) == 1;
}

void OneInput::rewind() {
  position_ = start_;
  stored_.clear();
  at_ = 0;
  sniffed_ = ended_ = false;
}

size_t OneInput::read_at(uint64_t offset, char* to, size_t bytes) const {
  size_t read = 0;
  while (read < bytes) {
    const auto from = static_cast<off_t>(start_ + offset + read);
    const ssize_t got = pread(descriptor_.get(), to + read, bytes - read, from);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(ExitCode::input_unusable, "{}: cannot be read: {}", name_, std::strerror(errno));
    }
    if (got == 0) break;
    read += static_cast<size_t>(got);
  }
  return read;
}

std::optional<size_t> OneInput::read_stored(char* to, size_t bytes, int timeout_ms) {
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
  if (errno == EINTR || errno == EAGAIN) return std::nullopt;
  fail(ExitCode::input_unusable, "{}: cannot be read: {}", name_, std::strerror(errno));
}

// Looks at the first bytes; false when they have not come yet.
bool OneInput::sniff(int timeout_ms) {
  while (!ended_ && stored_.size() < kMagicBytes) {
    const size_t before = stored_.size();
    stored_.resize(before + kReadBytes);
    const auto got = read_stored(stored_.data() + before, kReadBytes, timeout_ms);
    stored_.resize(before + got.value_or(0));
    if (!got) return false;
    ended_ = *got == 0;
    // A beginning that no packed file has needs no more bytes.
    const bool packed = stored_.starts_with('\x1f') || stored_.starts_with('\x28');
    if (!packed) break;
  }
  packing_ = packing_of(stored_);
  unpacker_ = Unpacker::make(packing_);
  sniffed_ = true;
  return true;
}

std::optional<size_t> OneInput::read(char* to, size_t bytes, int timeout_ms) {
  if (!sniffed_ && !sniff(timeout_ms)) return std::nullopt;
  if (!unpacker_ && at_ < stored_.size()) {
    const size_t count = stored_.copy(to, bytes, at_);
    at_ += count;
    return count;
  }
  if (!unpacker_) {
    const auto got = ended_ ? 0 : read_stored(to, bytes, timeout_ms);
    if (got == size_t{0}) check_whole();
    return got;
  }
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

// Throws where a regular file has become shorter while it was read. Packed files mark their own
// end.
void OneInput::check_whole() const {
  const uint64_t read = position_ - start_;
  if (!regular_ || read >= size_) return;
  fail(ExitCode::input_unusable, "{}: was cut while it was read: {} bytes came of {}", name_, read,
       size_);
}

// Unpacks what is in `stored_`; 0 when more has to be read first.
size_t OneInput::unpack(char* to, size_t bytes) {
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

// ---- several ----

InputFile InputFile::open(const std::string& path) {
  return InputFile(std::vector{path});
}

InputFile InputFile::open(const std::vector<std::string>& paths) {
  return InputFile(paths);
}

InputFile::InputFile(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) inputs_.emplace_back(path);
  name_ = inputs_.front().name();
  if (inputs_.size() > 1) name_ += fmt::format(" and {} more", inputs_.size() - 1);
}

std::optional<size_t> InputFile::read(char* to, size_t bytes, int timeout_ms) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  while (true) {
    std::optional<size_t> got = inputs_[at_].read(to, bytes, timeout_ms);
    if (!got) return got;
    const bool ended = *got == 0;
    if (at_start_) {
      const bool marked = std::string_view(to, *got).starts_with(kByteOrderMark);
      if (marked) {
        *got -= kByteOrderMark.size();
        std::memmove(to, to + kByteOrderMark.size(), *got);
      }
      starts_.resize(at_ + 1);
      starts_[at_] = {returned_, marked ? kByteOrderMark.size() : 0};
    }
    at_start_ = false;
    returned_ += *got;
    if (*got > 0) {
      last_ = to[*got - 1];
      return got;
    }
    if (!ended) continue;
    if (is_last()) return 0;
    ++at_;
    at_start_ = true;
    if (last_ == '\n') continue;
    *to = last_ = '\n';
    ++returned_;
    return 1;
  }
}

std::optional<size_t> InputFile::read_stored(char* to, size_t bytes, int timeout_ms) {
  while (true) {
    const std::optional<size_t> got = inputs_[at_].read_stored(to, bytes, timeout_ms);
    if (!got || *got > 0 || is_last()) return got;
    ++at_;
  }
}

void InputFile::rewind() {
  for (OneInput& input : inputs_) input.rewind();
  at_ = 0;
  at_start_ = true;
  last_ = '\n';
  returned_ = 0;
}

void InputFile::read_again(uint64_t offset, char* to, size_t bytes) const {
  const auto behind = std::ranges::upper_bound(starts_, offset, {}, &Start::offset);
  const auto input = static_cast<size_t>(behind - starts_.begin()) - 1;
  const Start& start = starts_[input];
  const size_t got = inputs_[input].read_at(start.skipped + offset - start.offset, to, bytes);
  if (got == bytes) return;
  fail(ExitCode::input_unusable, "{}: was cut while it was read", inputs_[input].name());
}

bool InputFile::is_regular() const {
  return std::ranges::all_of(inputs_, &OneInput::is_regular);
}

bool InputFile::is_packed() const {
  return std::ranges::any_of(inputs_, &OneInput::is_packed);
}

bool InputFile::is_terminal() const {
  return std::ranges::any_of(inputs_, &OneInput::is_terminal);
}

uint64_t InputFile::size() const {
  uint64_t bytes = 0;
  for (const OneInput& input : inputs_) bytes += input.size();
  return bytes;
}

}  // namespace plimsoll::files
