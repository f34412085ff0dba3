// Bounds of images, and the memory that they take: what a header says of it, and what is given
// back.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "image/decode.h"

using namespace plimsoll::image;

namespace {

using FileBytes = std::vector<uint8_t>;

FileBytes file_named(const std::string& name) {
  std::ifstream stream(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/images/" + name,
                       std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string code_within(Bytes file, const Limits& limits) {
  try {
    (void)read_header(file, limits);
  } catch (const ImageError& error) {
    return std::string(error.code());
  }
  return "none";
}

void append(FileBytes& to, std::string_view text) {
  to.insert(to.end(), text.begin(), text.end());
}

/// Segments of a JPEG of 20 x 10 pixels and three components up to a scan of some of them.
FileBytes jpeg_header(uint8_t frame, uint8_t scanned, const std::vector<uint8_t>& turns = {}) {
  using namespace std::string_view_literals;
  FileBytes file = {0xFF, 0xD8};
  for (const uint8_t turn : turns) {
    append(file, "\xFF\xE1\0\x22"sv);
    append(file, "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0"sv);
    file.insert(file.end(), {turn, 0, 0, 0, 0, 0, 0});
  }
  file.insert(file.end(), {0xFF, frame, 0, 17, 8, 0, 10, 0, 20, 3});
  for (uint8_t component = 1; component <= 3; ++component)
    file.insert(file.end(), {component, 0x11, 0});
  const auto length = static_cast<uint8_t>(6 + 2 * scanned);
  file.insert(file.end(), {0xFF, 0xDA, 0, length, scanned});
  for (uint8_t component = 1; component <= scanned; ++component)
    file.insert(file.end(), {component, 0});
  file.insert(file.end(), {0, 63, 0});
  return file;
}

/// Bytes of addresses that the process has.
size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("an image at a limit is taken, and one beyond it is not") {
  const FileBytes file = file_named("odd_37x53.png");
  const size_t bytes = file.size(), memory = read_header(file).memory_bytes;
  CHECK(code_within(file, {.file_bytes = bytes}) == "none");
  CHECK(code_within(file, {.file_bytes = bytes - 1}) == code::too_large);
  CHECK(code_within(file, {.side = 53}) == "none");
  CHECK(code_within(file, {.side = 52}) == code::too_large);
  CHECK(code_within(file, {.memory_bytes = memory}) == "none");
  CHECK(code_within(file, {.memory_bytes = memory - 1}) == code::too_large);
}

TEST_CASE("a header says what a decoder holds of each pixel") {
  const auto each = [](const FileBytes& file) {
    const Header header = read_header(file);
    const int64_t pixels = header.stored.width * header.stored.height;
    CHECK(header.memory_bytes % static_cast<size_t>(pixels) == 0);
    return header.memory_bytes / static_cast<size_t>(pixels);
  };
  CHECK(each(file_named("moving_120x90.gif")) == 3 + 1);       // and numbers of colours
  CHECK(each(file_named("lossy_400x300.webp")) == 3 + 4 + 4);  // and RGBA, twice where lossless
  CHECK(each(file_named("scene_640x480.jpg")) == 3);
  CHECK(each(file_named("progressive_333x250.jpg")) == 3 + 3 * 2);
  CHECK(each(jpeg_header(0xC0, 3)) == 3);
  CHECK(each(jpeg_header(0xC0, 1)) == 3 + 3 * 2);  // coefficients wait for the other components
  CHECK(each(jpeg_header(0xC1, 3)) == 3);
  for (const uint8_t progressive : std::initializer_list<uint8_t>{0xC2, 0xC6, 0xCA, 0xCE})
    CHECK(each(jpeg_header(progressive, 3)) == 3 + 3 * 2);
}

TEST_CASE("of several orientations in a JPEG the first one counts") {
  CHECK(read_header(jpeg_header(0xC0, 3, {6})).orientation == 6);
  CHECK(read_header(jpeg_header(0xC0, 3, {6, 3})).orientation == 6);
  CHECK(read_header(jpeg_header(0xC0, 3, {3, 6})).orientation == 3);
}

TEST_CASE("a WebP's orientation may stand in XMP alone, and its last byte is needed") {
  using namespace std::string_view_literals;
  const FileBytes plain = file_named("lossy_400x300.webp");
  CHECK(code_within(Bytes(plain).first(plain.size() - 1), {}) == code::truncated);
  FileBytes file;
  append(file, "RIFF\0\0\0\0WEBPVP8X\12\0\0\0\4\0\0\0"sv);
  append(file, "\x8f\1\0\x2b\1\0"sv);  // 400 x 300, less one each
  file.insert(file.end(), plain.begin() + 12, plain.end());
  append(file, "XMP \x1a\0\0\0<x tiff:Orientation=\"6\"/> "sv);
  const size_t size = file.size() - 8;
  for (size_t i = 0; i < 4; ++i) file[4 + i] = static_cast<uint8_t>(size >> (8 * i));
  CHECK(read_header(file).orientation == 6);
  CHECK(read_header(file).size() == Size{300, 400});
}

TEST_CASE("memory of large images is given back whole") {
  constexpr size_t kMebibyte = size_t{1} << 20;
  const auto take_and_give = [] {
    for (const size_t bytes : {2 * kMebibyte, 2 * kMebibyte + 1, 5 * kMebibyte, 7 * kMebibyte - 1})
      Levels(bytes).front() = 1;
  };
  take_and_give();
  const size_t before = address_space();
  for (int i = 0; i < 64; ++i) take_and_give();
  // A page that stayed would make 64 of 2 MiB or of some hundreds of KiB each.
  CHECK(address_space() < before + 4 * kMebibyte);
}
