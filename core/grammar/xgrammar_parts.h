// The parts of a compiled grammar that only this room's sources see.
#pragma once

#include <xgrammar/compiler.h>
#include <xgrammar/matcher.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/compiler.h"
#include "grammar/matcher.h"
#include "grammar/object_keys.h"

namespace plimsoll::grammar {

struct CompiledGrammar::Parts {
  xgrammar::CompiledGrammar compiled;
  std::optional<JsonSchema> schema;             // by which answers are validated
  std::shared_ptr<const KeyTokens> key_tokens;  // null: answers are not JSON
  bool goes_back = true;   // xgrammar's Rollback restores all of a matcher's state
  int64_t text_bytes = 0;  // of the grammar's rules

  /// The bytes of a token; none of a special one.
  [[nodiscard]] std::string_view bytes_of(text::TokenId token) const {
    const std::vector<std::string>& forms = compiled.GetTokenizerInfo().GetDecodedVocab();
    const auto at = static_cast<size_t>(token);
    return at < forms.size() ? std::string_view(forms[at]) : std::string_view();
  }
};

struct Matcher::State {
  xgrammar::GrammarMatcher matcher;
};

}  // namespace plimsoll::grammar
