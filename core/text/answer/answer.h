// A finished answer in its parts: reasoning, content, calls of tools.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/answer/reasoning.h"
#include "text/answer/tool_calls.h"
#include "text/answer/tool_format.h"

namespace plimsoll::text {

/// Formats of a model's answers; null: parts of that kind are not looked for.
struct AnswerFormats {
  const ToolFormat* tools = nullptr;
  const ReasoningFormat* reasoning = nullptr;
};

/// Texts that mark calls or reasoning.
std::vector<std::string_view> markers_of(const ToolFormat& format);
std::vector<std::string_view> markers_of(const ReasoningFormat& format);

/// Reads an answer's reasoning, then the calls in what follows it. `tools` are the request's.
ToolAnswer read_answer(const AnswerFormats& formats, std::string_view text, Thinking thinking,
                       const OrderedJson& tools);

/// Reads calls that a grammar made: an array of {"name": ..., "parameters": ...}. An answer that
/// was cut stays content.
ToolAnswer read_required_calls(std::string_view content);

}  // namespace plimsoll::text
