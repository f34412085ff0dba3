// Files that are written and renamed through a power cut, and on a disk that does half of what it
// is asked.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>

#include "batch/scratch.h"
#include "files/output_file.h"
#include "recorder/disk_recorder.h"

using namespace plimsoll;
using namespace plimsoll::files;
using test::DiskAnswer;
using test::DiskCall;
using test::DiskRecorder;
using test::Scratch;

TEST_CASE("a small file has its bytes on the disk before its name, and then its name") {
  const Scratch scratch;
  const DiskRecorder recorder(scratch.path(""));
  write_file(scratch.path("report"), "a report\n");
  CHECK(recorder.losses() == std::vector<std::string>{});
  CHECK(recorder.calls("rename").size() == 1);
}

TEST_CASE("a renamed file keeps its new name through a power cut") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path("to"));
  for (const Existing existing : {Existing::refuse, Existing::replace}) {
    const DiskRecorder recorder(scratch.path(""));
    OutputFile file = OutputFile::open_owned(scratch.path("part"));
    file.append("line\n");
    file.sync();
    rename_file(scratch.path("part"), scratch.path("to/out"), existing);
    CHECK(recorder.losses() == std::vector<std::string>{});
  }
}

TEST_CASE("a line is whole however little the disk takes at a time, or the error is told") {
  const Scratch scratch;
  const std::string line(1000, 'x');
  for (const size_t taken : {1, 7, 999}) {
    INFO("bytes taken at a time: " << taken);
    DiskRecorder recorder(scratch.path(""));
    recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
      if (call.name != "write") return std::nullopt;
      return DiskAnswer{.bytes = taken};
    });
    const std::string name = "out" + std::to_string(taken);
    OutputFile file = OutputFile::open_owned(scratch.path(name));
    file.append(line);
    CHECK(scratch.read(name) == line);
  }
}

TEST_CASE("a disk that fills up in the middle of a line is an error, not a shorter line") {
  const Scratch scratch;
  DiskRecorder recorder(scratch.path(""));
  int writes = 0;
  recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
    if (call.name != "write") return std::nullopt;
    if (++writes == 1) return DiskAnswer{.bytes = 10};
    return DiskAnswer{.error = ENOSPC};
  });
  OutputFile file = OutputFile::open_owned(scratch.path("out"));
  try {
    file.append(std::string(1000, 'x'));
    FAIL("the line counts as written");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::output_unwritable);
  }
}

TEST_CASE("a file that is renamed between our open and our lock is not written to") {
  const Scratch scratch;
  DiskRecorder recorder(scratch.path(""));
  bool finished = false;
  recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
    if (call.name != "lock" || std::exchange(finished, true)) return std::nullopt;
    // Another process ends here: what it wrote gets its final name.
    std::filesystem::rename(scratch.path("part"), scratch.path("out"));
    return std::nullopt;
  });
  OutputFile file = OutputFile::open_owned(scratch.path("part"));
  file.append("x");
  CHECK(scratch.read("out").empty());
  CHECK(scratch.read("part") == "x");
}

TEST_CASE(
    "a file that another process locks is refused, and one that cannot be locked is written") {
  const Scratch scratch;
  DiskRecorder recorder(scratch.path(""));
  const auto open_where_lock_says = [&](int error) {
    recorder.answer_with([error](const DiskCall& call) -> std::optional<DiskAnswer> {
      if (call.name != "lock") return std::nullopt;
      return DiskAnswer{.error = error};
    });
    OutputFile file = OutputFile::open_owned(scratch.path("part"));
    file.append("x");
  };
  for (const int held : {EACCES, EAGAIN})
    CHECK_THROWS_WITH(open_where_lock_says(held), Catch::Contains("another process is writing it"));
  CHECK(scratch.read("part").empty());
  for (const int lacking : {ENOLCK, ENOSYS}) CHECK_NOTHROW(open_where_lock_says(lacking));
  CHECK(scratch.read("part") == "xx");
}
