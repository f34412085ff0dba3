// What a name of a file means, and what its folder and file system say of it.
#include "files/names.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "batch/scratch.h"
#include "files/seam.h"
#include "recorder/disk_recorder.h"

using namespace plimsoll;
using namespace plimsoll::files;
using Catch::Contains;
using test::Scratch;

namespace {

/// Code and message of the error that `act` ends in.
std::pair<ExitCode, std::string> error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ExitCode::done, ""};
}

}  // namespace

TEST_CASE("free space is what a user without privileges may still write") {
  const Scratch scratch;
  const auto free = [&] { return free_bytes_beside(scratch.path("none")); };
  // Others write to the disk meanwhile.
  const uint64_t before = free();
  const uint64_t told = std::filesystem::space(scratch.path("")).available;
  const uint64_t after = free();
  constexpr uint64_t kOthers = uint64_t{256} << 20;
  CHECK(told + kOthers >= std::min(before, after));
  CHECK(told <= std::max(before, after) + kOthers);
  const auto [code, message] = error_of([&] { free_bytes_beside(scratch.path("no/file")); });
  CHECK(code == ExitCode::output_unwritable);
  CHECK_THAT(message, Contains("no/file: its file system tells no free space: No such file"));
}

TEST_CASE("folders of names, and streams among them") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  scratch.write("file", "");
  CHECK(folder_of("out") == ".");
  CHECK(folder_of("a/out") == "a");
  CHECK(folder_of("/out") == "/");
  CHECK(absolute_path("-") == "-");
  CHECK(absolute_path("").empty());
  CHECK(absolute_path("out") == (std::filesystem::current_path() / "out").string());
  struct Row {
    std::string path;
    bool stream;
  };
  for (const Row& row : {Row{"-", true}, Row{"/dev/null", true}, Row{scratch.path("pipe"), true},
                         Row{scratch.path("file"), false}, Row{scratch.path("none"), false},
                         Row{scratch.path(""), false}}) {
    INFO(row.path);
    CHECK(is_stream(row.path) == row.stream);
    CHECK(scratch_folder_of(row.path) == (row.stream ? "" : folder_of(row.path)));
  }
}

TEST_CASE("an output's folder must be there and writable, and the output is no folder") {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path("sub/out"));
  CHECK_NOTHROW(check_folder(scratch.path("sub/new")));
  struct Row {
    const char *path, *said;
  };
  for (const Row& row : {Row{"none/out", "none does not exist; make it first (mkdir -p)"},
                         Row{"sub/out", "is a folder; a file is wanted"}}) {
    INFO(row.path);
    const auto [code, message] = error_of([&] { check_folder(scratch.path(row.path)); });
    CHECK(code == ExitCode::output_unwritable);
    CHECK_THAT(message, Contains(row.said));
  }
  if (geteuid() == 0) return;  // root may write everywhere
  std::filesystem::permissions(scratch.path("sub"), std::filesystem::perms::owner_read);
  CHECK(error_of([&] { check_folder(scratch.path("sub/new")); }).first ==
        ExitCode::output_unwritable);
  std::filesystem::permissions(scratch.path("sub"), std::filesystem::perms::owner_all);
}

TEST_CASE("of two outputs that are one file the later one is blamed, an input never") {
  const Scratch scratch;
  const auto said = [&](const std::vector<UsedFile>& used) {
    const auto [code, message] = error_of([&] { check_distinct(used); });
    CHECK(code == ExitCode::usage);
    return message;
  };
  const std::string path = scratch.path("x");
  const UsedFile first{"-o", path, Use::write}, second{"--report", path, Use::write};
  CHECK_THAT(said({first, second}), Contains("--report " + path + ": is the file of -o too"));
  CHECK_THAT(said({second, first}), Contains("-o " + path + ": is the file of --report too"));
  const UsedFile read{"-i", path, Use::read};
  CHECK_THAT(said({read, first}), Contains("-o " + path + ": is the file of -i too"));
  CHECK_THAT(said({first, read}), Contains("-o " + path + ": is the file of -i too"));
}

TEST_CASE("where a file system cannot rename in one step a name that is taken stays") {
  for (const int lacking : {EINVAL, ENOSYS, EPERM}) {
    for (const bool taken : {true, false}) {
      INFO(strerrorname_np(lacking) << ", taken: " << taken);
      const Scratch scratch;
      scratch.write("from", "new");
      if (taken) scratch.write("to", "old");
      test::DiskRecorder recorder(scratch.path(""));
      bool asked = false;
      recorder.answer_with([&](const test::DiskCall& call) -> std::optional<test::DiskAnswer> {
        if (call.name != "rename" || std::exchange(asked, true)) return std::nullopt;
        return test::DiskAnswer{.error = lacking};
      });
      const ExitCode code =
          error_of([&] {
            rename_file(scratch.path("from"), scratch.path("to"), Existing::refuse);
          }).first;
      const bool renamed = lacking != EPERM && !taken;
      CHECK(code == (renamed            ? ExitCode::done
                     : lacking == EPERM ? ExitCode::output_unwritable
                                        : ExitCode::foreign_output));
      CHECK(scratch.has("from") == !renamed);
      CHECK(scratch.read("to") == (renamed ? "new" : taken ? "old" : ""));
    }
  }
}

TEST_CASE("a file that is not there is removed, one that stays is told of") {
  const Scratch scratch;
  scratch.write("file", "x");
  CHECK_NOTHROW(remove_file(scratch.path("none")));
  set_io_fault([](const char* call) { return std::string_view(call) == "unlink" ? EROFS : 0; });
  const auto [code, message] = error_of([&] { remove_file(scratch.path("file")); });
  set_io_fault(nullptr);
  CHECK(code == ExitCode::output_unwritable);
  CHECK_THAT(message, Contains("file: cannot be removed: Read-only file system"));
  CHECK_NOTHROW(remove_file(scratch.path("file")));
  CHECK(!scratch.has("file"));
}
