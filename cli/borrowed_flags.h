// Borrowed flags: `run` takes the flags of `plan` and `plan` those of `run`, with a note.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/cli11_names.h"

namespace plimsoll::cli {

/// Another command's flags, and the options they are stored in; both live as long as the command.
struct OtherFlags {
  std::shared_ptr<CLI::App> flags;
  std::shared_ptr<void> options;
};

/// Declares on `command`, in no group of the help, every flag of `other` that it does not know. A
/// value is read as `other` reads it, and the flag's name goes to `given`, which must outlive the
/// parsing. Flags named in `but` stay unknown.
void borrow_flags(CLI::App& command, const OtherFlags& other, const std::vector<std::string>& but,
                  std::vector<std::string>& given);

}  // namespace plimsoll::cli
