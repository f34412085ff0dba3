// Log probabilities as vLLM shows them: OpenAI's chat and completions shapes, and prompt_logprobs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "batch/json_text.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace plimsoll::batch {

/// One position of a completion: its token, and its log probabilities where there are any (the
/// first token of an echoed prompt has none).
struct TokenPosition {
  engine::TokenId token = 0;
  const engine::PositionLogprobs* logprobs = nullptr;
};

class LogprobsText {
 public:
  /// Without a tokenizer, token texts are empty and decoded_token is null.
  explicit LogprobsText(const text::Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  /// {"content":[{"token","logprob","bytes","top_logprobs":[...]}]}, the `top` best in order of
  /// rank.
  void chat(JsonText& out, std::span<const TokenPosition> positions, int64_t top) const;
  /// {"text_offset","token_logprobs","tokens","top_logprobs"}: four parallel arrays; offsets count
  /// characters.
  void completions(JsonText& out, std::span<const TokenPosition> positions) const;
  /// [null,{"42":{"logprob","rank","decoded_token"}}].
  void prompt(JsonText& out,
              std::span<const std::optional<engine::PositionLogprobs>> positions) const;

 private:
  [[nodiscard]] std::string decoded(engine::TokenId token) const;
  void chat_token(JsonText& out, engine::TokenId token, float logprob) const;

  const text::Tokenizer* tokenizer_;
};

}  // namespace plimsoll::batch
