// Sets of JSON numbers as automata over the texts in which they are written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/decimal.h"
#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {

/// Numbers by their texts: plain decimals, and exponents as programs write them (1e-05 and smaller,
/// 1e+16 and larger). A text is surely in the set, or surely not, or neither, where an automaton
/// cannot tell an exponent's value; only the first are written.
struct NumberSet {
  DfaPtr in;
  DfaPtr out;
  bool loosened = false;  // a condition was left out: more may be in it, and in its complement too
};

NumberSet all_numbers();
NumberSet no_numbers();
/// `written_plainly`: 1.0 is none (drafts 3 and 4).
NumberSet integers(bool written_plainly);
NumberSet at_least(const Decimal& bound, bool or_equal);
NumberSet at_most(const Decimal& bound, bool or_equal);
/// Numbers without those that have a fraction and 16 digits or more before it, which readers of
/// doubles take for another number; surely out is none.
NumberSet without_large_fractions();
/// Throws TooLarge where a divisor has more than 4,000 residues.
NumberSet multiples_of(const Decimal& divisor);

/// The numbers of a set, each with all its spellings; none where they are more than `most`, or not
/// known.
std::vector<NumberSet> list_numbers(const NumberSet& set, size_t most);

NumberSet complement_of(const NumberSet& a);
NumberSet intersection_of(const NumberSet& a, const NumberSet& b);
NumberSet union_of(const NumberSet& a, const NumberSet& b);

}  // namespace plimsoll::grammar
