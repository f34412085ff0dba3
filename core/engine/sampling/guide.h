// What holds an answer to its form: the end of its reasoning, then its grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "grammar/matcher.h"

namespace plimsoll::engine {

/// Follows one answer. Reasoning (Thinking) is free of the grammar, and ends by its marker in the
/// text, or because its budget is used up: then the marker's tokens are the only ones that may
/// come.
class Guide {
 public:
  /// `params` must outlive it. `ends`: tokens that end an answer.
  Guide(const SamplingParams& params, std::vector<TokenId> ends);

  /// True when the request has a grammar or reasoning to follow.
  [[nodiscard]] bool holds() const { return matcher_.has_value() || thinking_ != Place::after; }
  /// The grammar, where the next token must follow it; else null.
  [[nodiscard]] grammar::Matcher* matcher() {
    return matcher_ && thinking_ == Place::after ? &*matcher_ : nullptr;
  }
  /// The only token that may come next, while the marker of an end is written.
  [[nodiscard]] std::optional<TokenId> forced() const;
  /// True when the answer is whole by its grammar.
  [[nodiscard]] bool ended() const {
    return matcher_ && thinking_ == Place::after && matcher_->ended();
  }

  /// Takes the next token. Throws std::logic_error for one that the mask excludes.
  void accept(TokenId token);
  /// Looks for the markers of reasoning in the answer's text so far, after each token.
  void look(std::string_view text);

 private:
  enum class Place : uint8_t { before, within, after };

  /// True where one of the markers ends in the text behind `searched_`, which then is behind it.
  bool find(std::string_view text, std::span<const std::string> markers);

  const SamplingParams& params_;
  std::optional<grammar::Matcher> matcher_;
  Place thinking_ = Place::after;
  int64_t tokens_ = 0;   // of the reasoning
  size_t written_ = 0;   // tokens of the forced marker
  size_t searched_ = 0;  // bytes of the text
};

}  // namespace plimsoll::engine
