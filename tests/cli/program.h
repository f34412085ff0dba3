// Runs build/plimsoll as a user would.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "batch/scratch.h"

namespace plimsoll::test {

struct Outcome {
  int status = 0;  // as a shell shows it: 128 + signal when killed
  std::string out, err;
};

/// PLIMSOLL_PROGRAM names another program than the build's: tests/mutate sets it.
inline const std::string kProgram = std::getenv("PLIMSOLL_PROGRAM") != nullptr
                                        ? std::getenv("PLIMSOLL_PROGRAM")
                                        : PLIMSOLL_BINARY_DIR "/plimsoll";
inline const std::string kModel = PLIMSOLL_SOURCE_DIR "/samples/sample-model";
/// Published configs, one file each.
inline const std::string kConfigs = PLIMSOLL_SOURCE_DIR "/samples/plans/configs/";

/// Runs `command` in a shell, with "plimsoll" and "$MODEL" meaning ours, on the CPU unless it says
/// otherwise. After `plimsoll ... &`, $! is a shell's; "$PROGRAM" is the process that signals
/// reach.
inline Outcome shell(const Scratch& scratch, const std::string& command) {
  // What `doctor` keeps of a machine is the scratch folder's, as limits are chosen by it.
  const std::string script = "export PLIMSOLL_DEVICE=cpu XDG_CACHE_HOME='" + scratch.path("cache") +
                             "'; PROGRAM='" + kProgram +
                             "'; plimsoll() { \"$PROGRAM\" \"$@\"; }; MODEL='" + kModel +
                             "'; cd '" + scratch.path("") + "'; " + command;
  scratch.write(".script", script);
  const std::string call = "timeout 100 bash '" + scratch.path(".script") + "' >'" +
                           scratch.path(".out") + "' 2>'" + scratch.path(".err") + "' </dev/null";
  const int status = std::system(call.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), scratch.read(".out"),
          scratch.read(".err")};
}

inline std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(parse_json<Json>(line));
  return lines;
}

}  // namespace plimsoll::test
