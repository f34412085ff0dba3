// Calls of tools in the text of an answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/answer/tool_format.h"

namespace plimsoll::text {

/// One call of a function that an answer asks for.
struct ToolCall {
  std::string id;  // as the answer has it (Kimi K2); empty in other formats
  std::string name;
  std::string arguments;  // JSON as Python's json.dumps spells it, or as the model wrote it
};

/// An answer's calls, and the text around them.
struct ToolAnswer {
  std::string reasoning = {};  // of formats in messages alone (messages.h)
  std::string content = {};    // all text that is no call, but for blanks between calls
  std::vector<ToolCall> calls = {};
  /// A call began that could not be read: its text is part of the content.
  bool has_unread_call = false;
};

/// Reads the calls out of a finished answer. `tools` are the request's (an array as OpenAI has it),
/// by whose schemas values of CallBody::tagged get their types. As in vLLM's parsers an answer in
/// JSON or Python whose calls cannot all be read stays text as a whole; in other formats each call
/// stands for itself. The time is linear in the text.
ToolAnswer read_tool_calls(const ToolFormat& format, std::string_view text,
                           const OrderedJson& tools);

/// Reads the calls of a text by the format's markers, whether or not its answers are messages.
ToolAnswer read_marked_calls(const ToolFormat& format, std::string_view text,
                             const OrderedJson& tools);

}  // namespace plimsoll::text
