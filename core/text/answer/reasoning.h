// Reasoning before an answer: one table of formats, under vLLM's names of its parsers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::text {

struct MessageFormat;  // messages.h

/// How a format takes a text in which reasoning does not begin with its marker.
enum class Unmarked : uint8_t {
  content,    // without a marker of either kind all is content
  reasoning,  // up to the end marker all is reasoning, because prompts may hold the first marker
  ignored,    // an end marker alone means nothing
};

struct ReasoningFormat {
  /// vLLM's names of the parser; the first one names the format.
  std::array<std::string_view, 16> names = {};
  std::array<std::string_view, 3> starts = {};
  std::array<std::string_view, 3> ends = {};
  /// Text that ends reasoning and belongs to what follows; empty: none.
  std::string_view call_begin = {};
  Unmarked unmarked = Unmarked::content;
  bool needs_end = false;  // without an end marker all is content
  bool own_lines = false;  // line ends at the reasoning's first and last place are the markers'
  /// Texts around the content that are left out.
  std::string_view answer_begin = {}, answer_end = {};
  const MessageFormat* messages = nullptr;  // answers are messages
  /// End of the reasoning's message and what the next one's header has before the first of `ends`.
  std::string_view message_break = {};
  bool suffixed = false;  // tags end with the checkpoint's suffix: <think:6124c78e>
  /// Texts that a chat template of this format has, all of them.
  std::array<std::string_view, 2> marks = {};
};

std::span<const ReasoningFormat> reasoning_formats();
/// The format of a name; null: there is none.
const ReasoningFormat* find_reasoning_format(std::string_view name);
/// The format whose marks a chat template has; null: none.
const ReasoningFormat* reasoning_format_of_template(std::string_view source);

/// What a prompt's last characters say of reasoning.
enum class Thinking : uint8_t {
  unsaid,
  open,   // the prompt ends with the start marker: the answer begins with reasoning
  ended,  // the prompt ends with the end marker: the answer has none
};
Thinking thinking_of_prompt(const ReasoningFormat& format, std::string_view prompt);

/// Whether the answer behind reasoning is free text or follows a grammar, which does not know the
/// texts around the content.
enum class AnswerKind : uint8_t { free_text, grammar };
/// The text that ends reasoning in its midst, up to where the answer's content begins.
std::string forced_end(const ReasoningFormat& format, AnswerKind answer);

struct SplitAnswer {
  std::string reasoning, content;
};
/// Parts an answer at its end marker. Text before a start marker is content.
SplitAnswer split_reasoning(const ReasoningFormat& format, std::string_view text,
                            Thinking thinking);

}  // namespace plimsoll::text
