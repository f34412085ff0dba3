// Answers with calls and reasoning, changed at random as models garble them: read as they were when
// tests/data/digests was written (README there).
#include <fmt/format.h>

#include <string>
#include <vector>

#include "digests.h"
#include "text/answer/answer.h"
#include "text/answer_rows.h"
#include "text/call_writer.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using namespace plimsoll::text;

namespace {

constexpr int kChanges = 300;  // of the answers of a format

const std::vector<WrittenCall> kCalls = {
    {"get_weather",
     {{"city", "Zürich \"West\""}, {"days", 3}, {"flags", {"a", "b"}}, {"exact", true}}},
    {"get_weather", {{"unit", nullptr}, {"stops", {{{"hour", 7}}}}}},
    {"other", {{"x", 1.5}}}};

const std::vector<std::string> kPieces = {
    "{", "}",      "[",       "]",       "\"",        "'",         ",",    ":",
    "<", ">",      "</",      "\n",      "\\",        "null",      "True", "name",
    "(", ")",      "=",       "<think>", "</think>",  "arguments", " ",    "é",
    "0", "\u00a0", "```json", "<|end|>", "tool_call", "function",  "```",  "|"};

std::string changed(Draw& draw, std::string text, const std::vector<std::string_view>& markers) {
  for (size_t count = 1 + draw.below(3); count > 0 && !text.empty(); --count) {
    const size_t at = draw.below(text.size()), length = 1 + draw.below(8);
    switch (draw.below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, 4 * length));
        break;
      case 2:
        text.insert(at, draw.of(kPieces));
        break;
      case 3:
        text.erase(at);
        break;
      default:
        text.insert(at, markers.empty() ? "x" : draw.of(markers));
        break;
    }
  }
  return text;
}

std::string shown(const ToolAnswer& answer) {
  return fmt::format("{}|{}|{}|{}", shown_calls(answer), answer.content, answer.has_unread_call,
                     answer.reasoning);
}

}  // namespace

TEST_CASE("answers with calls, changed at random, are read as they were") {
  Digests digests("calls");
  for (const ToolFormat& format : tool_formats()) {
    const std::string name(format.names[0]);
    Draw draw(name);
    const std::string text = write_calls(format, kCalls);
    std::vector<Answered> all;
    for (int i = 0; i < kChanges; ++i) {
      const std::string other = changed(draw, text, markers_of(format));
      all.push_back({other, shown(read_tool_calls(format, other, kTypedTools))});
    }
    digests.compare(name, all);
  }
  digests.finish();
}

TEST_CASE("answers with reasoning, changed at random, are read as they were") {
  Digests digests("reasoning");
  for (const ReasoningFormat& format : reasoning_formats()) {
    const std::string name(format.names[0]);
    Draw draw(name);
    std::vector<Answered> all;
    for (int i = 0; i < kChanges; ++i) {
      const std::string text =
          fmt::format("{}2 and 2\n make 4.{}Four, é.", format.starts[0], format.ends[0]);
      const std::string other = changed(draw, text, markers_of(format));
      const auto thinking = static_cast<Thinking>(draw.below(3));
      const ToolFormat& tools = draw.of(tool_formats());
      const AnswerFormats formats{.tools = draw.below(2) == 0 ? &tools : nullptr,
                                  .reasoning = &format};
      all.push_back({other, shown(read_answer(formats, other, thinking, kTypedTools))});
    }
    digests.compare(name, all);
  }
  digests.finish();
}
