// Work in a process without the rights of root, whatever user runs the tests.
#pragma once

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "batch/scratch.h"

namespace plimsoll::test {

/// Calls `act` in a child process, as "nobody" where this process is root's; the child's user owns
/// the folder and its files from then on. Returns what `act` returned, or its exception's text.
inline std::string as_other_user(const Scratch& scratch, const std::function<std::string()>& act) {
  constexpr uid_t kNobody = 65534;
  const std::string folder = scratch.path("");
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string told;
    try {
      if (geteuid() == 0) {
        bool is_nobody = chown(folder.c_str(), kNobody, kNobody) == 0;
        for (const auto& file : std::filesystem::directory_iterator(folder)) {
          is_nobody = is_nobody && chown(file.path().c_str(), kNobody, kNobody) == 0;
        }
        is_nobody = is_nobody && setgroups(0, nullptr) == 0 && setgid(kNobody) == 0;
        if (!is_nobody || setuid(kNobody) != 0) throw std::runtime_error("cannot change the user");
      }
      told = act();
    } catch (const std::exception& error) {
      told = error.what();
    }
    _exit(write(ends[1], told.data(), told.size()) == std::ssize(told) ? 0 : 1);
  }
  close(ends[1]);
  std::string told;
  char some[256];
  for (ssize_t got = 0; (got = read(ends[0], some, sizeof some)) > 0;) {
    told.append(some, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? told : "the child did not end well";
}

}  // namespace plimsoll::test
