// The place of one answer in its grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/compiler.h"
#include "grammar/forced_text.h"
#include "grammar/object_keys.h"

namespace plimsoll::grammar {

/// A token that a grammar does not take, though its mask may have had it: xgrammar's masks and its
/// parser differ for some grammars.
struct OutsideMask : std::logic_error {
  using std::logic_error::logic_error;
};

/// Follows the tokens of one answer and tells which may come next. Matchers of one grammar may work
/// in several threads at once; one matcher belongs to one thread at a time.
class Matcher {
 public:
  /// `ends`: tokens that end an answer, wherever the grammar may end; without any the answer ends
  /// where the grammar first may.
  Matcher(std::shared_ptr<const CompiledGrammar> grammar, std::vector<text::TokenId> ends);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// Takes the next token. Throws OutsideMask for one that the grammar does not take.
  void accept(text::TokenId token);
  /// True when the answer is whole: no token may follow.
  [[nodiscard]] bool ended() const;

  /// Outcome of fill_mask.
  enum class Next : uint8_t { tokens, ends_alone };
  /// Writes the mask of the next token: bit i % 32 of word i / 32 is set where token i may follow.
  /// In JSON, a token that would end a key which its object has already may not, if another may.
  /// `words` has mask_words() entries. Not after the end.
  Next fill_mask(std::span<int32_t> words);
  [[nodiscard]] size_t mask_words() const;

  /// The text that must come next, in whole characters, up to about `most` bytes. Where only the
  /// whitespace before it is free, it has what the answer put at such places before. The matcher
  /// stays where it is. Empty for a user's grammar that bounds a rule's tokens or characters, with
  /// which xgrammar cannot go back, and where looks ahead took more work than came of them.
  [[nodiscard]] std::string forced_text(size_t most);

 private:
  struct State;
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::vector<text::TokenId> ends_;  // ascending, each once
  std::unique_ptr<State> state_;
  /// Takes bytes of the answer: where they were foreseen, they pay for further looks ahead.
  void learn(std::string_view bytes);
  static constexpr int64_t kFirstWork = 40'000;  // of looks ahead, before any was right

  std::optional<ObjectKeys> keys_;  // of JSON
  WhitespaceHabit habit_;
  std::string foreseen_;  // what forced_text() told last and has not come yet
  int64_t work_left_ = kFirstWork;
};

}  // namespace plimsoll::grammar
