// Masks of matchers, and what a matcher takes, for tests with a tokenizer of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "grammar/compiler.h"
#include "grammar/matcher.h"

namespace plimsoll::testing {

inline constexpr text::TokenId kEnd = 256;  // behind the bytes

inline bool is_set(const std::vector<int32_t>& words, text::TokenId token) {
  const auto at = static_cast<size_t>(token);
  return (static_cast<uint32_t>(words[at / 32]) >> at % 32 & 1) != 0;
}

/// Whether a new matcher takes a token behind others.
inline bool takes(const std::shared_ptr<const grammar::CompiledGrammar>& grammar,
                  const std::vector<text::TokenId>& before, text::TokenId token) {
  grammar::Matcher matcher(grammar, {kEnd});
  for (const text::TokenId earlier : before) matcher.accept(earlier);
  try {
    matcher.accept(token);
    return true;
  } catch (const grammar::OutsideMask&) {
    return false;
  }
}

}  // namespace plimsoll::testing
