// Names of the program's functions, of those too that only their own file sees.
#pragma once

#include <string>

namespace plimsoll::ptx {

/// The mangled name of a function of this program, or "" (of a program without its symbols).
std::string symbol_of(const void* function);

}  // namespace plimsoll::ptx
