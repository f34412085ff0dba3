// Arrays that lie partly on the disk: the same entries, whatever is in memory.
#include "files/paged_array.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <random>

#include "batch/scratch.h"
#include "files/seam.h"

using namespace plimsoll;
using files::PagedArray;
using test::Scratch;

namespace {

struct Pair {
  uint64_t a = 0;
  uint64_t b = 0;
  bool operator==(const Pair&) const = default;
};

constexpr uint64_t kEntries = 5000;  // 79 pages

/// Sets and reads entries in any order; returns how many were not as they had been set.
uint64_t differences(PagedArray<Pair>& array) {
  std::vector<Pair> wanted(kEntries);
  std::mt19937_64 random(1);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < 10 * kEntries; ++i) {
    const uint64_t index = random() % kEntries;
    if (random() % 2 == 0) {
      wanted[index] = {random(), i};
      array.set(index, wanted[index]);
    } else if (array[index] != wanted[index]) {
      ++wrong;
    }
  }
  for (uint64_t i = 0; i < kEntries; ++i) wrong += array[i] == wanted[i] ? 0 : 1;
  return wrong;
}

int pages_written = 0;

}  // namespace

TEST_CASE(
    "the file is in the folder that was set for temporary files, where one can be made there") {
  const Scratch scratch;
  const std::string given = scratch.path("given");
  const std::string set = scratch.path("set");
  const auto file_of = [&] {  // the folder of the file, by the links of /proc
    PagedArray<Pair> array(given, 1024);
    CHECK(differences(array) == 0);
    for (const auto& link : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      const std::string file = std::filesystem::read_symlink(link.path(), ignored).string();
      if (file.starts_with(scratch.path(""))) return file.substr(0, file.rfind('/'));
    }
    return std::string();
  };
  std::filesystem::create_directory(given);
  CHECK(file_of() == given);
  files::set_temporary_folder(set);
  CHECK(file_of() == given);  // there is no such folder
  std::filesystem::create_directory(set);
  CHECK(file_of() == set);
  files::set_temporary_folder("");
  CHECK(file_of() == given);
}

TEST_CASE("entries are the same however many of them are in memory") {
  const Scratch scratch;
  for (const size_t bytes : {size_t{0}, size_t{1024}, size_t{3} << 14, size_t{1} << 20}) {
    INFO(bytes << " bytes in memory");
    PagedArray<Pair> array(scratch.path(""), bytes);
    CHECK(differences(array) == 0);
    CHECK(array.is_on_disk() == (bytes < kEntries * sizeof(Pair)));
    CHECK(array.size() == kEntries);
    PagedArray<Pair> moved = std::move(array);
    moved.push_back({7, 8});
    CHECK(moved[kEntries] == Pair{7, 8});
    CHECK(moved[1'000'000] == Pair{});
    CHECK(std::filesystem::is_empty(scratch.path("")));
  }
}

TEST_CASE("a bound that rises is heeded from then on") {
  const Scratch scratch;
  PagedArray<Pair> array(scratch.path(""), 0);
  array.allow(size_t{1} << 20);
  CHECK(differences(array) == 0);
  CHECK(!array.is_on_disk());
}

TEST_CASE("where no temporary file can be written entries stay in memory") {
  PagedArray<Pair> nowhere("/proc/no such folder", 0);
  CHECK(differences(nowhere) == 0);
  CHECK(!nowhere.is_on_disk());
  const Scratch scratch;
  for (const int fault : {ENOSPC, files::kShortWrite, EINTR}) {
    static int answer = 0;
    answer = fault;
    pages_written = 0;
    files::set_io_fault([](const char* call) {
      const bool fails = std::string_view(call) == "write" && ++pages_written > 10;
      return fails && (answer != EINTR || pages_written % 2 == 0) ? answer : 0;
    });
    PagedArray<Pair> array(scratch.path(""), 0);
    CHECK(differences(array) == 0);
    files::set_io_fault(nullptr);
    CHECK(array.is_on_disk());
  }
}
