// SIGKILL at random moments, each time followed by the same command on another number of ranks,
// until it ends: nothing lost, nothing twice, the same bytes. PLIMSOLL_KILLS sets how many
// (100).
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "cli/program.h"
#include "like_cases.h"

using namespace plimsoll;
using test::Scratch;
using test::shell;

namespace {

std::string batch_of(int lines) {
  std::string input;
  for (int i = 0; i < lines; ++i) {
    const std::string id = std::to_string(i);
    if (i % 50 == 7) {
      input += "{broken\n";
    } else if (i % 3 == 0) {
      input += "{\"custom_id\":\"c" + id +
               "\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"O " + id +
               "\",\"max_tokens\":" + std::to_string(1 + i * 7 % 40) + ",\"temperature\":0.8}}\n";
    } else {
      input += "{\"id\":\"" + id + "-\",\"prompt\":\"To be " + id +
               "\",\"max_tokens\":" + std::to_string(1 + i * 5 % 30) + ",\"temperature\":1}\n";
    }
  }
  return input;
}

struct Ranks {
  const char* tensor;
  const char* stages;
};
constexpr Ranks kRanks[] = {{"1", "1"}, {"2", "1"}, {"1", "2"}, {"2", "2"}};

/// Starts the program; it is killed after `after`, unless it ends before. Its status, -1 if killed.
int life(const Scratch& scratch, const Ranks& ranks, std::chrono::microseconds after) {
  const std::string in = scratch.path("in");
  const std::string out = scratch.path("out");
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) dup2(nothing, stream);
    execl(test::kProgram.c_str(), "plimsoll", "run", test::kModel.c_str(), "-q", "-i", in.c_str(),
          "-o", out.c_str(), "--device", "cpu", "--threads", "1", "--max-num-seqs", "16", "-tp",
          ranks.tensor, "-pp", ranks.stages, static_cast<char*>(nullptr));
    _exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + after;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= end) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("killed at random moments") {
  const char* wanted = std::getenv("PLIMSOLL_KILLS");
  const int kills = wanted ? std::atoi(wanted) : testing::times(100, 10);
  const Scratch scratch;
  scratch.write("in", batch_of(200));
  const auto undisturbed = shell(
      scratch, "plimsoll run $MODEL -q -i in -o whole --threads 1 --max-num-seqs 16; exit $?");
  REQUIRE(undisturbed.status == 3);  // the broken lines
  const std::string expected = scratch.read("whole");
  std::mt19937 random(20260821);
  std::uniform_int_distribution<int> milliseconds(1, 250);
  int killed = 0;
  int ended = 0;
  while (killed < kills) {
    const Ranks& ranks = kRanks[random() % std::size(kRanks)];
    const int status = life(scratch, ranks, std::chrono::milliseconds(milliseconds(random)));
    if (status == -1) {
      ++killed;
      continue;
    }
    REQUIRE(status == 3);
    ++ended;
    REQUIRE(scratch.read("out") == expected);
    for (const char* name : {"out.part", "out.part.xxh3", "out.running"}) {
      REQUIRE(!scratch.has(name));
    }
    for (const char* name : {"out", "out.run.json"}) std::filesystem::remove(scratch.path(name));
  }
  REQUIRE(life(scratch, kRanks[0], std::chrono::seconds(60)) == 3);
  CHECK(scratch.read("out") == expected);
  WARN(killed << " kills over " << ended + 1 << " runs");
}
