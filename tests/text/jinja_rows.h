// Rows of templates and their expected texts, shared by the tests of the Jinja interpreter.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "text/chat_template.h"

namespace plimsoll::text {
struct Row {
  const char* label;
  const char* source;
  const char* expected;
};

/// The variables that the rows use.
inline ChatInput sample() {
  static const OrderedJson variables = OrderedJson::parse(
      R"json({"s": "Hello World", "d": {"a": 1, "b": [1, 2, {"c": null}], "items": 5, "Z": 1.5}, "l": [3, 1, 2], "n": null, "people": [{"name": "b", "age": 2, "team": "X"}, {"name": "A", "age": 1, "team": "y"}, {"name": "c", "age": 3, "team": "x"}], "lines": "l1\n  l2\n\nl4\n", "html": "<b>\"&'</b>", "big": 12345678901234567890})json");
  ChatInput input;
  input.messages = OrderedJson::array();
  input.kwargs = variables;
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 1;
  now.tm_mday = 3;
  now.tm_hour = 14;
  now.tm_min = 5;
  now.tm_sec = 6;
  input.now = now;
  return input;
}

inline void check(const std::vector<Row>& rows) {
  const ChatInput input = sample();
  for (const Row& row : rows) {
    INFO(row.label << ": " << row.source);
    CHECK(ChatTemplate::parse(row.source).render(input) == row.expected);
  }
}

/// The message of the TemplateError.
inline std::string failure(const std::string& source) {
  try {
    return "rendered: " + ChatTemplate::parse(source).render(sample());
  } catch (const TemplateError& error) {
    return error.what();
  }
}

}  // namespace plimsoll::text
