// Exit status and message of a failure.
#pragma once

#include <string>

#include "base/error.h"

namespace plimsoll::cli {

struct Failure {
  ExitCode code = ExitCode::bug;
  std::string text;  // for standard error
};

/// The failure of the exception that is being handled.
Failure failure_in_hand();

}  // namespace plimsoll::cli
