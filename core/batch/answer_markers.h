// Texts that mark calls and reasoning in a model's answers, as sampling has to heed them.
#pragma once

#include <memory>

#include "batch/request_line.h"
#include "engine/request.h"
#include "text/answer/answer.h"
#include "text/tokenizer.h"

namespace plimsoll::batch {

class AnswerMarkers {
 public:
  /// `tokenizer` must outlive it; null: answers are token ids, which nobody reads.
  AnswerMarkers(const text::Tokenizer* tokenizer, const text::AnswerFormats& formats);

  /// Where a rendered chat leaves reasoning.
  [[nodiscard]] text::Thinking thinking_of(std::string_view chat) const;
  /// Sets reasoning and skip_special_tokens of a request. Throws LineError(bad_field) for a budget
  /// of reasoning where none is known.
  void apply(const LineHead& head, const RequestFields& fields, text::Thinking prompt,
             engine::SamplingParams& sampling) const;

 private:
  [[nodiscard]] std::shared_ptr<const engine::Thinking> reasoning(const RequestFields& fields,
                                                                  text::Thinking prompt) const;

  const text::Tokenizer* tokenizer_;
  text::AnswerFormats formats_;
  bool tools_are_special_ = false;     // markers of calls are special tokens
  bool reasoning_is_special_ = false;  // markers of reasoning are
};

}  // namespace plimsoll::batch
