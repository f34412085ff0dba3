// The program as a child process of the test, which sends it signals directly, because a shell's
// background jobs ignore SIGINT.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/program.h"

namespace plimsoll::test {

class Child {
 public:
  /// Starts `plimsoll ARGUMENTS` on the CPU in `scratch`'s folder, its streams in "stdout" and
  /// "stderr" there. `before` runs in the child, before the program.
  Child(
      const Scratch& scratch, std::vector<std::string> arguments,
      const std::function<void()>& before = [] {})
      : folder_(scratch.path("")), pid_(fork()) {
    if (pid_ == 0) become(std::move(arguments), before);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const {
    if (pid_ > 0) ::kill(pid_, number);  // -1 would be everybody
  }

  /// Waits until `there` is true, half a minute at most; throws if the child ends before.
  void until(const std::function<bool()>& there) {
    for (int i = 0; i < 3000; ++i) {
      if (there()) return;
      if (waitpid(pid_, nullptr, WNOHANG | WNOWAIT) == pid_) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("the child ended, or nothing came");
  }
  /// Waits for the end; returns the status as a shell shows it.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  [[noreturn]] void become(std::vector<std::string> arguments,
                           const std::function<void()>& before) const {
    if (chdir(folder_.c_str()) != 0) _exit(126);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    std::signal(SIGINT, SIG_DFL);
    setenv("PLIMSOLL_DEVICE", "cpu", 1);
    before();
    std::vector<char*> words{const_cast<char*>("plimsoll")};
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    execv(kProgram.c_str(), words.data());
    _exit(127);
  }

  std::string folder_;
  pid_t pid_;
};

inline double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace plimsoll::test
