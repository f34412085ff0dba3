// Rows of answers as models write them, and what is read of each.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "text/answer/answer.h"

namespace plimsoll::testing {

inline const OrderedJson kTypedTools = OrderedJson::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "flags": {"type": "array"},
    "exact": {"type": "boolean"}, "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "stops": {"type": "array", "items": {"type": "object", "properties": {"hour": {"type": "integer"}}}}}}}}])");

struct AnswerRow {
  const char* format;
  std::string text;
  /// NAME(ARGUMENTS) of each call, a line each.
  std::string calls;
  std::string content;
  bool unread = false;
  std::string reasoning = {};
};

inline std::string shown_calls(const text::ToolAnswer& answer) {
  std::string text;
  for (const text::ToolCall& call : answer.calls) {
    text += (text.empty() ? "" : "\n") + call.name + "(" + call.arguments + ")";
  }
  return text;
}

inline void check_rows(const std::vector<AnswerRow>& rows) {
  for (const AnswerRow& row : rows) {
    INFO(row.format << ": " << row.text);
    const text::ToolFormat* format = text::find_tool_format(row.format);
    REQUIRE(format != nullptr);
    const text::ToolAnswer answer = text::read_tool_calls(*format, row.text, kTypedTools);
    CHECK(shown_calls(answer) == row.calls);
    CHECK(answer.content == row.content);
    CHECK(answer.has_unread_call == row.unread);
    // Rows of channels say nothing of the reasoning.
    if (!row.reasoning.empty()) CHECK(answer.reasoning == row.reasoning);
  }
}

}  // namespace plimsoll::testing
