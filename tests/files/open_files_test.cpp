// Files that are open: their ends, streams, and descriptors that are given back.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include "batch/scratch.h"
#include "files/descriptor.h"
#include "files/input_file.h"
#include "files/output_file.h"
#include "files/seam.h"

using namespace plimsoll;
using namespace plimsoll::files;
using Catch::Contains;
using test::Scratch;

namespace {

/// Open descriptors of this process.
std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

}  // namespace

TEST_CASE("every descriptor is given back, also one in whose place another comes") {
  const Scratch scratch;
  scratch.write("in", "line\n");
  const auto before = open_descriptors();
  {
    Descriptor held(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    held = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    Descriptor moved = std::move(held);
    CHECK(held.get() < 0);
    CHECK(open_descriptors() == before + 1);
    OutputFile file = OutputFile::open_owned(scratch.path("a"));
    file = OutputFile::open_owned(scratch.path("b"));
    CHECK(open_descriptors() == before + 2);
    file.close();
    CHECK(open_descriptors() == before + 1);
    const InputFile input = InputFile::open(std::vector{scratch.path("in"), scratch.path("in")});
    CHECK(open_descriptors() == before + 3);
  }
  CHECK(open_descriptors() == before);
  write_file(scratch.path("report"), "x");
  rename_file(scratch.path("report"), scratch.path("renamed"));
  CHECK_THROWS_AS(InputFile::open(scratch.path("")), Error);
  CHECK_THROWS_AS(OutputFile::open_owned(scratch.path("")), Error);
  CHECK(open_descriptors() == before);
}

TEST_CASE("an output is read back to its end, and cut where it is told") {
  const Scratch scratch;
  OutputFile file = OutputFile::open_owned(scratch.path("part"));
  file.append("first\nsecond\n");
  CHECK(file.size() == 13);
  std::string text(6, ' ');
  file.read_at(6, text.data(), 6);
  CHECK(text == "second");
  CHECK_THROWS_WITH(file.read_at(8, text.data(), 6),
                    Contains("cannot be read back at byte 13: it ends there"));
  file.truncate(6);
  file.append("x");
  CHECK(scratch.read("part") == "first\nx");
  // Who goes on writes behind what is there.
  file.close();
  OutputFile::open_owned(scratch.path("part")).append("y");
  CHECK(scratch.read("part") == "first\nxy");
}

TEST_CASE("what is no file of its own is not written as one") {
  const Scratch scratch;
  scratch.write("there", "old");
  REQUIRE(symlink("there", scratch.path("link").c_str()) == 0);
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(OutputFile::open_owned(scratch.path("link")), Contains("cannot be written"));
  CHECK(scratch.read("there") == "old");
  CHECK_THROWS_WITH(OutputFile::open_owned(scratch.path("pipe")), Contains("not a regular file"));
  CHECK_THROWS_WITH(OutputFile::open_owned(scratch.path("none/out")),
                    Contains("none does not exist; make it first"));
}

TEST_CASE("a report to a pipe is written into it, and the reader that goes is told of") {
  const Scratch scratch;
  const std::string path = scratch.path("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  Descriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader.get() >= 0);
  OutputFile file = OutputFile::open_stream(path);
  write_file(path, "report\n");
  char text[16] = {};
  CHECK(::read(reader.get(), text, sizeof text) == 7);
  CHECK(std::string(text) == "report\n");
  CHECK(!scratch.has("pipe.part"));
  CHECK_NOTHROW(file.sync());  // there is nothing to sync
  reader = Descriptor();
  const auto handled = ::signal(SIGPIPE, SIG_IGN);
  CHECK_THROWS_AS(file.append("x"), BrokenPipe);
  ::signal(SIGPIPE, handled);
}

TEST_CASE("a disk that cannot sync is an error, a file system without syncs is none") {
  const Scratch scratch;
  OutputFile file = OutputFile::open_owned(scratch.path("part"));
  static int answer = 0;
  const auto sync_where = [&](int error) {
    answer = error;
    set_io_fault([](const char* call) { return std::string_view(call) == "fsync" ? answer : 0; });
    try {
      file.sync();
    } catch (const Error& error_told) {
      set_io_fault(nullptr);
      CHECK(error_told.code() == ExitCode::output_unwritable);
      return false;
    }
    set_io_fault(nullptr);
    return true;
  };
  for (const int lacking : {EINVAL, EROFS, ENOTSUP}) CHECK(sync_where(lacking));
  for (const int failed : {EIO, ENOSPC, EDQUOT}) CHECK_FALSE(sync_where(failed));
}
