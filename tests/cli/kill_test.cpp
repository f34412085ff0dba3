// SIGKILL at random moments, each time followed by the same command on other ranks, in another
// order, with other limits or with speculation, until it ends: nothing lost, nothing twice, the
// same bytes. PLIMSOLL_KILLS sets how many (100).
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

using Flags = std::vector<std::string>;
const Flags kFlags[] = {
    {"-tp", "1", "-pp", "1", "--max-num-seqs", "16"},
    {"-tp", "2", "-pp", "1", "--max-num-seqs", "16", "--order", "prefix"},
    {"-tp", "1", "-pp", "2", "--max-num-seqs", "auto", "--max-num-batched-tokens", "auto"},
    {"-tp", "2", "-pp", "2", "--max-num-seqs", "16", "--speculative-config",
     R"({"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":3})"}};

/// Starts the program; it is killed after `after`, unless it ends before. Its status, -1 if killed.
int life(const Scratch& scratch, const Flags& flags, std::chrono::microseconds after) {
  const std::string in = scratch.path("in");
  const std::string out = scratch.path("out");
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) dup2(nothing, stream);
    Flags words = {"plimsoll", "run", test::kModel, "-q",  "-i",        in,
                   "-o",       out,   "--device",   "cpu", "--threads", "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(test::kProgram.c_str(), arguments.data());
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

TEST_CASE("killed at random moments", "[kills]") {
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
    const Flags& flags = kFlags[random() % std::size(kFlags)];
    const int status = life(scratch, flags, std::chrono::milliseconds(milliseconds(random)));
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
    for (const char* name : {"out", "out.run.json", "out.run.texts"})
      std::filesystem::remove(scratch.path(name));
  }
  REQUIRE(life(scratch, kFlags[0], std::chrono::seconds(60)) == 3);
  CHECK(scratch.read("out") == expected);
  WARN(killed << " kills over " << ended + 1 << " runs");
}
