// Whether a command may go on with a run that an earlier one began.
#pragma once

#include <string>
#include <string_view>

#include "batch/files/manifest.h"
#include "batch/files/resume.h"

namespace plimsoll::batch {

/// What differs between the job of a run and that of a command (see difference()). Empty where the
/// command may go on with the run: they are the same, or the command asks for more lines behind
/// those that the run had, or corrects lines that failed. `texts`: path of the run's texts.
std::string difference_from_run(const Manifest& run, const OrderedJson& job, Failed failed,
                                const std::string& texts);

/// How the user mends such a difference, as the end of an error message. Giving the same command
/// helps only where the program and the machine are the same too.
std::string cure_of(std::string_view difference, Failed failed, const Manifest& run,
                    const std::string& texts);

}  // namespace plimsoll::batch
