// Every call that changes the disk fails or kills the process once, at each place where it happens:
// the next life ends with the same bytes.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "batch/run_life.h"
#include "files/seam.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Life;
using test::live;
using test::Scratch;

namespace {

int calls = 0;
int fault_at = 0;
int fault_error = 0;
enum class Mode : uint8_t { once, from_then_on, kill } mode = Mode::once;

int count_and_fail(const char*) {
  ++calls;
  if (calls < fault_at || fault_at == 0) return 0;
  if (mode == Mode::kill) raise(SIGKILL);
  return mode == Mode::from_then_on || calls == fault_at ? fault_error : 0;
}

// A life of several in a process of its own, with the fault; its exit status, -1 when killed.
int faulty_life(const Scratch& scratch, const Life& life) {
  const pid_t child = fork();
  if (child == 0) {
    calls = 0;
    files::set_io_fault(count_and_fail);
    try {
      live(scratch, life);
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int count_calls(const Life& life) {
  const Scratch scratch;
  scratch.write("in", test::life_input(life.lines));
  calls = 0;
  fault_at = 0;
  files::set_io_fault(count_and_fail);
  live(scratch, life);
  files::set_io_fault(nullptr);
  return calls;
}

void check_outputs(const Scratch& scratch, const Life& life) {
  CHECK(scratch.read("out") ==
        test::life_expected(life.lines, life.record_bytes, true, !life.errors_apart));
  if (life.errors_apart) {
    CHECK(scratch.read("bad") == test::life_expected(life.lines, life.record_bytes, false, true));
  }
  for (const char* name : {"out.part", "out.part.xxh3", "out.ordered.part", "bad.part",
                           "bad.part.xxh3", "bad.ordered.part"}) {
    INFO(name);
    CHECK(!scratch.has(name));
  }
}

// Fails call N of the first life, for all N; further lives end the run.
void fail_each_call(const Life& life, int error, Mode how) {
  const int total = count_calls(life);
  REQUIRE(total > 25);
  for (int at = 1; at <= total; ++at) {
    if (!testing::is_taken(static_cast<size_t>(at), 4)) continue;
    INFO("call " << at << " of " << total << ", error " << error << ", mode "
                 << static_cast<int>(how));
    const Scratch scratch;
    scratch.write("in", test::life_input(life.lines));
    fault_at = at;
    fault_error = error;
    mode = how;
    const int status = faulty_life(scratch, life);
    if (how == Mode::kill) {
      REQUIRE(status == -1);
    } else {
      // The life ends well where the file system cannot make holes, or a temporary stays.
      CHECK((status == static_cast<int>(ExitCode::output_unwritable) || status == 0));
    }
    // A second fault in the next life, then the end.
    fault_at = 3;
    (void)faulty_life(scratch, life);
    CHECK(live(scratch, life));
    check_outputs(scratch, life);
  }
}

}  // namespace

TEST_CASE("call N fails, for every N: no space, an error of the disk, once or from then on") {
  for (const bool errors_apart : {false, true}) {
    Life life{.errors_apart = errors_apart};
    life.options.fsync = errors_apart ? Fsync::each : Fsync::interval;
    for (const int error : {ENOSPC, EIO}) {
      fail_each_call(life, error, Mode::once);
      fail_each_call(life, error, Mode::from_then_on);
    }
  }
}

TEST_CASE("killed at call N, for every N, and once more in the next life") {
  for (const bool errors_apart : {false, true}) {
    fail_each_call({.errors_apart = errors_apart}, 0, Mode::kill);
  }
}

TEST_CASE("killed at every call of a publication that moves records on the way") {
  // Large enough for several rounds of moving: the journal's head is given back before the end.
  Life life{.lines = 40, .order = 3, .record_bytes = size_t{1} << 20};
  life.options.fsync = Fsync::end;
  const int total = count_calls(life);
  for (int at = total - 16; at <= total; ++at) {
    if (!testing::is_taken(static_cast<size_t>(at), 4)) continue;
    INFO("call " << at << " of " << total);
    const Scratch scratch;
    scratch.write("in", test::life_input(life.lines));
    fault_at = at;
    mode = Mode::kill;
    REQUIRE(faulty_life(scratch, life) == -1);
    CHECK(live(scratch, life));
    check_outputs(scratch, life);
  }
}

TEST_CASE("writes of one byte, and interrupted ones, change nothing") {
  const Scratch scratch;
  scratch.write("in", test::life_input(20));
  files::set_io_fault([](const char* call) {
    if (std::string_view(call) != "write") return 0;
    return ++calls % 3 == 0 ? EINTR : files::kShortWrite;
  });
  CHECK(live(scratch, {}));
  files::set_io_fault(nullptr);
  check_outputs(scratch, {});
}
