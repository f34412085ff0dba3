// Readers of calls between a format's markers, one for each CallBody.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/answer/tool_calls.h"

namespace plimsoll::text {

/// Text that a body's reader looks at: the answer, and the place behind the opening marker.
struct CallText {
  std::string_view text;
  size_t at = 0;
  std::string_view end = {};  // marker that closes the calls; empty: none
  bool whole = false;         // the calls must fill the rest of the text
};

/// Place behind calls that were read, the closing marker with them; none where they cannot be read.
using CallsEnd = std::optional<size_t>;

CallsEnd read_json_calls(const ToolFormat& format, const CallText& from,
                         std::vector<ToolCall>& calls);
CallsEnd read_named_call(const ToolFormat& format, const CallText& from,
                         std::vector<ToolCall>& calls);
CallsEnd read_braced_call(std::string_view quote, const CallText& from,
                          std::vector<ToolCall>& calls);
CallsEnd read_python_calls(const CallText& from, std::vector<ToolCall>& calls);
CallsEnd read_tagged_calls(const CallTags& tags, const CallText& from, const OrderedJson& tools,
                           std::vector<ToolCall>& calls);
/// Calls of MiniMax M3: `mark` stands before every tag, and parameters are elements within
/// elements.
CallsEnd read_nested_calls(std::string_view mark, const CallText& from, const OrderedJson& tools,
                           std::vector<ToolCall>& calls);

/// A JSON or Python literal as JSON; none where the text is neither.
std::optional<std::string> json_of_literal(std::string_view text);

}  // namespace plimsoll::text
