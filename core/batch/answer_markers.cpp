#include "batch/answer_markers.h"

#include <fmt/format.h>

#include <algorithm>

#include "batch/line_answers.h"
#include "batch/line_error.h"
#include "text/answer/messages.h"

namespace plimsoll::batch {
namespace {

bool has_special(const text::Tokenizer& tokenizer, std::span<const std::string_view> texts) {
  return std::ranges::any_of(texts, [&](std::string_view text) {
    return std::ranges::any_of(tokenizer.encode(text, text::AddSpecials::no),
                               [&](text::TokenId id) { return tokenizer.is_special(id); });
  });
}

std::vector<std::string> not_empty(std::span<const std::string_view> texts) {
  std::vector<std::string> kept;
  for (const std::string_view text : texts) {
    if (!text.empty()) kept.emplace_back(text);
  }
  return kept;
}

}  // namespace

AnswerMarkers::AnswerMarkers(const text::Tokenizer* tokenizer, const text::AnswerFormats& formats)
    : tokenizer_(tokenizer) {
  if (tokenizer == nullptr) return;
  formats_ = formats;
  if (formats.tools != nullptr) {
    tools_are_special_ = has_special(*tokenizer, text::markers_of(*formats.tools));
  }
  if (formats.reasoning != nullptr) {
    reasoning_is_special_ = has_special(*tokenizer, text::markers_of(*formats.reasoning));
  }
}

text::Thinking AnswerMarkers::thinking_of(std::string_view chat) const {
  if (formats_.reasoning == nullptr) return text::Thinking::unsaid;
  return text::thinking_of_prompt(*formats_.reasoning, chat);
}

void AnswerMarkers::apply(const LineHead& head, const RequestFields& fields, text::Thinking prompt,
                          engine::SamplingParams& sampling) const {
  const bool chat = head.endpoint == Endpoint::chat;
  if (fields.thinking_token_budget && (!chat || formats_.reasoning == nullptr)) {
    throw LineError(code::bad_field,
                    fmt::format("thinking_token_budget: {}",
                                chat ? "needs --reasoning-parser, which says how reasoning ends"
                                     : "needs messages: a prompt's answer has no reasoning"),
                    "thinking_token_budget");
  }
  // Markers that are special tokens must be in the text to be found.
  const text::AnswerFormats used = formats_of_line(head, fields, formats_);
  if ((used.tools != nullptr && tools_are_special_) ||
      (used.reasoning != nullptr && reasoning_is_special_)) {
    sampling.skip_special_tokens = false;
  }
  if (used.reasoning != nullptr) sampling.thinking = reasoning(fields, prompt);
}

std::shared_ptr<const engine::Thinking> AnswerMarkers::reasoning(const RequestFields& fields,
                                                                 text::Thinking prompt) const {
  if (prompt == text::Thinking::ended) return nullptr;
  if (!fields.thinking_token_budget && !fields.constraint) return nullptr;
  const text::ReasoningFormat& format = *formats_.reasoning;
  auto thinking = std::make_shared<engine::Thinking>();
  thinking->starts = not_empty(format.starts);
  thinking->ends = not_empty(format.ends);
  if (format.messages != nullptr) thinking->pauses = not_empty(format.messages->ends);
  // A call ends reasoning too; a grammar begins behind the marker alone.
  if (!format.call_begin.empty() && !fields.constraint) {
    thinking->ends.emplace_back(format.call_begin);
  }
  thinking->open = prompt == text::Thinking::open || format.unmarked == text::Unmarked::reasoning;
  thinking->budget = fields.thinking_token_budget;
  for (const std::string& start : thinking->starts) {
    thinking->start_tokens.push_back(tokenizer_->encode(start, text::AddSpecials::no));
  }
  const auto answer = fields.constraint ? text::AnswerKind::grammar : text::AnswerKind::free_text;
  thinking->end_tokens =
      tokenizer_->encode(text::forced_end(format, answer), text::AddSpecials::no);
  return thinking;
}

}  // namespace plimsoll::batch
