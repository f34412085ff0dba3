// Messages to people, which go to standard error, and the end of what was printed.
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
/// Ends what was printed to standard output. Throws Error(output_unwritable) where not all of it
/// could be written.
void flush_output();

}  // namespace plimsoll::cli
