#include "batch/images/media_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "base/base64.h"
#include "base/error.h"
#include "batch/line_error.h"
#include "files/descriptor.h"
#include "image/image.h"

namespace plimsoll::batch {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string_view code, const std::string& field,
                         const std::string& message) {
  throw LineError(code, fmt::format("{}: {}", field, message), field);
}

/// The source as messages show it: its first 200 bytes.
std::string shortened(const std::string& source) {
  return source.size() <= 200 ? source : source.substr(0, 200) + "...";
}

[[noreturn]] void too_large(const std::string& field, size_t most) {
  refuse(
      image::code::too_large, field,
      fmt::format("the file has more than {} bytes, the most that the line's files before it leave",
                  most));
}

std::vector<uint8_t> read_data(const std::string& url, const std::string& field, size_t most) {
  const size_t comma = url.find(',');
  if (comma == std::string::npos || !url.substr(0, comma).ends_with(";base64")) {
    refuse(image::code::unreadable, field,
           fmt::format("expected data:image/...;base64,..., found {}",
                       shortened(url.substr(0, std::min(comma, size_t{64})))));
  }
  const std::string_view text = std::string_view(url).substr(comma + 1);
  if (text.size() / 4 > most / 3) too_large(field, most);
  std::vector<uint8_t> bytes(base64_room(text.size()));
  const auto count = decode_base64(text, bytes.data());
  if (!count) refuse(image::code::unreadable, field, "the data: address holds no base64");
  bytes.resize(*count);
  return bytes;
}

/// The text before the first colon ("data", "file", "https"), in small letters; empty where it is
/// no scheme's name.
std::string scheme_of(const std::string& source) {
  const size_t end = source.find(':');
  if (end == std::string::npos) return "";
  std::string scheme = source.substr(0, end);
  for (char& c : scheme) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) == 0) return "";
    c = static_cast<char>(std::tolower(byte));
  }
  return scheme;
}

/// The path of a file: URL, %20 and the like decoded.
std::string path_of(const std::string& url, const std::string& field) {
  std::string_view rest = std::string_view(url).substr(std::strlen("file:"));
  if (rest.starts_with("//")) {
    rest.remove_prefix(2);
    if (rest.starts_with("localhost/")) rest.remove_prefix(std::strlen("localhost"));
    if (!rest.starts_with('/')) {
      refuse(code::image_not_allowed, field,
             fmt::format("{}: files of other machines are not read; write this machine's as "
                         "file:///FOLDER/FILE, or the bare path",
                         shortened(url)));
    }
  }
  std::string path;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool coded =
        rest[i] == '%' && i + 2 < rest.size() && digit(rest[i + 1]) >= 0 && digit(rest[i + 2]) >= 0;
    path += coded ? static_cast<char>(16 * digit(rest[i + 1]) + digit(rest[i + 2])) : rest[i];
    if (coded) i += 2;
  }
  return path;
}

/// True for the bytes of a JPEG, PNG, GIF or WebP file in base64 where an address should be.
bool is_base64_of_image(std::string_view source) {
  constexpr size_t kShortest = 100;  // below it: the path of a file, perhaps
  constexpr std::string_view kStarts[] = {"/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR"};
  return source.size() >= kShortest && std::ranges::any_of(kStarts, [&](std::string_view start) {
           return source.starts_with(start);
         });
}

/// The path of an open file, all links followed.
std::string true_path(int descriptor) {
  char path[PATH_MAX];
  const std::string link = fmt::format("/proc/self/fd/{}", descriptor);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

}  // namespace

MediaReader::MediaReader(const std::string& allowed) {
  if (allowed.empty()) return;
  std::error_code error;
  const fs::path folder = fs::canonical(allowed, error);
  if (error || !fs::is_directory(folder)) {
    fail(ExitCode::usage, "--allowed-local-media-path {}: is no folder", allowed);
  }
  allowed_ = folder.string();
  if (!allowed_.ends_with('/')) allowed_ += '/';
}

std::vector<uint8_t> MediaReader::read(const std::string& source, const std::string& field,
                                       size_t most) const {
  const std::string scheme = scheme_of(source);
  if (scheme == "data") return read_data(source, field, most);
  const bool is_url = !scheme.empty() && source.compare(scheme.size(), 3, "://") == 0;
  if (is_url && scheme != "file") {
    refuse(code::image_not_allowed, field,
           fmt::format("{}: nothing is fetched over {}; download the file and name it by file: "
                       "below --allowed-local-media-path, or give it as data:image/...;base64,...",
                       shortened(source), scheme));
  }
  if (source.empty()) refuse(code::image_not_allowed, field, "the address is empty");
  if (is_base64_of_image(source)) {
    refuse(image::code::unreadable, field,
           fmt::format("{}: base64 goes behind data:image/...;base64,", shortened(source)));
  }
  if (source.find('\0') != std::string::npos) {
    refuse(image::code::unreadable, field, "the name of the file has a zero byte");
  }
  return read_file(scheme == "file" ? path_of(source, field) : source, field, most);
}

std::vector<uint8_t> MediaReader::read_file(const std::string& path, const std::string& field,
                                            size_t most) const {
  if (allowed_.empty()) {
    refuse(code::image_not_allowed, field,
           fmt::format("{}: files are read below --allowed-local-media-path DIR alone, and it is "
                       "not given",
                       shortened(path)));
  }
  std::error_code error;
  const std::string found = fs::weakly_canonical(path, error).string();
  if (error || !found.starts_with(allowed_)) {
    refuse(code::image_not_allowed, field,
           fmt::format("{}: lies outside --allowed-local-media-path", shortened(path)));
  }
  // O_NONBLOCK: opening a FIFO would wait for its writer.
  const files::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    refuse(image::code::unreadable, field,
           fmt::format("{}: {}", shortened(path), std::strerror(errno)));
  }
  if (!true_path(file.get()).starts_with(allowed_)) {
    refuse(code::image_not_allowed, field,
           fmt::format("{}: moved outside --allowed-local-media-path", shortened(path)));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    refuse(image::code::unreadable, field, fmt::format("{}: is no regular file", shortened(path)));
  }
  if (static_cast<size_t>(status.st_size) > most) too_large(field, most);
  std::vector<uint8_t> bytes(static_cast<size_t>(status.st_size));
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + got, bytes.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    got += static_cast<size_t>(count);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace plimsoll::batch
