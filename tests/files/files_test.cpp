// Comparing files, renaming them for good, and calls that fail.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>

#include "batch/scratch.h"
#include "files/input_file.h"
#include "files/output_file.h"
#include "files/seam.h"

using namespace plimsoll;
using namespace plimsoll::files;
using test::Scratch;

namespace {

ExitCode code_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::done;
}

int writes = 0;
int one_byte_then_interrupted(const char* call) {
  if (std::string_view(call) != "write") return 0;
  return ++writes % 3 == 0 ? EINTR : kShortWrite;
}
int no_space_at_close(const char* call) {
  return std::string_view(call) == "close" ? ENOSPC : 0;
}
int no_fsync(const char* call) {
  return std::string_view(call) == "fsync" ? EIO : 0;
}

class Seam {
 public:
  explicit Seam(IoFault fault) { set_io_fault(fault); }
  ~Seam() { set_io_fault(nullptr); }
};

}  // namespace

TEST_CASE("a file that is read is not written under any of its names") {
  const Scratch scratch;
  scratch.write("in", "x\n");
  REQUIRE(link(scratch.path("in").c_str(), scratch.path("hard").c_str()) == 0);
  REQUIRE(symlink("in", scratch.path("soft").c_str()) == 0);
  for (const char* name : {"in", "hard", "soft", "./in"}) {
    INFO(name);
    CHECK(code_of([&] {
            check_distinct({{"-i", scratch.path("in"), Use::read},
                            {"--report", scratch.path(name), Use::write}});
          }) == ExitCode::usage);
  }
  check_distinct({{"-i", scratch.path("in"), Use::read}, {"-t", scratch.path("in"), Use::read}});
}

TEST_CASE("files that are not there yet are told apart by folder and name") {
  const Scratch scratch;
  mkdir(scratch.path("sub").c_str(), 0777);
  REQUIRE(symlink("sub", scratch.path("other").c_str()) == 0);
  const auto check = [&](const std::string& a, const std::string& b) {
    return code_of([&] {
      check_distinct({{"-o", scratch.path(a), Use::write}, {"-e", scratch.path(b), Use::write}});
    });
  };
  CHECK(check("sub/out", "other/out") == ExitCode::usage);
  CHECK(check("sub/out", "out") == ExitCode::done);
  CHECK(check("sub/out", "sub/out.part") == ExitCode::done);
  check_distinct({{"-i", "/dev/null", Use::read}, {"-o", "/dev/null", Use::write}});
}

TEST_CASE("a pipe does not feed itself") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  CHECK(code_of([&] {
          check_distinct(
              {{"-i", scratch.path("pipe"), Use::read}, {"-o", scratch.path("pipe"), Use::write}});
        }) == ExitCode::usage);
}

TEST_CASE("a name that is taken meanwhile is left alone") {
  const Scratch scratch;
  scratch.write("from", "new");
  scratch.write("to", "old");
  const auto rename = [&](Existing existing) {
    return code_of([&] { rename_file(scratch.path("from"), scratch.path("to"), existing); });
  };
  CHECK(rename(Existing::refuse) == ExitCode::foreign_output);
  CHECK(scratch.read("to") == "old");
  CHECK(scratch.read("from") == "new");
  CHECK(rename(Existing::replace) == ExitCode::done);
  CHECK(scratch.read("to") == "new");
}

TEST_CASE("a name that no file can have, and a link to nothing, are refused") {
  const Scratch scratch;
  scratch.write("there", "");
  REQUIRE(symlink("there", scratch.path("link").c_str()) == 0);
  REQUIRE(symlink("gone", scratch.path("dangling").c_str()) == 0);
  for (const std::string& name : {std::string("there"), std::string("link"), std::string("new")}) {
    INFO(name);
    CHECK_NOTHROW(check_name(scratch.path(name)));
  }
  for (const std::string& name : {std::string("dangling"), std::string(300, 'x')}) {
    INFO(name);
    CHECK(code_of([&] { check_name(scratch.path(name)); }) == ExitCode::output_unwritable);
  }
}

TEST_CASE("a file is known by its inode, whatever its name") {
  const Scratch scratch;
  OutputFile file = OutputFile::open_owned(scratch.path("part"));
  struct stat status {};
  REQUIRE(stat(scratch.path("part").c_str(), &status) == 0);
  CHECK(file.inode() == status.st_ino);
  file.rename(scratch.path("out"), Existing::refuse);
  CHECK(file.inode() == status.st_ino);
  CHECK(file.path() == scratch.path("out"));
}

TEST_CASE("a small file is written whole") {
  const Scratch scratch;
  write_file(scratch.path("report"), "one\n");
  write_file(scratch.path("report"), "two\n");
  CHECK(scratch.read("report") == "two\n");
  CHECK(!scratch.has("report.part"));
}

TEST_CASE("short and interrupted writes lose nothing") {
  const Scratch scratch;
  const Seam seam(one_byte_then_interrupted);
  write_file(scratch.path("out"), "a whole line\n");
  CHECK(scratch.read("out") == "a whole line\n");
}

TEST_CASE("fsync and close that fail are errors, and fsync is not tried again") {
  const Scratch scratch;
  {
    const Seam seam(no_fsync);
    CHECK(code_of([&] { write_file(scratch.path("out"), "x"); }) == ExitCode::output_unwritable);
    CHECK(!scratch.has("out"));
    CHECK(!scratch.has("out.part"));
  }
  const Seam seam(no_space_at_close);
  OutputFile file = OutputFile::open_owned(scratch.path("other"));
  CHECK(code_of([&] { file.close(); }) == ExitCode::output_unwritable);
}

TEST_CASE("the head of a file gives its space back, the rest stays") {
  const Scratch scratch;
  OutputFile file = OutputFile::open_owned(scratch.path("part"));
  const std::string block(1 << 20, 'x');
  file.append(block + "tail");
  if (!file.can_punch()) return;  // a file system without holes
  file.punch_head(block.size());
  struct stat status {};
  REQUIRE(stat(scratch.path("part").c_str(), &status) == 0);
  CHECK(status.st_blocks * 512 < (1 << 20));
  CHECK(scratch.read("part") == std::string(1 << 20, '\0') + "tail");
}

TEST_CASE("standard input begins where its reader before us left off, and can be read twice") {
  const Scratch scratch;
  scratch.write("in", "first\nsecond\n");
  const int kept = dup(STDIN_FILENO);
  FILE* opened = std::freopen(scratch.path("in").c_str(), "r", stdin);
  REQUIRE(opened != nullptr);
  lseek(STDIN_FILENO, 6, SEEK_SET);
  InputFile input = InputFile::open("-");
  CHECK(input.size() == 7);
  for (int pass = 0; pass < 2; ++pass) {
    char buffer[16] = {};
    CHECK(input.read(buffer, sizeof buffer, 0) == 7u);
    CHECK(std::string(buffer) == "second\n");
    input.rewind();
  }
  dup2(kept, STDIN_FILENO);
  ::close(kept);
}
