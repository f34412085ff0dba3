// The forms of PTX's instructions: which function each has, and in which order its operands stand.
#pragma once

#include <string>

#include "ptx/names.h"

namespace plimsoll::ptx {

/// Sets the instruction's function and operands. Where a register is of another width than the
/// instruction, another one that fits it is put before. Throws std::runtime_error where the form is
/// not known.
void parse_form(Names& names, const Statement& statement, Instruction& to);

/// A form, by the first part of its name.
using Form = void (*)(Names&, const Statement&, Instruction&);
Form find_flow_form(const std::string& name);
Form find_memory_form(const std::string& name);

[[noreturn]] void not_known(const Statement& statement);

}  // namespace plimsoll::ptx
