// The formats of strings that are enforced, as automata.
#pragma once

#include <string_view>
#include <vector>

#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {

/// The texts of a format (README.md lists formats and sources), or null for a name that is only an
/// annotation.
DfaPtr format_dfa(std::string_view name);

/// Whether a format is known that no automaton stands for.
bool is_irregular_format(std::string_view name);

}  // namespace plimsoll::grammar
