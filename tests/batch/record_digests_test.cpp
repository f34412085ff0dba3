// Digests of finished lines: damage is found wherever it is, and what a crash may leave is no
// damage.
#include "batch/files/record_digests.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <sstream>

#include "batch/run_life.h"
#include "files/seam.h"
#include "recorder/disk_recorder.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::life_expected;
using test::life_input;
using test::live;
using test::Scratch;

namespace {

constexpr const char* kDigestFile = "out.part.xxh3";

/// A run that has stopped after six lines.
void begin_run(const Scratch& scratch, bool errors_apart = false) {
  scratch.write("in", life_input(20));
  REQUIRE(!live(scratch, {.stop_after = 6, .errors_apart = errors_apart}));
}

void check_refused(const Scratch& scratch, const std::string& told, bool errors_apart = false) {
  try {
    live(scratch, {.errors_apart = errors_apart});
    FAIL("went on");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::foreign_output);
    CHECK_THAT(error.what(), Catch::Contains(told));
  }
}

void check_goes_on(const Scratch& scratch) {
  CHECK(live(scratch, {}));
  CHECK(scratch.read("out") == life_expected(20, 60, true, true));
  CHECK(!scratch.has(kDigestFile));
}

std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line + (in.eof() ? "" : "\n"));
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

/// The text of a record, which is as whole as before with another letter in it.
std::string damaged(std::string record) {
  const size_t at = record.find("yyy");
  if (at != std::string::npos) return record.replace(at, 3, "yxy");
  return record.replace(record.find("\"m\""), 3, "\"n\"");
}

}  // namespace

TEST_CASE("a byte that changes in any finished line is found, and nothing is touched") {
  const Scratch scratch;
  begin_run(scratch);
  const std::vector<std::string> whole = pieces_of(scratch.read("out.part"));
  REQUIRE(whole.size() == 6);
  const std::string digests = scratch.read(kDigestFile);
  for (size_t i = 0; i < whole.size(); ++i) {
    INFO("line " << i + 1);
    std::vector<std::string> lines = whole;
    lines[i] = damaged(lines[i]);
    scratch.write("out.part", joined(lines));
    check_refused(scratch, "out.part, line " + std::to_string(i + 1) + " at byte ");
    check_refused(scratch, "sed -i '" + std::to_string(i + 1) + "d'");
    CHECK(scratch.read("out.part") == joined(lines));
    CHECK(scratch.read(kDigestFile) == digests);
    CHECK(!scratch.has("out"));
  }
  scratch.write("out.part", joined(whole));
  check_goes_on(scratch);
}

TEST_CASE("damaged lines are named together, and what is taken out is answered anew") {
  const Scratch scratch;
  begin_run(scratch);
  std::vector<std::string> lines = pieces_of(scratch.read("out.part"));
  for (const size_t i : {0, 2, 3, 5}) lines[i] = damaged(lines[i]);
  scratch.write("out.part", joined(lines));
  check_refused(
      scratch,
      "line 1 at byte 0: does not have the bytes that the run wrote there, nor have others; ");
  check_refused(scratch, "take the damaged lines out (sed -i '1d;3,4d;6d')");
  scratch.write("out.part", lines[1] + lines[4]);
  check_goes_on(scratch);
}

TEST_CASE("lines without digests behind a damaged one are kept when that is taken out") {
  const Scratch scratch;
  begin_run(scratch);
  std::vector<std::string> lines = pieces_of(scratch.read("out.part"));
  const std::vector<std::string> digests = pieces_of(scratch.read(kDigestFile));
  struct Row {
    size_t known;  // lines that have digests
    size_t damage;
    bool is_json;
  };
  for (const Row& row : {Row{4, 0, true}, Row{5, 0, true}, Row{4, 3, true}, Row{5, 4, true},
                         Row{4, 0, false}, Row{4, 3, false}, Row{5, 4, false}}) {
    const auto [known, damage, is_json] = row;
    INFO(known << " lines have digests, line " << damage + 1 << ", JSON: " << is_json);
    std::vector<std::string> some = lines;
    if (is_json) some[damage] = damaged(some[damage]);
    if (!is_json) some[damage][0] = 'x';
    scratch.write("out.part", joined(some));
    scratch.write(kDigestFile, joined({digests.begin(), digests.begin() + known}) + "123 45");
    check_refused(scratch, "take the damaged line out (sed -i '" + std::to_string(damage + 1));
    some.erase(some.begin() + static_cast<ptrdiff_t>(damage));
    scratch.write("out.part", joined(some));
    CHECK(!live(scratch, {.stop_after = 0}));
    CHECK(scratch.read("out.part") == joined(some));
  }
  check_goes_on(scratch);
}

TEST_CASE("failures in a file of their own have digests too") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  REQUIRE(!live(scratch, {.stop_after = 19, .errors_apart = true}));
  const std::string bad = scratch.read("bad.part");
  scratch.write("bad.part", damaged(bad));
  check_refused(scratch, "bad.part, line 1 at byte 0: does not have", true);
  scratch.write("bad.part", bad);
  CHECK(live(scratch, {.errors_apart = true}));
  CHECK(scratch.read("bad") == life_expected(20, 60, false, true));
  CHECK(!scratch.has("bad.part.xxh3"));
}

TEST_CASE("digests that a crash has taken leave their lines unchecked, and no line is lost") {
  const Scratch scratch;
  begin_run(scratch);
  const std::string part = scratch.read("out.part");
  const std::string digests = scratch.read(kDigestFile);
  for (size_t cut = 0; cut <= digests.size(); ++cut) {
    INFO("cut at " << cut);
    scratch.write("out.part", part);
    scratch.write(kDigestFile, digests.substr(0, cut));
    CHECK(!live(scratch, {.stop_after = 0}));
    CHECK(scratch.read("out.part") == part);
    CHECK(scratch.read(kDigestFile) == digests);  // noted anew
  }
  const auto whole = std::count(digests.begin(), digests.begin() + 70, '\n');
  std::vector<std::string> lines = pieces_of(part);
  lines[static_cast<size_t>(whole) - 1] = damaged(lines[static_cast<size_t>(whole) - 1]);
  scratch.write("out.part", joined(lines));
  scratch.write(kDigestFile, digests.substr(0, 70));
  check_refused(scratch, "line " + std::to_string(whole) + " at byte ");
  scratch.write("out.part", part);
  check_goes_on(scratch);
}

TEST_CASE("an output that was begun without digests goes on, and has them from then on") {
  const Scratch scratch;
  begin_run(scratch);
  const std::string digests = scratch.read(kDigestFile);
  std::filesystem::remove(scratch.path(kDigestFile));
  CHECK(!live(scratch, {.stop_after = 0}));
  CHECK(scratch.read(kDigestFile) == digests);
  const std::string part = scratch.read("out.part");
  scratch.write("out.part", R"({"id":"zz","choices":[],"error":null})"
                            "\n" +
                                part);
  std::filesystem::remove(scratch.path(kDigestFile));
  check_refused(scratch, "that " + scratch.path("in") + " does not have; input and output");
  std::filesystem::remove(scratch.path(kDigestFile));
  std::vector<std::string> lines = pieces_of(part);
  scratch.write("out.part", part);
  CHECK(!live(scratch, {.stop_after = 0}));
  lines[1] = damaged(lines[1]);
  scratch.write("out.part", joined(lines));
  check_refused(scratch, "line 2 at byte ");
  scratch.write("out.part", part);
  check_goes_on(scratch);
}

TEST_CASE("a file of digests that is damaged itself is named, and can go") {
  const Scratch scratch;
  begin_run(scratch);
  std::vector<std::string> lines = pieces_of(scratch.read(kDigestFile));
  lines[2][0] = 'x';
  scratch.write(kDigestFile, joined(lines));
  check_refused(scratch, std::string(kDigestFile) + ", line 3: is no digest of a record; remove");
  CHECK(scratch.read(kDigestFile) == joined(lines));
  std::filesystem::remove(scratch.path(kDigestFile));
  check_goes_on(scratch);
}

TEST_CASE("what is left of an earlier output counts for nothing in a new one") {
  const Scratch scratch;
  begin_run(scratch);
  std::filesystem::remove(scratch.path("out.part"));
  CHECK(!live(scratch, {.order = 2, .stop_after = 5}));
  CHECK(pieces_of(scratch.read(kDigestFile)).size() == 5);
  check_goes_on(scratch);
}

TEST_CASE("lines that a publication had moved are checked where they are") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  REQUIRE(!live(scratch, {.stop_after = 19}));
  {
    test::DiskRecorder disk(scratch.path(""));
    disk.answer_with([](const test::DiskCall& call) {
      const bool names = call.name == "rename" && call.to.filename() == "out";
      return names ? std::optional(test::DiskAnswer{.error = EIO}) : std::nullopt;
    });
    CHECK_THROWS_AS(live(scratch, {}), Error);
  }
  REQUIRE(scratch.has("out.ordered.part"));
  const std::vector<std::string> whole = pieces_of(scratch.read("out.ordered.part"));
  std::vector<std::string> lines = whole;
  lines[4] = damaged(lines[4]);
  scratch.write("out.ordered.part", joined(lines));
  const std::string part = scratch.read("out.part");
  check_refused(scratch, "out.ordered.part, line 5 at byte ");
  CHECK(scratch.read("out.part") == part);
  scratch.write("out.ordered.part", joined(whole));
  check_goes_on(scratch);
}

namespace {

int calls_of_life = 0;
int killed_call = 0;

int kill_at_call(const char*) {
  if (++calls_of_life == killed_call) raise(SIGKILL);
  return 0;
}

/// A life of its own process that is killed at a call; false when it ended before.
bool is_killed(const Scratch& scratch, int at) {
  const pid_t child = fork();
  if (child == 0) {
    calls_of_life = 0;
    killed_call = at;
    files::set_io_fault(kill_at_call);
    test::Life life{.stop_after = 10};
    life.options.fsync = Fsync::each;  // digests too
    try {
      live(scratch, life);
    } catch (const Error&) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}

}  // namespace

TEST_CASE("killed at any call, a line that was damaged since is found, and whole lines are kept") {
  size_t found = 0;
  for (int at = 1;; ++at) {
    INFO("killed at call " << at);
    const Scratch scratch;
    scratch.write("in", life_input(20));
    if (!is_killed(scratch, at)) break;
    const std::string part = scratch.read("out.part");
    if (!pieces_of(scratch.read(kDigestFile)).empty()) {
      std::vector<std::string> lines = pieces_of(part);
      lines[0] = damaged(lines[0]);
      scratch.write("out.part", joined(lines));
      check_refused(scratch, "out.part, line 1 at byte 0: does not have the bytes");
      scratch.write("out.part", part);
      ++found;
    }
    check_goes_on(scratch);
  }
  CHECK(found > 10);
}
