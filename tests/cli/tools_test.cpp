// Tools and reasoning in the answers of the sample model, which calls because it must.
#include <catch2/catch.hpp>
#include <string>

#include "cli/program.h"

using namespace plimsoll;
using Catch::Contains;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

const std::string kGreetingTools =
    R"("tools":[{"type":"function","function":{"name":"greet","parameters":{"type":"object","properties":)"
    R"({"who":{"enum":["Romeo","Juliet"]},"times":{"type":"integer","minimum":1,"maximum":9}},)"
    R"("required":["who","times"],"additionalProperties":false}}},)"
    R"({"type":"function","function":{"name":"leave","parameters":{"type":"object","properties":{},)"
    R"("additionalProperties":false}}}])";

std::string tool_chat(const std::string& id, const std::string& fields) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/chat/completions","body":)" +
         R"({"messages":[{"role":"user","content":"Who is there?"}],"max_tokens":90,)" + fields +
         "}}\n";
}

/// The first choice of each line.
std::map<std::string, Json> first_choices(const std::string& output) {
  std::map<std::string, Json> found;
  for (const Json& line : json_lines(output)) {
    const Json& body = line["response"]["body"];
    found[line["custom_id"]] = body.contains("error") ? body["error"] : body["choices"][0];
  }
  return found;
}

void check_greeting(const Json& arguments) {
  const Json greeting = Json::parse(arguments.get<std::string>());
  CHECK((greeting["who"] == "Romeo" || greeting["who"] == "Juliet"));
  CHECK(greeting["times"] <= 9);
}

}  // namespace

TEST_CASE("forced calls follow their functions' schemas, and a run goes on with the same bytes") {
  const Scratch scratch;
  std::string input;
  for (const char* id : {"a", "b", "c"}) {
    input += tool_chat(
        std::string("named-") + id,
        kGreetingTools + R"(,"tool_choice":{"type":"function","function":{"name":"greet"}})");
    input +=
        tool_chat(std::string("any-") + id,
                  kGreetingTools +
                      R"(,"tool_choice":"required","parallel_tool_calls":false,"temperature":0.9)");
  }
  input +=
      tool_chat("offered", kGreetingTools) +
      tool_chat("unknown", kGreetingTools + R"(,"tool_choice":"requird")") +
      tool_chat("missing", R"("tool_choice":"required")") +
      tool_chat("schema",
                R"("tools":[{"function":{"name":"f","strict":true,"parameters":{"type":"object",)"
                R"("properties":{"a":{"type":"strin"}}}}}],"tool_choice":"required")");
  scratch.write("in", input);
  const Outcome run = shell(scratch, "plimsoll run $MODEL -i in -o out --report report");
  INFO(run.err);
  REQUIRE(run.status == 3);
  CHECK_THAT(run.err, Contains("1 of 7 lines with a schema or grammar cannot be answered"));
  CHECK_THAT(run.err, Contains("tools: 6 calls in the answers to 6 lines"));
  CHECK_THAT(run.err, Contains("tools: calls were not looked for in the answers to 1 line"));
  std::map<std::string, Json> found = first_choices(scratch.read("out"));
  for (const char* id : {"a", "b", "c"}) {
    const Json named = found[std::string("named-") + id];
    INFO(named.dump());
    REQUIRE(named["message"]["tool_calls"].size() == 1);
    CHECK(named["message"]["tool_calls"][0]["function"]["name"] == "greet");
    check_greeting(named["message"]["tool_calls"][0]["function"]["arguments"]);
    CHECK(named["message"]["content"].is_null());
    CHECK(named["finish_reason"] == "stop");
    const Json any = found[std::string("any-") + id];
    INFO(any.dump());
    REQUIRE(any["message"]["tool_calls"].size() == 1);
    const Json function = any["message"]["tool_calls"][0]["function"];
    if (function["name"] == "greet") {
      check_greeting(function["arguments"]);
    } else {
      CHECK(function == Json({{"name", "leave"}, {"arguments", "{}"}}));
    }
    CHECK(any["finish_reason"] == "tool_calls");
  }
  CHECK_FALSE(found["offered"]["message"].contains("tool_calls"));
  CHECK(found["unknown"]["param"] == "tool_choice");
  CHECK(found["missing"]["param"] == "tool_choice");
  CHECK_THAT(found["schema"]["message"].get<std::string>(),
             Contains("at \"tools[0].function.parameters/properties/a\""));
  const Json tools = Json::parse(scratch.read("report"))["tools"];
  CHECK(tools == Json({{"lines", 6},
                       {"calls", 6},
                       {"unread_answers", 0},
                       {"unread_cut_answers", 0},
                       {"lines_without_parser", 1}}));
  const Json structured = Json::parse(scratch.read("report"))["structured"];
  CHECK(structured["lines"] == 7);
  CHECK(structured["refused_lines"] == 1);
  CHECK(structured["answers"] == 6);
  CHECK(structured["grammars"] == 3);
  CHECK(structured["compile_seconds"] > 0);

  const std::string again = "plimsoll run $MODEL -q -i in -o again ";
  REQUIRE(shell(scratch, again + "--limit 3").status == 0);
  REQUIRE(shell(scratch, again).status == 3);
  CHECK(scratch.read("again") == scratch.read("out"));
  // The parsers are part of the run.
  CHECK(shell(scratch, again + "--tool-call-parser hermes").status == 8);
  CHECK(shell(scratch, again + "--reasoning-parser qwen3").status == 8);
  const Outcome dry = shell(scratch, "plimsoll run $MODEL -i in --dry-run");
  CHECK_THAT(dry.out, Contains("3 refused"));
}

TEST_CASE("reasoning ends by its budget, and then the schema begins") {
  const Scratch scratch;
  const std::string form = R"("structured_outputs":{"regex":"[A-Z]{3}-[0-9]{2}"})";
  // The template opens the reasoning, or says that there is none.
  scratch.write("open.jinja", "{{ messages[0].content }}\n<think>\n");
  scratch.write(
      "in",
      tool_chat("free", form + R"(,"thinking_token_budget":7,"min_tokens":20)") +
          tool_chat("none", form + R"(,"thinking_token_budget":0)") +
          tool_chat("ended",
                    form + R"(,"thinking_token_budget":5,"chat_template":"x<think></think>")") +
          tool_chat("hidden", form + R"(,"thinking_token_budget":7,"include_reasoning":false)") +
          tool_chat("text", R"("thinking_token_budget":3)"));
  const std::string run = "plimsoll run $MODEL -i in -o out --chat-template open.jinja ";
  const Outcome with = shell(scratch, run + "--reasoning-parser qwen3");
  INFO(with.err);
  REQUIRE(with.status == 0);
  std::map<std::string, Json> found = first_choices(scratch.read("out"));
  const auto is_form = [](const Json& content) {
    const auto text = content.get<std::string>();
    return text.size() == 6 && text[3] == '-';
  };
  for (const char* id : {"free", "none", "ended", "hidden"}) {
    INFO(id << ": " << found[id].dump());
    CHECK(is_form(found[id]["message"]["content"]));
    CHECK(found[id]["message"].contains("reasoning") == (std::string(id) != "hidden"));
  }
  CHECK(found["free"]["message"]["reasoning"].get<std::string>().size() > 3);
  CHECK(found["none"]["message"]["reasoning"].is_null());
  CHECK(found["ended"]["message"]["reasoning"].is_null());
  CHECK(found["text"]["message"]["reasoning"].is_string());
  for (const char* flags : {"--max-num-seqs 1", "-tp 2"}) {
    const Outcome again = shell(scratch,
                                "plimsoll run $MODEL -q -i in -o again --overwrite "
                                "--chat-template open.jinja --reasoning-parser qwen3 " +
                                    std::string(flags));
    INFO(flags << ": " << again.err);
    CHECK(scratch.read("again") == scratch.read("out"));
  }
  // Without the flag a budget has no meaning, and answers stay as they are.
  REQUIRE(shell(scratch, run + "--overwrite").status == 3);
  found = first_choices(scratch.read("out"));
  CHECK(found["text"]["param"] == "thinking_token_budget");
  CHECK_THAT(found["text"]["message"].get<std::string>(), Contains("--reasoning-parser"));
}

TEST_CASE("parsers are known by their names") {
  const Scratch scratch;
  scratch.write("in", tool_chat("a", "\"n\":1"));
  const Outcome tool = shell(scratch, "plimsoll run $MODEL -i in -o out --tool-call-parser herms");
  CHECK(tool.status == 2);
  CHECK_THAT(tool.err, Contains("--tool-call-parser: expected one of auto, none, ") &&
                           Contains("did you mean hermes?"));
  const Outcome reasoning =
      shell(scratch, "plimsoll run $MODEL -i in -o out --reasoning-parser qwen");
  CHECK(reasoning.status == 2);
  CHECK_THAT(reasoning.err, Contains("--reasoning-parser: expected one of"));
  const Outcome ids = shell(
      scratch, "plimsoll run $MODEL -i in -o out --skip-tokenizer-init --reasoning-parser qwen3");
  CHECK(ids.status == 2);
  CHECK_THAT(ids.err, Contains("--skip-tokenizer-init"));
}
