// Inputs that are read as one, inputs that are cut or slow, and digests of files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "batch/scratch.h"
#include "files/digest.h"
#include "files/identity.h"
#include "files/input_file.h"

using namespace plimsoll;
using namespace plimsoll::files;
using Catch::Contains;
using test::Scratch;

namespace {

const std::string kMark = "\xEF\xBB\xBF";

std::string all_of(InputFile& input, size_t room) {
  std::string text, buffer(room, ' ');
  while (const size_t got = input.read(buffer.data(), room, -1).value_or(0))
    text.append(buffer, 0, got);
  return text;
}

std::string hex_of(const std::string& bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

/// Changes one byte of a file.
void put_byte(const std::string& path, int64_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(at);
  file.put(byte);
}

}  // namespace

TEST_CASE("several inputs are one, without their marks and with every line ended") {
  const Scratch scratch;
  const std::vector<std::string> texts = {kMark + "a\nbc", "", "d\n", kMark, kMark + "e"};
  std::vector<std::string> paths;
  for (const std::string& text : texts)
    paths.push_back(scratch.write("in" + std::to_string(paths.size()), text));
  InputFile input = InputFile::open(paths);
  CHECK(input.name() == paths[0] + " and 4 more");
  CHECK(input.is_regular());
  CHECK(input.size() == 7 + 0 + 2 + 3 + 4);
  for (const size_t room : {3u, 100u}) {
    INFO(room);
    CHECK(all_of(input, room) == "a\nbc\nd\ne");
    CHECK(!input.is_packed());
    // Bytes by their place among those that were read: "bc", "d\n", "e".
    for (const auto& [offset, bytes] :
         {std::pair{2, std::string("bc")}, std::pair{5, std::string("d\n")},
          std::pair{7, std::string("e")}}) {
      std::string again(bytes.size(), ' ');
      input.read_again(static_cast<uint64_t>(offset), again.data(), again.size());
      CHECK(again == bytes);
    }
    input.rewind();
  }
  // The digest is of the stored bytes, and leaves reading where it was.
  CHECK(digest_of(input) == hex_of(texts[0] + texts[1] + texts[2] + texts[3] + texts[4]));
  CHECK(all_of(input, 100) == "a\nbc\nd\ne");
  std::filesystem::resize_file(paths[4], 3);
  char byte = ' ';
  CHECK_THROWS_WITH(input.read_again(7, &byte, 1), Contains("in4: was cut while it was read"));
}

TEST_CASE("an input that is cut while it is read is told of") {
  const Scratch scratch;
  const std::string path = scratch.write("in", "abcde");
  InputFile input = InputFile::open(path);
  std::filesystem::resize_file(path, 3);
  CHECK_THROWS_WITH(all_of(input, 2), Contains("was cut while it was read: 3 bytes came of 5"));
  CHECK_THROWS_WITH(InputFile::open(scratch.path("none")), Contains("none: cannot be read"));
  // Nothing lies at the beginning of a process's memory: reading fails there.
  InputFile broken = InputFile::open("/proc/self/mem");
  char byte = ' ';
  CHECK_THROWS_WITH(broken.read(&byte, 1, 0), Contains("cannot be read: Input/output error"));
  CHECK_THROWS_WITH(InputFile::open(scratch.path("")), Contains("is a folder"));
}

TEST_CASE("a pipe is waited for as long as it was said, and has no size") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  const int writer = ::open(scratch.path("pipe").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(writer >= 0);
  InputFile input = InputFile::open(scratch.path("pipe"));
  CHECK(!input.is_regular());
  CHECK(input.size() == 0);
  char buffer[16] = {};
  CHECK(!input.read(buffer, sizeof buffer, 0));
  REQUIRE(::write(writer, "line\n", 5) == 5);
  CHECK(input.read(buffer, sizeof buffer, 0) == size_t{5});
  CHECK(!input.read(buffer, sizeof buffer, 0));
  ::close(writer);
  CHECK(input.read(buffer, sizeof buffer, 0) == size_t{0});
}

TEST_CASE("a small file's digest is of every byte, a large one's of its head and 64 places") {
  const Scratch scratch;
  constexpr int64_t kWhole = 64 << 20, kSample = 4096;
  const std::string path = scratch.write("weights", "");
  const auto notices = [&](int64_t size, int64_t at) {
    std::filesystem::resize_file(path, static_cast<uint64_t>(size));
    const std::string before = sampled_digest(path);
    put_byte(path, at, 'x');
    const bool changed = sampled_digest(path) != before;
    std::filesystem::resize_file(path, 0);
    return changed;
  };
  for (const int64_t at : {int64_t{0}, int64_t{300} << 10, kWhole - 1}) CHECK(notices(kWhole, at));
  constexpr int64_t kLarge = kWhole + 64;  // (kLarge - 4096) / 64 = 1 MiB - 63 between places
  constexpr int64_t kStep = (1 << 20) - 63;
  CHECK(notices(kLarge, (256 << 10) - 1));
  CHECK(!notices(kLarge, 256 << 10));
  for (const int64_t place : {1, 2, 64}) {
    INFO(place);
    CHECK(!notices(kLarge, place * kStep - 1));
    CHECK(notices(kLarge, place * kStep));
    CHECK(notices(kLarge, place * kStep + kSample - 1));
  }
  CHECK(!notices(kLarge, kStep + kSample));
  // Zeros are told apart by their number.
  std::filesystem::resize_file(path, kLarge);
  const std::string one = sampled_digest(path);
  std::filesystem::resize_file(path, kLarge + 1);
  CHECK(sampled_digest(path) != one);
  CHECK_THROWS_WITH(sampled_digest(scratch.path("none")), Contains("cannot be read"));
}

TEST_CASE("a model is told from another by its weights, its tokenizer and its settings") {
  const Scratch scratch;
  for (const char* name : {"b.safetensors", "config.json", "tokenizer.model", "merges.txt",
                           "chat.jinja", "o.tiktoken", "README.md", "a.bin"})
    scratch.write(name, name);
  std::filesystem::create_directories(scratch.path("folder.json"));
  std::vector<std::string> names;
  const OrderedJson digests = model_digests(scratch.path(""));
  for (const auto& [name, digest] : digests.items()) {
    names.push_back(name);
    CHECK(digest == sampled_digest(scratch.path(name)));
  }
  CHECK(names == std::vector<std::string>{"b.safetensors", "chat.jinja", "config.json",
                                          "merges.txt", "o.tiktoken", "tokenizer.model"});
  CHECK_THROWS_AS(model_digests(scratch.path("none")), Error);
}
