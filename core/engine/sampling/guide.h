// What holds an answer to its form: where its reasoning begins and ends, then its grammar.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace plimsoll::engine {

/// Follows one answer. An answer with a grammar begins with the marker of reasoning (Thinking) or
/// by the grammar. Reasoning is free of the grammar. It ends by its marker in the text, or because
/// its budget is used up: then the marker's tokens are the only ones that may come.
class Guide {
 public:
  /// `params` must outlive it. `ends`: tokens that end an answer.
  Guide(const SamplingParams& params, std::vector<TokenId> ends);

  /// True when the request has a grammar or reasoning to follow.
  [[nodiscard]] bool holds() const { return matcher_.has_value() || place_ != Place::after; }
  /// The only token that may come next, while a marker is written.
  [[nodiscard]] std::optional<TokenId> forced() const;
  /// True when the next token follows the grammar, or may be another's first: fill_mask says which.
  [[nodiscard]] bool masks() const {
    return matcher_ && !marker_ && (place_ == Place::before || place_ == Place::after);
  }
  /// As grammar::Matcher::fill_mask, with first tokens of reasoning's markers where it may begin.
  grammar::Matcher::Next fill_mask(std::span<int32_t> words);
  [[nodiscard]] size_t mask_words() const { return matcher_->mask_words(); }
  /// The tokens that come next with near certainty: the rest of a marker that is being written, or
  /// of the text that the grammar forces, cut as the tokenizer cuts it. `most`: bytes of that text
  /// that are looked for. Empty where the model has a choice, and at the answer's end.
  [[nodiscard]] std::vector<TokenId> foresee(const text::Tokenizer& tokenizer, size_t most);
  /// True when the answer is whole by its grammar.
  [[nodiscard]] bool ended() const {
    return matcher_ && place_ == Place::after && matcher_->ended();
  }

  /// Takes the next token. Throws grammar::OutsideMask for one that the grammar does not take.
  void accept(TokenId token);
  /// Looks for the markers of reasoning in the answer's text so far, after each token.
  void look(std::string_view text);

 private:
  enum class Place : uint8_t {
    before,   // reasoning
    within,   // a text or message of it
    between,  // messages: others may follow, of any kind
    after,
  };
  using Texts = std::span<const std::string>;

  void enter();
  /// Takes the first token of an answer with a grammar.
  void begin(TokenId token);
  void write(const std::vector<TokenId>& marker, size_t written);
  /// The number of the kind whose marker ends first in the text behind `searched_`, which then is
  /// behind it; none: there is no marker.
  std::optional<size_t> find(std::string_view text, std::initializer_list<Texts> kinds);

  const SamplingParams& params_;
  std::optional<grammar::Matcher> matcher_;
  Place place_ = Place::after;
  int64_t tokens_ = 0;                            // of the reasoning
  const std::vector<TokenId>* marker_ = nullptr;  // that is being written
  size_t written_ = 0;                            // tokens of it
  size_t searched_ = 0;                           // bytes of the text
};

}  // namespace plimsoll::engine
