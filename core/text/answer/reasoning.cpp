#include "text/answer/reasoning.h"

#include <algorithm>
#include <optional>

#include "base/trim.h"
#include "text/answer/messages.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

// Markers as vLLM 0.33's parsers have them (vllm/reasoning/). Rows that read a template's marks
// come before those whose marks are parts of them.
constexpr ReasoningFormat kReasoningFormats[] = {
    {.names = {"openai_gptoss"},
     .starts = {"<|channel|>analysis<|message|>", ""},
     .ends = {"<|channel|>final<|message|>", ""},
     .messages = &kHarmonyMessages,
     .message_break = "<|end|><|start|>assistant",
     .marks = {"<|channel|>", "analysis"}},
    {.names = {"muse", "musespark1x"},
     .starts = {"to=self<|message|>", ""},
     .ends = {"to=user<|message|>", ""},
     .messages = &kMuseMessages,
     .message_break = "<|eom|><|start|>assistant ",
     .marks = {"<atem:invoke", "commentary"}},
    {.names = {"muse_glimmer"},
     .starts = {"to=self<|message|>", ""},
     .ends = {"to=user<|message|>", ""},
     .messages = &kMuseGlimmerMessages,
     .message_break = "<|eom|><|start|>assistant ",
     .marks = {"<atem:invoke", ""}},
    {.names = {"inkling"},
     .starts = {"<|content_thinking|>", ""},
     .ends = {"<|content_text|>", ""},
     .messages = &kInklingMessages,
     .message_break = "<|end_message|><|message_model|>",
     .marks = {"<|content_thinking|>", ""}},
    {.names = {"kimi_k3"},
     .starts = {"<|open|>think<|sep|>", ""},
     .ends = {"<|open|>response<|sep|>", ""},
     .messages = &kKimiMessages,
     .message_break = "<|close|>think<|sep|>",
     .marks = {"<|open|>", "<|close|>"}},
    {.names = {"gemma4"},
     .starts = {"<|channel>thought", "<|channel>"},
     .ends = {"<channel|>", ""},
     .call_begin = "<|tool_call>",
     .unmarked = Unmarked::ignored,
     .own_lines = true,
     .marks = {"<|channel>", "<channel|>"}},
    {.names = {"minimax_m3"},
     .starts = {"<mm:think>", ""},
     .ends = {"</mm:think>", ""},
     .marks = {"<mm:think>", ""}},
    {.names = {"k2_horizon"},
     .starts = {"<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"},
     .ends = {"</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"},
     .call_begin = "<ifm|tool_calls>",
     .marks = {"<ifm|think>", ""}},
    {.names = {"plamo3"},
     .starts = {"<|plamo:begin_think:plamo|>", ""},
     .ends = {"<|plamo:end_think:plamo|>", ""},
     .call_begin = "<|plamo:begin_tool_requests:plamo|>",
     .unmarked = Unmarked::reasoning,
     .marks = {"plamo:begin_think", ""}},
    {.names = {"seed_oss"},
     .starts = {"<seed:think>", ""},
     .ends = {"</seed:think>", ""},
     .unmarked = Unmarked::reasoning,
     .marks = {"<seed:think>", ""}},
    {.names = {"mistral"},
     .starts = {"[THINK]", ""},
     .ends = {"[/THINK]", ""},
     .unmarked = Unmarked::ignored,
     .marks = {"[THINK]", ""}},
    {.names = {"granite"},
     .starts = {"Here is my thought process:", "Here's my thought process:"},
     .ends = {"Here is my response:", "Here's my response:"},
     .unmarked = Unmarked::ignored,
     .needs_end = true,
     .marks = {"my thought process:", "my response:"}},
    {.names = {"cohere_command4"},
     .starts = {"<|START_THINKING|>", ""},
     .ends = {"<|END_THINKING|>", ""},
     .answer_begin = "<|START_TEXT|>",
     .answer_end = "<|END_TEXT|>",
     .marks = {"<|START_THINKING|>", "<|START_TEXT|>"}},
    {.names = {"cohere_command3"},
     .starts = {"<|START_THINKING|>", ""},
     .ends = {"<|END_THINKING|>", ""},
     .answer_begin = "<|START_RESPONSE|>",
     .answer_end = "<|END_RESPONSE|>",
     .marks = {"<|START_THINKING|>", "<|END_THINKING|>"}},
    {.names = {"hunyuan_a13b"},
     .starts = {"<think>", ""},
     .ends = {"</think>", ""},
     .unmarked = Unmarked::ignored,
     .needs_end = true,
     .own_lines = true,
     .answer_begin = "<answer>",
     .answer_end = "</answer>",
     .marks = {"</think>", "<answer>"}},
    {.names = {"ernie45"},
     .starts = {"<think>", ""},
     .ends = {"</think>", ""},
     .unmarked = Unmarked::reasoning,
     .answer_begin = "<response>",
     .answer_end = "</response>",
     .marks = {"</think>", "<response>"}},
    {.names = {"kimi_k2"},
     .starts = {"<think>", ""},
     .ends = {"</think>", ""},
     .call_begin = "<|tool_calls_section_begin|>",
     .unmarked = Unmarked::reasoning,
     .marks = {"</think>", "<|tool_calls_section_begin|>"}},
    {.names = {"hy_v3", "hy_v4"},
     .starts = {"<think>", ""},
     .ends = {"</think>", ""},
     .suffixed = true,
     .marks = {"<tool_calls", "<arg_key"}},
    {.names = {"qwen3", "glm45", "glm47", "ling3", "poolside_v1", "deepseek_v3", "deepseek_v4",
               "deepseek_v41", "holo2", "mimo", "nemotron_v3", "granite_thinking_parser",
               "minicpmv"},
     .starts = {"<think>", ""},
     .ends = {"</think>", ""},
     .marks = {"</think>", ""}},
    {.names = {"deepseek_r1", "minimax_m2", "step3", "step3p5", "step5", "olmo3"},
     .starts = {"<think>", ""},
     .ends = {"</think>", ""},
     .unmarked = Unmarked::reasoning,
     .marks = {"<think>", ""}},
};

/// A marker's place and length; at kNowhere: not there.
struct Found {
  size_t at = kNowhere;
  size_t size = 0;
};

/// The first of some markers in a text.
Found find_first(std::string_view text, std::span<const std::string_view> markers, size_t from) {
  Found first;
  for (const std::string_view marker : markers) {
    const size_t at = marker.empty() ? kNowhere : text.find(marker, from);
    if (at < first.at) first = {at, marker.size()};
  }
  return first;
}

bool ends_with_any(std::string_view text, std::span<const std::string_view> markers) {
  return std::ranges::any_of(
      markers, [&](std::string_view marker) { return !marker.empty() && text.ends_with(marker); });
}

/// Content without the texts around it that the format has.
std::string_view bare_content(const ReasoningFormat& format, std::string_view content) {
  if (format.answer_begin.empty()) return content;
  std::string_view inner = trimmed(content, kBlanks);
  if (!inner.starts_with(format.answer_begin)) return content;
  inner.remove_prefix(format.answer_begin.size());
  if (inner.ends_with(format.answer_end)) inner.remove_suffix(format.answer_end.size());
  return without_lines(inner);
}

}  // namespace

std::span<const ReasoningFormat> reasoning_formats() {
  return kReasoningFormats;
}

const ReasoningFormat* find_reasoning_format(std::string_view name) {
  return find_named(reasoning_formats(), name);
}

const ReasoningFormat* reasoning_format_of_template(std::string_view source) {
  return find_by_marks(reasoning_formats(), source);
}

Thinking thinking_of_prompt(const ReasoningFormat& format, std::string_view prompt) {
  const std::string_view text = trimmed(prompt, kBlanks);
  if (ends_with_any(text, format.ends)) return Thinking::ended;
  return ends_with_any(text, format.starts) ? Thinking::open : Thinking::unsaid;
}

std::string forced_end(const ReasoningFormat& format, AnswerKind answer) {
  std::string text(format.message_break);
  text += format.ends.front();
  if (answer == AnswerKind::grammar) text += format.answer_begin;
  return text;
}

SplitAnswer split_reasoning(const ReasoningFormat& format, std::string_view text,
                            Thinking thinking) {
  if (thinking == Thinking::ended) return {"", std::string(bare_content(format, text))};
  const bool opens = thinking == Thinking::open;
  Found start = find_first(text, format.starts, 0);
  Found end = find_first(text, format.ends, 0);
  // Behind a prompt's marker one at the start is a repetition, and others are part of the text.
  if (opens && start.at != kNowhere && !is_blank(text.substr(0, start.at))) start = {};
  if (end.at < start.at && format.unmarked != Unmarked::ignored) start = {};
  const bool marked = opens || start.at != kNowhere;
  if (!marked && format.unmarked == Unmarked::ignored) {
    return {"", std::string(bare_content(format, text))};
  }
  const size_t from = start.at == kNowhere ? 0 : start.at + start.size;
  end = find_first(text, format.ends, from);
  if (end.at == kNowhere && !format.call_begin.empty()) end.at = text.find(format.call_begin, from);
  if (end.at == kNowhere &&
      (format.needs_end || (!marked && format.unmarked == Unmarked::content))) {
    return {"", std::string(text)};
  }
  std::string before(text.substr(0, start.at == kNowhere ? 0 : start.at));
  if (is_blank(before)) before.clear();
  std::string_view reasoning = text.substr(from, end.at == kNowhere ? kNowhere : end.at - from);
  if (format.own_lines) reasoning = without_lines(reasoning);
  const std::string_view content =
      end.at == kNowhere ? std::string_view() : text.substr(end.at + end.size);
  return {std::string(reasoning), before + std::string(bare_content(format, content))};
}

}  // namespace plimsoll::text
