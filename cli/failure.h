// What a failure means to who called the program.
#pragma once

#include <string>

#include "base/error.h"

namespace plimsoll::cli {

struct Failure {
  ExitCode code = ExitCode::bug;
  std::string text;  // what standard error says of it
};

/// Of the exception that is being handled.
Failure failure_in_hand();

}  // namespace plimsoll::cli
