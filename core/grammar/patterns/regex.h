// Regular expressions of ECMA-262 (with the `u` flag, and what browsers take without it) as
// automata.
#pragma once

#include <stdexcept>
#include <string_view>

#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {

/// A malformed pattern, or one that no automaton stands for; names the construct and its place.
struct RegexError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Match { search, whole };

/// The texts in which the pattern is found, or that it matches as a whole. Throws RegexError for
/// back references, look-behind and word boundaries, TooLarge beyond the bounds.
Dfa dfa_of_regex(std::string_view pattern, Match match);

/// The code points with a Unicode property, as `\p{name}` names it. Throws RegexError if there is
/// none of that name.
CharSet property_set(std::string_view name);

}  // namespace plimsoll::grammar
