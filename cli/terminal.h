// Messages to people; all of them go to standard error.
#pragma once

#include <string_view>

#include "cli/environment.h"

namespace plimsoll::cli {

/// Whether standard error is a terminal that can redraw a line.
bool can_redraw(const Environment& environment);
/// Columns of the terminal.
int terminal_width(const Environment& environment);
/// Writes bytes unchanged; a reader that has gone away is no error.
void write_error_stream(std::string_view bytes);
/// Prints "plimsoll: MESSAGE" on a line of its own; control bytes escaped.
void say(std::string_view message);

}  // namespace plimsoll::cli
