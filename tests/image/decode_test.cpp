// Decoding of usual and of bad files: orientations, cut files, sizes that are lies.
#include <zlib.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "image/codecs/colour.h"
#include "image/codecs/orientation.h"
#include "image/decode.h"

using namespace plimsoll::image;

namespace {

using File = std::vector<uint8_t>;

File read(const std::string& name) {
  std::ifstream stream(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/images/" + name,
                       std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string code_of(Bytes file) {
  try {
    (void)decode(file);
  } catch (const ImageError& error) {
    return std::string(error.code());
  }
  return "none";
}

void put(File& file, size_t at, std::initializer_list<uint8_t> bytes) {
  std::ranges::copy(bytes, file.begin() + static_cast<std::ptrdiff_t>(at));
}

/// The first row of a 2 x 3 image after turning, its pixels named 0 to 5.
std::vector<int> first_row(Orientation orientation) {
  Image image{{2, 3}, {}};
  for (uint8_t i = 0; i < 6; ++i) image.rgb.insert(image.rgb.end(), 3, i);
  const Image turned = codecs::turn(image, orientation);
  std::vector<int> row;
  for (int64_t x = 0; x < turned.size.width; ++x)
    row.push_back(turned.rgb[static_cast<size_t>(3 * x)]);
  return row;
}

/// A PNG of 2 x 1 pixels: `colour` and `depth`, bytes of the row, of its tRNS chunk.
File tiny_png(uint8_t colour, uint8_t depth, const File& row, const File& clear) {
  const auto big = [](File& to, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<uint8_t>(value >> shift));
  };
  File file = {0x89, 'P', 'N', 'G', 0x0D, 0x0A, 0x1A, 0x0A};
  const auto chunk = [&](const std::string& name, const File& data) {
    File named(name.begin(), name.end());
    named.insert(named.end(), data.begin(), data.end());
    big(file, static_cast<uint32_t>(data.size()));
    file.insert(file.end(), named.begin(), named.end());
    big(file, static_cast<uint32_t>(crc32(0, named.data(), static_cast<uInt>(named.size()))));
  };
  chunk("IHDR", {0, 0, 0, 2, 0, 0, 0, 1, depth, colour, 0, 0, 0});
  chunk("tRNS", clear);
  File filtered = {0};
  filtered.insert(filtered.end(), row.begin(), row.end());
  File packed(64);
  uLongf size = packed.size();
  compress(packed.data(), &size, filtered.data(), filtered.size());
  packed.resize(size);
  chunk("IDAT", packed);
  chunk("IEND", {});
  return file;
}

}  // namespace

TEST_CASE("a shade of grey that stands for no colour is white; of RGB the colour is told") {
  const auto grey = [](uint8_t depth, const File& row, const File& clear) {
    return decode(tiny_png(0, depth, row, clear)).rgb;
  };
  CHECK(grey(8, {5, 9}, {0, 5}) == Levels{255, 255, 255, 9, 9, 9});
  CHECK(grey(16, {0, 5, 0, 9}, {1, 5}) == Levels{255, 255, 255, 9, 9, 9});
  CHECK(grey(1, {0x40}, {0, 0}) == Levels{255, 255, 255, 255, 255, 255});
  // Pillow compares shades of two bits with what becomes of them in eight.
  CHECK(grey(2, {0x10}, {0, 1}) == Levels{0, 0, 0, 85, 85, 85});
  const Image colours = decode(tiny_png(2, 8, {1, 2, 3, 4, 5, 6}, {0, 1, 0, 2, 0, 3}));
  CHECK(colours.rgb == Levels{1, 2, 3, 4, 5, 6});
  CHECK(colours.clear == Colour{1, 2, 3});
}

TEST_CASE("a PNG's checksums are looked at before its pixels, not of them, as Pillow does") {
  const File whole = tiny_png(0, 8, {5, 9}, {0, 5});
  const auto without_sum = [&](std::string_view chunk) {
    File file = whole;
    const auto name = std::ranges::search(file, chunk).begin();
    const auto length = static_cast<std::ptrdiff_t>(name[-1]);
    name[4 + length] ^= 1;
    return code_of(file);
  };
  CHECK(code_of(whole) == "none");
  CHECK(without_sum("IHDR") == code::unreadable);
  CHECK(without_sum("tRNS") == code::unreadable);
  CHECK(without_sum("IDAT") == "none");
}

TEST_CASE("headers are read without pixels") {
  const auto [name, format, width, height] = GENERATE(table<std::string, Format, int64_t, int64_t>({
      {"odd_37x53.png", Format::png, 37, 53},
      {"palette_clear_48x40.png", Format::png, 48, 40},
      {"lossy_400x300.webp", Format::webp, 400, 300},
      {"moving_120x90.gif", Format::gif, 120, 90},
      {"progressive_333x250.jpg", Format::jpeg, 333, 250},
      {"turned_320x240.jpg", Format::jpeg, 240, 320},  // as it is seen
  }));
  const File file = read(name);
  const Header header = read_header(file);
  CHECK(header.format == format);
  CHECK(header.size() == Size{width, height});
  CHECK(decode(file).size == Size{width, height});
}

TEST_CASE("each orientation turns as EXIF says") {
  CHECK(first_row(1) == std::vector{0, 1});
  CHECK(first_row(2) == std::vector{1, 0});
  CHECK(first_row(3) == std::vector{5, 4});
  CHECK(first_row(4) == std::vector{4, 5});
  CHECK(first_row(5) == std::vector{0, 2, 4});
  CHECK(first_row(6) == std::vector{4, 2, 0});
  CHECK(first_row(7) == std::vector{5, 3, 1});
  CHECK(first_row(8) == std::vector{1, 3, 5});
}

TEST_CASE("a turned image has the transparent colour that it had") {
  Image image{{1, 2}, {}};
  image.rgb.resize(6);
  image.clear = Colour{1, 2, 3};
  for (Orientation orientation = 1; orientation <= 8; ++orientation)
    CHECK(codecs::turn(image, orientation).clear == image.clear);
}

TEST_CASE("orientation is found in EXIF of both byte orders, and in XMP") {
  const auto bytes = [](std::string_view text) {
    return Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  using namespace std::string_view_literals;
  CHECK(codecs::exif_orientation(bytes("II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\6\0\0\0"sv)) == 6);
  CHECK(codecs::exif_orientation(bytes("Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\10\0\0"sv)) ==
        8);
  // As a number of four bytes in place of two, and behind another entry.
  CHECK(codecs::exif_orientation(bytes("II*\0\10\0\0\0\1\0\22\1\4\0\1\0\0\0\6\0\0\0"sv)) == 6);
  CHECK(codecs::exif_orientation(bytes("MM\0*\0\0\0\10\0\1\1\22\0\4\0\0\0\1\0\0\0\10"sv)) == 8);
  CHECK(codecs::exif_orientation(bytes("MM\0*\0\0\0\10\0\2\1\20\0\3\0\0\0\1\0\1\0\0"
                                       "\1\22\0\3\0\0\0\1\0\3\0\0"sv)) == 3);
  CHECK(codecs::exif_orientation(bytes("II*\0\377\377\377\377"sv)) == 1);
  CHECK(codecs::exif_orientation(bytes("II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\11\0\0\0"sv)) == 1);
  CHECK(codecs::xmp_orientation(bytes("<x tiff:Orientation=\"3\"/>"sv)) == 3);
  CHECK(codecs::xmp_orientation(bytes("<tiff:Orientation>5</tiff:Orientation>"sv)) == 5);
  CHECK(codecs::xmp_orientation(bytes("tiff:Orientation"sv)) == 1);
}

TEST_CASE("a file cut anywhere before its end is said to be cut or broken") {
  const std::string name =
      GENERATE("odd_37x53.png", "palette_clear_48x40.png", "lossy_400x300.webp",
               "turned_320x240.jpg", "progressive_333x250.jpg");
  const File file = read(name);
  for (size_t length = 0; length < file.size(); length += 64) {
    INFO(name << " cut at " << length);
    const std::string code = code_of(Bytes(file).first(length));
    if (length < 16) {
      CHECK((code == code::truncated || code == code::unreadable));
    } else {
      CHECK(code == code::truncated);
    }
  }
}

TEST_CASE("a GIF needs its first frame alone") {
  const File file = read("moving_120x90.gif");
  CHECK(code_of(Bytes(file).first(file.size() / 20)) == code::truncated);
  CHECK(code_of(Bytes(file).first(file.size() * 19 / 20)) == "none");
}

TEST_CASE("around a GIF's frame is the first colour, beside it and below it") {
  const Image whole = decode(read("moving_120x90.gif"));
  const auto colour = [](const Image& image, int64_t x, int64_t y) {
    const auto* const at = image.rgb.data() + 3 * (y * image.size.width + x);
    return std::vector<int>(at, at + 3);
  };
  const std::vector<int> first = {243, 241, 231};  // as Pillow has it
  File wide = read("moving_120x90.gif");
  put(wide, 6, {130});
  CHECK(colour(decode(wide), 125, 40) == first);
  CHECK(colour(decode(wide), 119, 40) == colour(whole, 119, 40));
  File high = read("moving_120x90.gif");
  put(high, 8, {100});
  CHECK(colour(decode(high), 5, 95) == first);
  CHECK(colour(decode(high), 5, 89) == colour(whole, 5, 89));
}

TEST_CASE("dimensions are checked before a pixel is decoded") {
  File png = read("odd_37x53.png");
  put(png, 16, {0, 0, 0xFF, 0xDC, 0, 0, 0xFF, 0xDC});  // 65,500 x 65,500
  CHECK(code_of(png) == code::too_large);
  put(png, 16, {0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF});
  CHECK(code_of(png) == code::too_large);
  put(png, 16, {0, 0, 0, 0, 0, 0, 0, 1});
  CHECK(code_of(png) == code::unreadable);
  File gif = read("moving_120x90.gif");
  put(gif, 6, {0xFF, 0xFF, 0xFF, 0xFF});
  CHECK(code_of(gif) == code::too_large);
}

TEST_CASE("what is no image is named so") {
  CHECK(code_of({}) == code::unreadable);
  const std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
  CHECK_THROWS_WITH(decode(Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size())),
                    Catch::Contains("none of JPEG, PNG, WebP and GIF"));
  const File large(100);
  CHECK_THROWS_WITH(read_header(large, {.file_bytes = 99}), Catch::Contains("are the most"));
}

TEST_CASE("colours are composed in Pillow's fixed point") {
  CHECK(codecs::over_white(0, 0) == 255);
  CHECK(codecs::over_white(100, 255) == 100);
  CHECK(codecs::over_white(0, 128) == 127);
  CHECK(codecs::from_ink(0, 0) == 255);
  CHECK(codecs::from_ink(255, 0) == 0);
  CHECK(codecs::from_ink(100, 55) == 200 - 78);
}
