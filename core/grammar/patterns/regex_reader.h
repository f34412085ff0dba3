// The tree of a regular expression, between its reader and the automata.
#pragma once

#include <string_view>
#include <vector>

#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {

struct RegexNode {
  enum class Kind { set, sequence, choice, repeat, begin, end, look_ahead };
  Kind kind = Kind::sequence;
  CharSet set{};                      // of kind set
  std::vector<RegexNode> children{};  // of the other kinds
  uint32_t least = 0;                 // of kind repeat
  uint32_t most = UINT32_MAX;
  bool negative = false;  // of kind look_ahead
  bool asserts = false;   // has an anchor or a look-ahead in it
};

/// Throws RegexError.
RegexNode parse_regex(std::string_view pattern);

}  // namespace plimsoll::grammar
