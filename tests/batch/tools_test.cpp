// Tools of a line, and the calls and the reasoning of its answers.
#include <catch2/catch.hpp>
#include <string>

#include "batch/finished_line.h"
#include "batch/output_line.h"
#include "batch/read_request.h"
#include "batch/run_counts.h"
#include "batch/tool_chat.h"
#include "grammar/grammar.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;
using testing::batch_line;
using testing::finished_chat;
using testing::kAnswerOptions;
using testing::kOfferedTools;
using testing::read;
using testing::Read;
using testing::tool_chat;

namespace {

Json written_answer(FinishedLine line, const OutputOptions& options = kAnswerOptions) {
  read_parts(options.formats, nullptr, line);
  return Json::parse(answer_line(line, options));
}

const std::string kWrittenCall = R"(<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>)";

}  // namespace

TEST_CASE("tool_choice and what stands beside it") {
  using Choice = RequestFields::ToolChoice;
  const auto choice = [](const std::string& fields) {
    const Read line = read(tool_chat(fields));
    INFO(line.message);
    CHECK(line.code == "");
    return line.request.fields;
  };
  CHECK(choice(kOfferedTools).tool_choice == Choice::automatic);
  CHECK_FALSE(choice(kOfferedTools).constraint);
  CHECK(choice(kOfferedTools + R"(,"tool_choice":"none")").tool_choice == Choice::none);
  CHECK(choice(R"("tool_choice":"auto")").tool_choice == Choice::automatic);
  CHECK(choice(kOfferedTools + R"(,"tool_choice":null)").tool_choice == Choice::automatic);

  const RequestFields named =
      choice(kOfferedTools + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})");
  CHECK(named.forced_tool == "f");
  REQUIRE(named.constraint);
  CHECK(named.constraint->field == "tools");
  CHECK(Json::parse(named.constraint->text)["required"] == Json({"a"}));
  CHECK_FALSE(named.constraint->options.strict);

  const RequestFields required =
      choice(kOfferedTools + R"(,"tool_choice":"required","parallel_tool_calls":false)");
  REQUIRE(required.constraint);
  const Json schema = Json::parse(required.constraint->text);
  CHECK(schema["minItems"] == 1);
  CHECK(schema["maxItems"] == 1);
  // References of a function's schema stay within it.
  const grammar::JsonSchema checks(required.constraint->text);
  CHECK(checks.refuse(R"([{"name":"f","parameters":{"a":1}}])") == "");
  CHECK(checks.refuse(R"([{"name":"g","parameters":{"any":[]}}])") == "");
  CHECK(checks.refuse(R"([{"name":"f","parameters":{"a":"x"}}])") != "");
  CHECK(checks.refuse(R"([{"name":"f","parameters":{}}])") != "");
  CHECK(checks.refuse(R"([{"name":"h","parameters":{}}])") != "");
  CHECK(checks.refuse("[]") != "");
  CHECK_NOTHROW(checks.ebnf(required.constraint->options));

  struct Row {
    std::string fields, param, message;
  };
  const Row rows[] = {
      {R"("tool_choice":"required")", "tool_choice", "needs tools"},
      {R"("tools":[],"tool_choice":"required")", "tool_choice", "needs tools"},
      {kOfferedTools + R"(,"tool_choice":"any")", "tool_choice", "\"required\""},
      {kOfferedTools + R"(,"tool_choice":{"type":"function"})", "tool_choice", "\"function\""},
      {kOfferedTools + R"(,"tool_choice":{"type":"allowed_tools","function":{"name":"f"}})",
       "tool_choice", "expected"},
      {kOfferedTools + R"(,"tool_choice":{"type":"function","function":{"name":"h"}})",
       "tool_choice", "\"h\" is not among the tools"},
      {kOfferedTools + R"(,"tool_choice":"required","guided_choice":["a"])", "tool_choice",
       "beside"},
      {kOfferedTools + R"(,"tool_choice":"required","response_format":{"type":"json_object"})",
       "tool_choice", "beside"},
      {R"("tools":[{"type":"function"}],"tool_choice":"required")", "tools",
       "tools[0].function.name"},
      {R"("tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}],"tool_choice":"required")",
       "tools", "twice"},
      {R"("tools":[{"function":{"name":"f","parameters":[1]}}],"tool_choice":"required")", "tools",
       "tools[0].function.parameters"},
      {R"("tools":[1])", "tools", "array of objects"},
      {R"("tools":[{"type":null},{"type":"custom","custom":{"name":"f"}}])", "tools",
       "tools[1].type: expected function, found custom"},
      {R"("tools":[{"type":"web_search"}])", "tools",
       "tools[0].type: expected function, found web_search"},
      {R"("tools":[{"type":"function","name":"f","parameters":{}}])", "tools",
       "tools[0].function.name: expected a string"},
      {R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":"none")", "tools",
       "tools[0].function.name"},
      {R"("tools":[{"function":{"name":5}}])", "tools", "tools[0].function.name"},
      {R"("thinking_token_budget":"x")", "thinking_token_budget", "whole number"}};
  for (const Row& row : rows) {
    INFO(row.fields);
    const Read line = read(tool_chat(row.fields));
    CHECK(line.code == "bad_field");
    CHECK(line.param == row.param);
    CHECK_THAT(line.message, Contains(row.message));
  }
  // A response format of text forces nothing.
  CHECK(choice(kOfferedTools + R"(,"tool_choice":"required","response_format":{"type":"text"})")
            .constraint);
}

TEST_CASE("calls in a chat's answers stand as OpenAI has them") {
  const std::string text =
      batch_line(tool_chat(kOfferedTools + R"(,"n":2)"), "/v1/chat/completions");
  const FinishedLine line =
      finished_chat(text, {"Look.\n" + kWrittenCall + kWrittenCall, "No call."});
  const Json choices = written_answer(line)["response"]["body"]["choices"];
  const Json message = choices[0]["message"];
  CHECK(message["content"] == "Look.\n");
  REQUIRE(message["tool_calls"].size() == 2);
  const Json call = message["tool_calls"][1];
  CHECK(call["type"] == "function");
  CHECK(call["function"] == Json({{"name", "f"}, {"arguments", "{\"a\": 1}"}}));
  CHECK_THAT(call["id"].get<std::string>(), Catch::StartsWith("call_"));
  CHECK(call["id"] != message["tool_calls"][0]["id"]);
  CHECK(choices[0]["finish_reason"] == "tool_calls");
  CHECK(choices[1]["message"]["content"] == "No call.");
  CHECK_FALSE(choices[1]["message"].contains("tool_calls"));
  CHECK(choices[1]["finish_reason"] == "stop");
  const Json both = written_answer(
      finished_chat(text, {kWrittenCall, kWrittenCall}))["response"]["body"]["choices"];
  CHECK(both[0]["message"]["tool_calls"][0]["id"] != both[1]["message"]["tool_calls"][0]["id"]);
  // The line, the seed and nothing else decide ids.
  CHECK(written_answer(line)["response"]["body"]["choices"] == choices);
  OutputOptions seeded = kAnswerOptions;
  seeded.seed = 1;
  CHECK(written_answer(
            line, seeded)["response"]["body"]["choices"][0]["message"]["tool_calls"][0]["id"] !=
        message["tool_calls"][0]["id"]);

  SECTION("plain lines too") {
    const Json plain =
        written_answer(finished_chat(tool_chat(kOfferedTools), {kWrittenCall}))["choices"][0];
    CHECK(plain["text"] == "");
    CHECK(plain["tool_calls"][0]["function"]["name"] == "f");
    CHECK(plain["finish_reason"] == "tool_calls");
  }
  SECTION("content is null where there are calls alone") {
    const Json alone =
        written_answer(finished_chat(text, {kWrittenCall, ""}))["response"]["body"]["choices"];
    CHECK(alone[0]["message"]["content"].is_null());
  }
  SECTION("one call where parallel_tool_calls is off") {
    const Json one =
        written_answer(finished_chat(tool_chat(kOfferedTools + R"(,"parallel_tool_calls":false)"),
                                     {kWrittenCall + kWrittenCall}));
    CHECK(one["choices"][0]["tool_calls"].size() == 1);
  }
  SECTION("ids as templates of the format want them") {
    OutputOptions options = kAnswerOptions;
    options.formats.tools = text::find_tool_format("mistral");
    const Json mistral = written_answer(
        finished_chat(tool_chat(kOfferedTools), {R"([TOOL_CALLS]f{"a": 1})"}), options);
    CHECK(mistral["choices"][0]["tool_calls"][0]["id"].get<std::string>().size() == 9);
    options.formats.tools = text::find_tool_format("kimi_k2");
    const Json kimi = written_answer(
        finished_chat(tool_chat(kOfferedTools),
                      {"<|tool_call_begin|>functions.f:4<|tool_call_argument_begin|>{}"
                       "<|tool_call_end|>"}),
        options);
    CHECK(kimi["choices"][0]["tool_calls"][0]["id"] == "functions.f:4");
  }
}

TEST_CASE("calls are looked for where tools are offered, and nowhere else") {
  for (const std::string& line :
       {tool_chat("\"n\":1"), tool_chat(kOfferedTools + R"(,"tool_choice":"none")"),
        tool_chat(kOfferedTools + R"(,"guided_regex":".*")"), std::string(R"({"prompt":"x"})")}) {
    INFO(line);
    OutputOptions options = kAnswerOptions;
    options.formats.reasoning = nullptr;
    const Json choice = written_answer(finished_chat(line, {kWrittenCall}), options)["choices"][0];
    CHECK(choice["text"] == kWrittenCall);
    CHECK_FALSE(choice.contains("tool_calls"));
    CHECK_FALSE(choice.contains("reasoning"));
    CHECK(choice["finish_reason"] == "stop");
  }
}

TEST_CASE("calls that a grammar made") {
  const std::string required = kOfferedTools + R"(,"tool_choice":"required")";
  const std::string named =
      kOfferedTools + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})";
  const Json any = written_answer(
      finished_chat(tool_chat(required),
                    {R"([{"name":"f","parameters":{"a":1}},{"name":"g","parameters":{}}])"}));
  CHECK(any["choices"][0]["tool_calls"].size() == 2);
  CHECK(any["choices"][0]["tool_calls"][0]["function"]["arguments"] == "{\"a\": 1}");
  CHECK(any["choices"][0]["finish_reason"] == "tool_calls");
  const Json one = written_answer(finished_chat(tool_chat(named), {"<think>Hm.</think>{\"a\":1}"}));
  CHECK(one["choices"][0]["tool_calls"][0]["function"] ==
        Json({{"name", "f"}, {"arguments", "{\"a\":1}"}}));
  CHECK(one["choices"][0]["finish_reason"] == "stop");
  CHECK(one["choices"][0]["reasoning"] == "Hm.");
  const Json open = written_answer(finished_chat(tool_chat(named), {"<think>Hm."}));
  CHECK_FALSE(open["choices"][0].contains("tool_calls"));
  // An answer that was cut stays text.
  const Json cut = written_answer(finished_chat(tool_chat(required), {R"([{"name":"f","par)"}));
  CHECK(cut["choices"][0]["text"] == R"([{"name":"f","par)");
  CHECK_FALSE(cut["choices"][0].contains("tool_calls"));
}

TEST_CASE("reasoning stands apart from content") {
  const std::string line = batch_line(tool_chat("\"n\":1"), "/v1/chat/completions");
  const auto message = [&](const std::string& text,
                           text::Thinking thinking = text::Thinking::unsaid) {
    return written_answer(
        finished_chat(line, {text}, thinking))["response"]["body"]["choices"][0]["message"];
  };
  const Json both = message("<think>Hm.</think>Yes.");
  CHECK(both["reasoning"] == "Hm.");
  CHECK(both["reasoning_content"] == "Hm.");
  CHECK(both["content"] == "Yes.");
  CHECK(message("Yes.")["reasoning"].is_null());
  CHECK(message("Hm.", text::Thinking::open)["content"].is_null());
  CHECK(message("a</think>b", text::Thinking::ended)["content"] == "a</think>b");
  const Json without = written_answer(
      finished_chat(tool_chat(R"("include_reasoning":false)"), {"<think>Hm.</think>Yes."}));
  CHECK(without["choices"][0]["text"] == "Yes.");
  CHECK_FALSE(without["choices"][0].contains("reasoning"));
  // A prompt's answer has none.
  CHECK(written_answer(
            finished_chat(R"({"prompt":"x"})", {"<think>a</think>b"}))["choices"][0]["text"] ==
        "<think>a</think>b");
}

TEST_CASE("a run counts calls, and answers whose calls could not be read") {
  ToolCounts counts;
  const auto add = [&](const std::string& text, const std::vector<std::string>& answers,
                       const text::AnswerFormats& formats) {
    FinishedLine line = finished_chat(text, answers);
    read_parts(formats, nullptr, line);
    counts.add(line, formats.tools != nullptr);
  };
  add(tool_chat(kOfferedTools + R"(,"n":2)"), {kWrittenCall + kWrittenCall, "<tool_call>{"},
      kAnswerOptions.formats);
  add(tool_chat(kOfferedTools), {"none"}, kAnswerOptions.formats);
  add(tool_chat("\"n\":1"), {kWrittenCall}, kAnswerOptions.formats);
  add(tool_chat(kOfferedTools), {kWrittenCall}, {});
  add(tool_chat(kOfferedTools + R"(,"tool_choice":"required")"),
      {R"([{"name":"g","parameters":{}}])"}, {});
  CHECK(counts.lines == 3);
  CHECK(counts.calls == 3);
  CHECK(counts.unread == 1);
  CHECK(counts.untried == 1);
  auto cut = finished_chat(tool_chat(kOfferedTools), {"<tool_call>{"});
  cut.outputs[0].completions[0].finish = engine::FinishReason::length;
  read_parts(kAnswerOptions.formats, nullptr, cut);
  counts.add(cut, true);
  CHECK(counts.unread_cut == 1);
}

TEST_CASE("a forced call that is not there is an answer that could not be read") {
  const auto unread = [](const std::string& choice, const std::string& answer) {
    FinishedLine line =
        finished_chat(tool_chat(kOfferedTools + R"(,"tool_choice":)" + choice), {answer});
    read_parts(kAnswerOptions.formats, nullptr, line);
    ToolCounts counts;
    counts.add(line, true);
    CHECK(counts.lines == 1);
    CHECK(counts.unread + counts.calls == 1);
    return counts.unread == 1;
  };
  const std::string named = R"({"type":"function","function":{"name":"f"}})";
  CHECK_FALSE(unread("\"required\"", R"([{"name":"g","parameters":{}}])"));
  CHECK(unread("\"required\"", R"([{"name":"g","par)"));
  CHECK_FALSE(unread(named, R"({"a":1})"));
  CHECK(unread(named, "<think>Hm."));
}
