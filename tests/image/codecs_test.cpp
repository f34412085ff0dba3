// Rows of PNGs and codes of GIFs, beside slow honest twins.
#include <zlib.h>

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "image/codecs/gif_strings.h"
#include "image/codecs/png_rows.h"

using namespace plimsoll::image;
using namespace plimsoll::image::codecs;

namespace {

using Content = std::vector<uint8_t>;

Content random_bytes(size_t count, unsigned seed, unsigned most = 255) {
  std::mt19937 random(seed);
  Content bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % (most + 1));
  return bytes;
}

void put_big(Content& to, size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<uint8_t>(value >> shift));
}

/// zlib's stream in chunks of `step` bytes, a chunk of another name behind them.
Content idat_chunks(const Content& rows, size_t step, std::string_view after = "IEND") {
  uLongf size = compressBound(rows.size());
  Content packed(size), chunks;
  compress(packed.data(), &size, rows.data(), rows.size());
  const auto chunk = [&](std::string_view name, std::span<const uint8_t> data) {
    put_big(chunks, data.size());
    chunks.insert(chunks.end(), name.begin(), name.end());
    chunks.insert(chunks.end(), data.begin(), data.end());
    put_big(chunks, 0);  // a checksum that nobody looks at
  };
  for (size_t at = 0; at < size; at += step) {
    chunk("IDAT", std::span(packed).subspan(at, std::min(step, size - at)));
    if (at == 0) chunk("IDAT", {});
  }
  chunk(after, {});
  return chunks;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ImageError& error) {
    return std::string(error.code()) + " " + error.what();
  }
  return "none";
}

/// Codes of GIF's LZW, as their bytes; without a clear code but the first.
Content lzw(const Content& numbers, uint32_t bits, bool with_clear = true) {
  std::map<std::pair<uint32_t, uint8_t>, uint32_t> known;
  const uint32_t clear = 1u << bits;
  uint32_t next = clear + 2, width = bits + 1, used = 0;
  uint64_t taken = 0;
  Content bytes;
  const auto put = [&](uint32_t code) {
    taken |= uint64_t{code} << used;
    for (used += width; used >= 8; used -= 8, taken >>= 8) {
      bytes.push_back(static_cast<uint8_t>(taken));
    }
  };
  if (with_clear) put(clear);
  uint32_t prefix = numbers.front();
  for (size_t i = 1; i < numbers.size(); ++i) {
    const auto found = known.find({prefix, numbers[i]});
    if (found != known.end()) {
      prefix = found->second;
      continue;
    }
    put(prefix);
    if (next < 4096) {
      known[{prefix, numbers[i]}] = next++;
      if (next > 1u << width && width < 12) ++width;  // one code later than readers know it
    }
    prefix = numbers[i];
  }
  put(prefix);
  if (used > 0) bytes.push_back(static_cast<uint8_t>(taken));
  return bytes;
}

Content read_lzw(const Content& bytes, int bits, size_t count, size_t block = 255) {
  size_t at = 0;
  GifStrings strings(bits, [&] {
    const size_t some = std::min(block, bytes.size() - at);
    const Bytes next(bytes.data() + at, some);
    at += some;
    return next;
  });
  return strings.read(count);
}

}  // namespace

TEST_CASE("filters of PNG's rows are undone as the specification says") {
  for (const size_t channels : {3, 4}) {
    for (uint8_t filter = 0; filter < 5; ++filter) {
      for (size_t pixels = 1; pixels < 40; ++pixels) {
        INFO(channels << " channels, filter " << int{filter} << ", " << pixels << " pixels");
        const size_t bytes = pixels * channels;
        const unsigned seed = filter + 5 * static_cast<unsigned>(pixels);
        // Few values, so that distances are often equal.
        const unsigned most = pixels % 2 == 0 ? 3 : 255;
        const Content stored = random_bytes(bytes + 1, seed, most);
        const Content above = random_bytes(bytes + 1, seed + 1, most);
        Content fast(bytes + 1, 7), plain(bytes + 1, 7);
        unfilter(static_cast<PngFilter>(filter), channels,
                 {stored.data(), above.data(), fast.data(), bytes});
        unfilter_plainly(static_cast<PngFilter>(filter), channels,
                         {stored.data(), above.data(), plain.data(), bytes});
        CHECK(fast == plain);
        CHECK(fast.back() == 7);
      }
    }
  }
}

TEST_CASE("the Paeth filter takes the nearest of three, the left one first") {
  // Left, above, corner: what is foretold (PNG specification, section 9.4).
  const std::array<uint8_t, 4> rows[] = {{10, 10, 10, 10}, {10, 20, 10, 20}, {20, 10, 10, 20},
                                         {0, 255, 0, 255}, {5, 7, 6, 6},     {4, 10, 8, 4},
                                         {10, 4, 8, 4}};
  for (const auto& [left, above, corner, foretold] : rows) {
    const Content stored = {left, left, left, 1, 1, 1, 0};
    const Content before = {corner, corner, corner, above, above, above, 0};
    // The first pixel's own prediction is the one above it.
    Content start = stored, to(6);
    for (size_t i = 0; i < 3; ++i) start[i] = static_cast<uint8_t>(left - corner);
    unfilter(PngFilter::paeth, 3, {start.data(), before.data(), to.data(), 6});
    CHECK(to[0] == left);
    CHECK(to[3] == static_cast<uint8_t>(foretold + 1));
  }
}

TEST_CASE("rows of a PNG may be cut into chunks anywhere") {
  constexpr size_t kWidth = 9, kRows = 5, kStride = 1 + 3 * kWidth;
  Content rows = random_bytes(kRows * kStride, 1);
  for (size_t y = 0; y < kRows; ++y) rows[y * kStride] = static_cast<uint8_t>(y);
  const auto read = [&](const Content& chunks, size_t count) {
    PngRows reader(chunks, kWidth, 3);
    Content above(kStride), all;
    for (size_t y = 0; y < count; ++y) {
      Content row(kStride);
      reader.read(above.data(), row.data());
      all.insert(all.end(), row.begin(), row.end() - 1);
      above = row;
    }
    return all;
  };
  const Content whole = read(idat_chunks(rows, rows.size() * 2), kRows);
  CHECK(whole.size() == kRows * 3 * kWidth);
  for (const size_t step : {1, 2, 7, 100}) CHECK(read(idat_chunks(rows, step), kRows) == whole);
  const auto fails = [&](const Content& chunks, size_t count) {
    return error_of([&] { (void)read(chunks, count); });
  };
  const std::string few = "image_unreadable PNG: Not enough image data";
  CHECK(fails(idat_chunks(rows, 7), kRows + 1) == few);
  CHECK(fails(idat_chunks(Content(rows.begin(), rows.end() - 1), 1000), kRows) == few);
  Content cut = idat_chunks(rows, 10, "tEXt");
  cut[25 + 12 + 4] = 't';  // the third chunk's name
  CHECK(fails(cut, kRows) != "none");
  CHECK(fails(Content(cut.begin(), cut.begin() + 20), kRows).starts_with("image_truncated"));
  rows[kStride] = 5;
  CHECK(fails(idat_chunks(rows, 100), kRows) == "image_unreadable PNG: bad adaptive filter value");
  CHECK(fails(Content(64, 0), kRows) != "none");
}

TEST_CASE("codes of a GIF are the pixels that they were made of") {
  for (const uint32_t bits : {2u, 4u, 8u}) {
    for (const size_t count : {1u, 2u, 7u, 300u, 5'000u, 200'000u}) {
      for (const unsigned most : {0u, 1u, (1u << bits) - 1}) {
        INFO(bits << " bits, " << count << " pixels, colours to " << most);
        const Content numbers = random_bytes(count, bits + most, most);
        CHECK(read_lzw(lzw(numbers, bits), static_cast<int>(bits), count) == numbers);
        CHECK(read_lzw(lzw(numbers, bits, false), static_cast<int>(bits), count, 1) == numbers);
      }
    }
  }
}

TEST_CASE("codes that stand for nothing, or end, are broken") {
  const auto fails = [](const Content& bytes, size_t count) {
    return error_of([&] { (void)read_lzw(bytes, 2, count); });
  };
  // Codes of three bits: clear 4, end 5, the first free one 6.
  CHECK(fails({0b00'100'100}, 9).find("codes end") != std::string::npos);
  CHECK(fails({0b01'001'100, 0b1}, 9).find("codes end before") != std::string::npos);
  CHECK(fails({0b00'110'100}, 9).find("stands for nothing") != std::string::npos);
  CHECK(fails({0b11'001'100, 0b1}, 9).find("stands for nothing") != std::string::npos);
  CHECK(read_lzw({0b10'001'100, 0b1}, 2, 3) == Content{1, 1, 1});  // 6 is 1 and 1 again
  CHECK(fails({}, 1).find("codes end") != std::string::npos);
}
