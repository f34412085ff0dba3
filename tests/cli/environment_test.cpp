// What the environment says, and the signals that it lets through.
#include "cli/environment.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "cli/signals.h"

using namespace plimsoll::cli;

namespace {

/// A variable of this process for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

enum class Before : uint8_t { usual, ignored };

/// Whether a process asks itself to stop at a signal that was ignored or not when it began.
bool stops_at(int number, Before before) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(number, before == Before::ignored ? SIG_IGN : SIG_DFL);
    const SignalFlags& flags = install_signal_handlers();
    raise(number);
    _exit(flags.stop ? 1 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

}  // namespace

TEST_CASE("OMP_NUM_THREADS counts from 1 on; nonsense and none count as unset") {
  struct Row {
    const char* value;
    std::optional<int> threads;
  };
  const Row rows[] = {{"3", 3},
                      {"1", 1},
                      {"4,2", 4},
                      {"0", std::nullopt},
                      {"-2", std::nullopt},
                      {"", std::nullopt},
                      {"many", std::nullopt},
                      {"99999999999", std::nullopt}};
  for (const Row& row : rows) {
    INFO("OMP_NUM_THREADS=" << row.value);
    const Variable threads("OMP_NUM_THREADS", row.value);
    CHECK(read_environment().threads == row.threads);
  }
}

TEST_CASE("a cache of 0 GiB is one, a terminal of 0 columns is none") {
  const Variable cache("VLLM_MM_INPUT_CACHE_GIB", "0");
  CHECK(read_environment().mm_input_cache == 0);
  {
    const Variable columns("COLUMNS", "0");
    CHECK_FALSE(read_environment().columns.has_value());
  }
  const Variable columns("COLUMNS", "133");
  CHECK(read_environment().columns == 133);
}

TEST_CASE("a signal stops the run, unless who started it had it ignored: nohup, background jobs") {
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    INFO(strsignal(number));
    CHECK(stops_at(number, Before::usual));
    CHECK_FALSE(stops_at(number, Before::ignored));
  }
}
