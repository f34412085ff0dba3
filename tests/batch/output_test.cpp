#include "batch/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "batch/scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;
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

constexpr auto kRefuse = files::Existing::refuse;
constexpr auto kReplace = files::Existing::replace;

}  // namespace

TEST_CASE("a file appears when whole, in input order") {
  const Scratch scratch;
  auto output = open_output(scratch.path("out"), kRefuse);
  output->put(2, "c\n");
  output->put(0, "a\n");
  CHECK(scratch.read("out.part") == "c\na\n");
  CHECK(!scratch.has("out"));
  output->put(3, "");
  output->put(1, "b\n");
  output->publish();
  CHECK(scratch.read("out") == "a\nb\nc\n");
  CHECK(!scratch.has("out.part"));
  CHECK(!scratch.has("out.ordered.part"));
}

TEST_CASE("an empty output is published too") {
  const Scratch scratch;
  open_output(scratch.path("out"), kRefuse)->publish();
  CHECK(scratch.has("out"));
  CHECK(scratch.read("out").empty());
}

TEST_CASE("what is there is kept unless it may be replaced") {
  const Scratch scratch;
  scratch.write("out", "old\n");
  CHECK(code_of([&] { open_output(scratch.path("out"), kRefuse); }) == ExitCode::foreign_output);
  CHECK(scratch.read("out") == "old\n");
  CHECK(!scratch.has("out.part"));
  {
    auto output = open_output(scratch.path("out"), kReplace);
    output->put(0, "new\n");
    CHECK(scratch.read("out") == "old\n");
    output->publish();
  }
  CHECK(scratch.read("out") == "new\n");
}

TEST_CASE("the rest of an unfinished run is kept unless it may be replaced") {
  const Scratch scratch;
  {
    auto output = open_output(scratch.path("out"), kRefuse);
    output->put(5, "kept\n");
    output->keep();
  }
  CHECK(scratch.read("out.part") == "kept\n");
  CHECK(code_of([&] { open_output(scratch.path("out"), kRefuse); }) == ExitCode::foreign_output);
  CHECK(scratch.read("out.part") == "kept\n");
  open_output(scratch.path("out"), kReplace)->publish();
  CHECK(scratch.read("out").empty());
}

TEST_CASE("a run that fails before its first line leaves nothing") {
  const Scratch scratch;
  open_output(scratch.path("out"), kRefuse);
  CHECK(!scratch.has("out.part"));
}

TEST_CASE("outputs that cannot be written") {
  const Scratch scratch;
  CHECK(code_of([&] { open_output(scratch.path("no/out"), kRefuse); }) ==
        ExitCode::output_unwritable);
  CHECK(code_of([&] { open_output(scratch.path(""), kRefuse); }) == ExitCode::output_unwritable);
  CHECK(code_of([] { open_output("/dev/full", kRefuse)->put(0, "x\n"); }) ==
        ExitCode::output_unwritable);
  // The working file is never reached through a link.
  scratch.write("elsewhere", "mine\n");
  REQUIRE(symlink(scratch.path("elsewhere").c_str(), scratch.path("out.part").c_str()) == 0);
  CHECK(code_of([&] { open_output(scratch.path("out"), kReplace); }) ==
        ExitCode::output_unwritable);
  CHECK(scratch.read("elsewhere") == "mine\n");
}

TEST_CASE("two processes cannot write one output") {
  const Scratch scratch;
  auto output = open_output(scratch.path("out"), kRefuse);
  // Record locks belong to processes: look from another one.
  const pid_t child = fork();
  if (child == 0) {
    _exit(static_cast<int>(code_of([&] { open_output(scratch.path("out"), kReplace); })));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::locked));
}

TEST_CASE("a stream is written in input order, all of it, whatever the pipe") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);  // writes come back with EAGAIN and short counts
  std::string seen;
  std::thread reader([&] {
    char buffer[1000];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
      seen.append(buffer, static_cast<size_t>(got));
    }
  });
  const std::string big(1 << 20, 'b');
  {
    auto output = open_output("/dev/fd/" + std::to_string(ends[1]), kRefuse);
    close(ends[1]);
    output->put(1, big + "\n");
    CHECK(output->held_back() == big.size() + 1);
    output->put(0, "a\n");
    CHECK(output->held_back() == 0);
    output->put(3, "d\n");
    output->put(2, "");
    output->publish();
  }
  reader.join();
  close(ends[0]);
  CHECK(seen == "a\n" + big + "\nd\n");
}

TEST_CASE("lines behind a gap are written when a stream stops early") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  const int reading = open(scratch.path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  {
    auto output = open_output(scratch.path("pipe"), kRefuse);
    output->put(4, "e\n");
    output->put(2, "c\n");
    output->keep();
  }
  char buffer[16];
  REQUIRE(read(reading, buffer, sizeof buffer) == 4);
  close(reading);
  CHECK(std::string(buffer, 4) == "c\ne\n");
}
