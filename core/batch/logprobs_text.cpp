#include "batch/logprobs_text.h"

#include <algorithm>
#include <unordered_set>

namespace plimsoll::batch {
namespace {

// OpenAI's number for "very unlikely", instead of minus infinity.
constexpr float kVeryUnlikely = -9999.0F;

float shown(float logprob) {
  return std::max(logprob, kVeryUnlikely);
}

int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

std::string LogprobsText::decoded(engine::TokenId token) const {
  return tokenizer_ ? tokenizer_->decode(std::span(&token, 1), text::Specials::keep)
                    : std::string();
}

void LogprobsText::chat_token(JsonText& out, engine::TokenId token, float logprob) const {
  out.key("token").string(decoded(token));
  out.key("logprob").number(shown(logprob));
  out.key("bytes");
  if (!tokenizer_) {
    out.null();
    return;
  }
  out.begin_array();
  for (const char byte : tokenizer_->token_bytes(token)) {
    out.integer(static_cast<unsigned char>(byte));
  }
  out.end_array();
}

void LogprobsText::chat(JsonText& out, std::span<const TokenPosition> positions,
                        int64_t top) const {
  out.begin_object().key("content").begin_array();
  for (const TokenPosition& position : positions) {
    if (!position.logprobs) continue;
    out.begin_object();
    chat_token(out, position.token, position.logprobs->front().logprob);
    engine::PositionLogprobs best = *position.logprobs;
    std::ranges::stable_sort(best, {}, &engine::TokenLogprob::rank);
    if (top >= 0 && best.size() > static_cast<size_t>(top)) best.resize(static_cast<size_t>(top));
    out.key("top_logprobs").begin_array();
    for (const engine::TokenLogprob& entry : best) {
      out.begin_object();
      chat_token(out, entry.token, entry.logprob);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().end_object();
}

void LogprobsText::completions(JsonText& out, std::span<const TokenPosition> positions) const {
  out.begin_object().key("text_offset").begin_array();
  int64_t offset = 0;
  for (const TokenPosition& position : positions) {
    out.integer(offset);
    offset += characters(decoded(position.token));
  }
  out.end_array().key("token_logprobs").begin_array();
  for (const TokenPosition& position : positions) {
    if (position.logprobs) {
      out.number(shown(position.logprobs->front().logprob));
    } else {
      out.null();
    }
  }
  out.end_array().key("tokens").begin_array();
  for (const TokenPosition& position : positions) out.string(decoded(position.token));
  out.end_array().key("top_logprobs").begin_array();
  for (const TokenPosition& position : positions) {
    if (!position.logprobs) {
      out.null();
      continue;
    }
    out.begin_object();
    // Tokens that print the same share a key; the first, which is the likelier, is shown.
    std::unordered_set<std::string> seen;
    for (const engine::TokenLogprob& entry : *position.logprobs) {
      // Without a tokenizer, ids keep the keys apart (vLLM's return_tokens_as_token_ids).
      std::string name =
          tokenizer_ ? decoded(entry.token) : "token_id:" + std::to_string(entry.token);
      const auto [key, fresh] = seen.insert(std::move(name));
      if (fresh) out.key(*key).number(shown(entry.logprob));
    }
    out.end_object();
  }
  out.end_array().end_object();
}

void LogprobsText::prompt(
    JsonText& out, std::span<const std::optional<engine::PositionLogprobs>> positions) const {
  out.begin_array();
  for (const auto& position : positions) {
    if (!position) {
      out.null();
      continue;
    }
    out.begin_object();
    for (const engine::TokenLogprob& entry : *position) {
      out.key(std::to_string(entry.token)).begin_object();
      out.key("logprob").number(shown(entry.logprob));
      out.key("rank").integer(entry.rank).key("decoded_token");
      if (tokenizer_) {
        out.string(decoded(entry.token));
      } else {
        out.null();
      }
      out.end_object();
    }
    out.end_object();
  }
  out.end_array();
}

}  // namespace plimsoll::batch
