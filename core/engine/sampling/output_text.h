// The text of one choice, token by token, cut where a stop string is found.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/request.h"
#include "engine/sampling/stop_strings.h"
#include "text/tokenizer.h"

namespace plimsoll::engine {

class OutputText {
 public:
  /// Makes no text without a tokenizer or with params.detokenize off. `strings` (of params.stop)
  /// and `params` must outlive it.
  OutputText(const text::Tokenizer* tokenizer, std::span<const TokenId> prompt,
             const SamplingParams& params, const StopStrings& strings);

  /// Adds the text of a token; returns the stop string that it completes, or null. Within the first
  /// params.min_tokens tokens nothing stops.
  const std::string* push(TokenId token);
  /// Adds the text that was held back as an unfinished character.
  const std::string* finish();
  /// The text so far; it may still be cut at its end.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  const std::string* search();

  const SamplingParams& params_;
  std::optional<text::Detokenizer> detokenizer_;
  StopSearch search_;
  std::string text_;
  int64_t tokens_ = 0;
};

}  // namespace plimsoll::engine
