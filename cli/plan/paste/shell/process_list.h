// Lines as `ps` prints them, in which a command stands behind its process.
#pragma once

#include <string>

namespace plimsoll::cli {

/// The text with each line of `ps -ef` or `ps aux` replaced by its command, as a shell would read
/// it: `ps` prints words without their quotes, so that what braces hold together is one word.
std::string commands_of_process_list(const std::string& text);

}  // namespace plimsoll::cli
