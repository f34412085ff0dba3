// gzip and zstd: pieces of any size, members in a row, damage.
#include "files/packing.h"

#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>

#include "batch/scratch.h"
#include "files/input_file.h"

using namespace plimsoll;
using namespace plimsoll::files;
using test::Scratch;

namespace {

std::string packed(Packing packing, const std::string& text, size_t piece = 1000) {
  const auto packer = Packer::make(packing);
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += piece) bytes += packer->pack(text.substr(at, piece));
  return bytes + packer->finish();
}

std::string read_all(InputFile& input, size_t room) {
  std::string text;
  std::string buffer(room, ' ');
  while (const size_t got = input.read(buffer.data(), room, -1).value_or(0)) {
    text.append(buffer, 0, got);
  }
  return text;
}

std::string sample() {
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += "line " + std::to_string(i * 7919 % 10'007) + "\n";
  return text;
}

}  // namespace

TEST_CASE("packed files read as what was packed") {
  const Scratch scratch;
  const std::string text = sample();
  for (const Packing packing : {Packing::gzip, Packing::zstd}) {
    const std::string bytes = packed(packing, text);
    CHECK(bytes.size() < text.size() / 2);
    CHECK(packed(packing, text, 1 << 20) == bytes);
    CHECK(packing_of(bytes) == packing);
    // A name says nothing; members in a row are one.
    InputFile input = InputFile::open(scratch.write("in.jsonl", bytes + packed(packing, "end\n")));
    for (const size_t room : {1u, 7u, 100'000u}) {
      INFO(room);
      CHECK(read_all(input, room) == text + "end\n");
      CHECK(input.is_packed());
      input.rewind();
    }
  }
  InputFile zeros = InputFile::open(
      scratch.write("tape", packed(Packing::gzip, "a\n") + std::string(100'000, '\0')));
  CHECK(read_all(zeros, 10) == "a\n");
}

TEST_CASE("what is not packed is read as it is") {
  const Scratch scratch;
  for (const char* text : {"", "a", "(", "\x1f", "\x1f\x8b", "(\xb5/", "plain\n"}) {
    INFO(text);
    InputFile input = InputFile::open(scratch.write("in.gz", text));
    CHECK(read_all(input, 3) == text);
    CHECK(!input.is_packed());
  }
}

TEST_CASE("packed data that is cut off or damaged is an error behind what could be read") {
  const Scratch scratch;
  const std::string text = sample();
  for (const Packing packing : {Packing::gzip, Packing::zstd}) {
    const std::string bytes = packed(packing, text);
    for (const size_t cut : {bytes.size() - 1, bytes.size() / 2, size_t{20}}) {
      INFO(cut);
      InputFile input = InputFile::open(scratch.write("in", bytes.substr(0, cut)));
      CHECK_THROWS_WITH(read_all(input, 4096), Catch::Contains("cut off"));
    }
    std::string damaged = bytes;
    for (size_t i = 0; i < 16; ++i) damaged[bytes.size() / 2 + i] ^= 0x55;
    InputFile input = InputFile::open(scratch.write("in", damaged));
    CHECK_THROWS_WITH(read_all(input, 4096), Catch::Contains("in: "));
  }
}

TEST_CASE("a name says how an output is packed") {
  CHECK(packing_for("a.jsonl.gz") == Packing::gzip);
  CHECK(packing_for("a.zst") == Packing::zstd);
  CHECK(packing_for("a.zstd") == Packing::zstd);
  CHECK(packing_for("A.JSONL.GZ") == Packing::gzip);
  CHECK(packing_for("a.Zst") == Packing::zstd);
  for (const char* other : {"a.jsonl.xz", "a.bz2", "a.lz4", "a.ZIP"}) {
    INFO(other);
    CHECK_THROWS_WITH(packing_for(other), Catch::Contains(other) && Catch::Contains(".zst"));
  }
  CHECK(packing_for("a.gz.jsonl") == Packing::none);
}

TEST_CASE("a letter that changed in what could not be made smaller is noticed") {
  // Random bytes are stored as they are: nothing but the checksum knows them.
  std::mt19937 random(1);
  std::string text(10'000, ' ');
  for (char& c : text) c = static_cast<char>(random());
  for (const Packing packing : {Packing::gzip, Packing::zstd}) {
    const Scratch scratch;
    std::string bytes = packed(packing, text);
    const size_t at = bytes.find(text.substr(5000, 20));
    REQUIRE(at != std::string::npos);
    bytes[at] ^= 1;
    InputFile input = InputFile::open(scratch.write("in", bytes));
    CHECK_THROWS_WITH(read_all(input, 4096), Catch::Contains("its compressed data is damaged"));
  }
}
