// Calls of tools in every format: what a model writes is what is read.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "processor_time.h"
#include "text/answer/answer.h"
#include "text/call_writer.h"

using namespace plimsoll;
using namespace plimsoll::text;
using testing::write_calls;
using testing::WrittenCall;

namespace {

const OrderedJson kWeatherTools = OrderedJson::parse(R"([
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"},
    "scale": {"type": "number"}, "hours": {"type": "array", "items": {"type": "integer"}},
    "where": {"type": "object", "properties": {"lat": {"type": "number"}, "names": {"type": "array", "items": {"type": "string"}},
      "deep": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}}},
    "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "note": {"type": ["string", "null"]}}}}},
  {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}}])");

/// Answers of one or more calls; the first argument of each is a word that occurs nowhere else.
const std::vector<std::vector<WrittenCall>> kCalledAnswers = [] {
  std::vector<std::vector<WrittenCall>> answers;
  for (
      const char* text :
      {R"([["weather", {"city": "Bern"}]])", R"([["weather", {"city": "Basel", "days": 3}]])",
       R"([["get_time", {}]])", R"([["weather", {"city": "Zürich 東京 🌧", "unit": "°C"}]])",
       R"([["weather", {"city": "a \"quoted\" \\ back\\slash's end"}]])",
       R"([["weather", {"city": "two\nlines\tand a tab", "days": -7}]])",
       R"([["weather", {"exact": true, "city": "Chur", "scale": 2.5, "unit": null}]])",
       R"([["weather", {"exact": false, "scale": -0.125, "days": 0}]])",
       R"([["weather", {"where": {"lat": 46.9, "names": ["a", "b"], "deep": {"x": null}}, "hours": [1, 2, 3]}]])",
       R"([["weather", {"city": "Lugano"}], ["get_time", {}]])",
       R"([["weather", {"city": "Genf"}], ["weather", {"city": "Sion"}], ["weather", {"city": "Biel"}]])",
       R"([["weather", {"city": "{not: json} [at all]", "hours": []}]])",
       R"([["weather", {"city": "", "where": {}}]])",
       R"([["weather", {"city": "x < y && y > z <b>bold</b>", "days": 123456789012345678}]])"}) {
    std::vector<WrittenCall> calls;
    for (const OrderedJson& call : OrderedJson::parse(text)) {
      calls.push_back({call[0].get<std::string>(), call[1]});
    }
    answers.push_back(calls);
  }
  return answers;
}();

std::string labelled(const ToolFormat& format, const std::string& text) {
  return std::string(format.names.front()) + ": " + text;
}

void check_called(const ToolAnswer& answer, const std::vector<WrittenCall>& expected) {
  REQUIRE(answer.calls.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(answer.calls[i].name == expected[i].name);
    CHECK(Json::parse(answer.calls[i].arguments, nullptr, false) == Json(expected[i].arguments));
  }
}

/// True where calls of a format need to be marked, so that text may stand before them.
bool is_marked(const ToolFormat& format) {
  return !format.markers.front().begin.empty() || format.messages != nullptr;
}

}  // namespace

TEST_CASE("calls are read in every format, alone and behind text") {
  REQUIRE(kCalledAnswers.size() >= 12);
  for (const ToolFormat& format : tool_formats()) {
    for (const std::vector<WrittenCall>& calls : kCalledAnswers) {
      const std::string text = write_calls(format, calls);
      INFO(labelled(format, text));
      const ToolAnswer alone = read_tool_calls(format, text, kWeatherTools);
      check_called(alone, calls);
      CHECK(alone.content == "");
      CHECK_FALSE(alone.has_unread_call);
      if (!is_marked(format) || format.messages != nullptr) continue;
      const ToolAnswer behind =
          read_tool_calls(format, "Let me look.\n" + text + "\n", kWeatherTools);
      check_called(behind, calls);
      CHECK(behind.content == "Let me look.\n");
    }
  }
}

TEST_CASE("an answer without calls stays as it is, in every format") {
  const std::vector<std::string> texts = {"",
                                          "Good day.",
                                          "  \n",
                                          "{}",
                                          "[1, 2]",
                                          "{\"name\": \"Bern\"}",
                                          "[]",
                                          "x = f(1)",
                                          "He said: \"call me\".\n\n- a\n- b",
                                          "Preis: 5 €",
                                          "{\"a\": {\"b\": [1, {\"c\": \"}\"}]}}",
                                          "[{\"a\": 1}]",
                                          "[not python",
                                          "(1, 2)"};
  for (const ToolFormat& format : tool_formats()) {
    for (const std::string& text : texts) {
      INFO(labelled(format, text));
      const ToolAnswer answer = read_tool_calls(format, text, kWeatherTools);
      CHECK(answer.calls.empty());
      CHECK(answer.content == text);
      CHECK_FALSE(answer.has_unread_call);
    }
  }
}

TEST_CASE("an answer cut at any byte loses nothing, in every format") {
  for (const ToolFormat& format : tool_formats()) {
    for (const std::vector<WrittenCall>& calls : kCalledAnswers) {
      const std::string text = write_calls(format, calls);
      for (size_t cut = 0; cut <= text.size(); ++cut) {
        const std::string part = text.substr(0, cut);
        const ToolAnswer answer = read_tool_calls(format, part, kWeatherTools);
        std::string all = answer.reasoning + answer.content;
        for (const ToolCall& call : answer.calls) all += "\n" + call.name + "\n" + call.arguments;
        for (const std::string word : {"Bern", "Basel", "Lugano", "Genf", "Sion", "Biel", "bold",
                                       "slash", "lines", "Chur", "at all"}) {
          if (part.find(word) == std::string::npos || all.find(word) != std::string::npos) continue;
          FAIL_CHECK(labelled(format, part) << " lost " << word);
        }
        if (answer.calls.empty() && format.messages == nullptr && answer.content != part) {
          FAIL_CHECK(labelled(format, part) << " became " << answer.content);
        }
      }
    }
  }
}

TEST_CASE("hostile answers are read in time linear in their bytes") {
  std::vector<std::string> units = {"[", "{", "{\"a\":", "\"",   "\\",
                                    "<", "(", "f(",      "f(a=", "\xff"};
  for (const ToolFormat& format : tool_formats()) {
    std::vector<std::string> parts = units;
    for (const std::string_view marker : markers_of(format)) {
      if (!marker.empty()) parts.emplace_back(marker);
    }
    if (!format.markers.front().begin.empty()) {
      const std::string begin(format.markers.front().begin);
      parts.push_back(begin + "{\"name\": \"");
      parts.push_back(begin + std::string(format.tags.call_open) + "x");
      parts.push_back(begin + "[\"\",");
      parts.push_back(std::string(format.element) + "<x>");
      const std::string key =
          std::string(format.tags.key_open) + "k" + std::string(format.tags.key_close);
      parts.push_back(key + std::string(format.tags.value_open) + "x");
      parts.push_back(key + std::string(format.tags.value_open) + "x" +
                      std::string(format.tags.value_close) + "y");
    }
    for (const std::string& part : parts) {
      std::string text(format.markers.front().begin);
      text +=
          std::string(format.tags.call_open) + "f" + (format.tags.call_open.empty() ? "\n" : ">");
      while (text.size() < 200'000) text += part;
      INFO(labelled(format, part));
      const testing::ProcessorTime time;
      const ToolAnswer answer = read_tool_calls(format, text, kWeatherTools);
      CHECK(time.seconds() < 10);  // 0.2 s
      CHECK(answer.content.size() + answer.calls.size() > 0);
    }
  }
}

TEST_CASE("formats have names of vLLM's parsers, each once") {
  std::vector<std::string_view> names;
  for (const ToolFormat& format : tool_formats()) {
    for (const std::string_view name : format.names) {
      if (name.empty()) continue;
      CHECK(std::ranges::count(names, name) == 0);
      names.push_back(name);
      CHECK(find_tool_format(name) == &format);
    }
  }
  CHECK(names.size() == 58);
  CHECK(find_tool_format("") == nullptr);
  CHECK(find_tool_format("herms") == nullptr);
}
