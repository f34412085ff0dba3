// Formats of Hunyuan, whose checkpoints end every tag with a suffix of their own:
// <tool_call:opensource>, <think:6124c78e>.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "text/answer/answer.h"
#include "text/tokenizer.h"

namespace plimsoll::text {

/// True when tags of one of the formats end with a suffix.
bool is_suffixed(const AnswerFormats& formats);
/// The suffix of a vocabulary's tags, with its colon; empty: they have none.
std::string tag_suffix(const Tokenizer& tokenizer);

/// Copies of formats, with the suffix in the tags of those that are `suffixed`.
class SuffixedFormats {
 public:
  SuffixedFormats(const AnswerFormats& formats, std::string_view suffix);
  SuffixedFormats(const SuffixedFormats&) = delete;
  SuffixedFormats& operator=(const SuffixedFormats&) = delete;

  /// The formats; they live as long as this.
  [[nodiscard]] const AnswerFormats& formats() const { return formats_; }

 private:
  void add_suffix(std::string_view& tag, std::string_view suffix);

  AnswerFormats formats_;
  ToolFormat tools_;
  ReasoningFormat reasoning_;
  std::deque<std::string> texts_;  // of the tags
};

}  // namespace plimsoll::text
