// Forms of answers: which answers are held against them, and what is said of a form that is none.
#include <catch2/catch.hpp>

#include "batch/fields/structured_fields.h"
#include "batch/finished_line.h"
#include "batch/read_request.h"
#include "batch/scratch.h"
#include "batch/tool_chat.h"
#include "engine/byte_tokenizer.h"
#include "grammar/grammar.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;
using testing::finished_chat;
using testing::read;
using testing::Read;
using testing::tool_chat;

namespace {

const text::Tokenizer& bytes() {
  static const test::Scratch folder;
  static const text::Tokenizer tokenizer = testing::byte_tokenizer(folder.path(""));
  return tokenizer;
}

/// What is said of a line's form when its grammar is made.
std::string said_of_fields(const std::string& fields) {
  const Read line = read(tool_chat(fields));
  INFO(line.message);
  REQUIRE(line.request.fields.constraint);
  grammar::Compiler compiler(bytes(), {.vocab_size = 257});
  try {
    (void)compile_constraint(compiler, *line.request.fields.constraint);
    return "";
  } catch (const LineError& error) {
    CHECK(error.param() == line.request.fields.constraint->field);
    return error.what();
  }
}

std::string tool(const std::string& name, const std::string& more) {
  return R"({"type":"function","function":{"name":")" + name + "\"" + more + "}}";
}

std::string required(const std::string& tools) {
  return "\"tools\":[" + tools + R"(],"tool_choice":"required")";
}

std::string named(const std::string& tools, const std::string& name) {
  return "\"tools\":[" + tools + R"(],"tool_choice":{"type":"function","function":{"name":")" +
         name + "\"}}";
}

}  // namespace

TEST_CASE("answers that end by themselves are held against their form, and no others") {
  grammar::Compiler compiler(bytes(), {.vocab_size = 257});
  using Change = void (*)(FinishedLine&, engine::Completion&);
  const auto fails = [&](const std::string& more, const std::string& text, Change change) {
    const std::string schema = R"("guided_json":{"type":"object","required":["a"]})";
    FinishedLine line = finished_chat(tool_chat(schema + more), {R"({"a":1})", text});
    change(line, line.outputs[0].completions[1]);
    line.outputs[0].completions[1].index = 1;
    const auto form = compile_constraint(compiler, *line.fields.constraint);
    try {
      read_parts({}, form.get(), line);
      return false;
    } catch (const LineError& error) {
      CHECK(error.code() == code::invalid_answer);
      CHECK_THAT(error.what(), Catch::StartsWith("answer 1 is not what guided_json asks for: "));
      return true;
    }
  };
  const Change nothing = [](FinishedLine&, engine::Completion&) {};
  CHECK_FALSE(fails("", R"({"a":[2]})", nothing));
  CHECK(fails("", R"({"b":1})", nothing));
  CHECK(fails("", R"({"a")", nothing));
  CHECK_FALSE(fails("", R"({"a")", [](FinishedLine&, engine::Completion& answer) {
    answer.finish = engine::FinishReason::length;
  }));
  CHECK_FALSE(fails("", R"({"a")",
                    [](FinishedLine&, engine::Completion& answer) { answer.stop_string = ":"; }));
  CHECK(fails("", R"({"a")",
              [](FinishedLine&, engine::Completion& answer) { answer.stop_token = 5; }));
  CHECK_FALSE(fails(R"(,"include_stop_str_in_output":true)", R"({"a":1}.)", nothing));
}

TEST_CASE("a schema that is refused is told by its place in the request") {
  const std::string bad = R"(,"parameters":{"type":"object","properties":{"a":{"type":"no"}}})";
  const std::string broken = R"(,"parameters":{"type":"no"})";
  const std::string good = tool("f", R"(,"parameters":{"type":"object"})");
  CHECK_THAT(
      said_of_fields(required(good + "," + tool("g", bad))),
      Catch::StartsWith("tools: ") && Contains(" at \"tools[1].function.parameters/properties/a"));
  CHECK_THAT(said_of_fields(required(good + "," + tool("g", broken))),
             Contains(" at \"tools[1].function.parameters"));
  CHECK_THAT(said_of_fields(required(good + "," + tool("g", broken))), !Contains("$defs"));
  // A name that begins with another one's is another tool.
  CHECK_THAT(said_of_fields(required(good + "," + tool("ff", bad))),
             Contains(" at \"tools[1].function.parameters/properties/a"));
  CHECK_THAT(said_of_fields(named(good + "," + tool("g", bad), "g")),
             Contains(" at \"tools[1].function.parameters/properties/a"));
  CHECK_THAT(said_of_fields(R"("guided_json":{"properties":{"a":{"type":"no"}}})"),
             Catch::StartsWith("guided_json: ") && Contains(" at \"/properties/a"));
  CHECK(said_of_fields(required(good)).empty());
}

TEST_CASE("a function's schema is taken to the letter where one of them says so") {
  const auto constraint = [](const std::string& fields) {
    const Read line = read(tool_chat(fields));
    REQUIRE(line.request.fields.constraint);
    return *line.request.fields.constraint;
  };
  const std::string strict = tool("f", R"(,"strict":true)"),
                    loose = tool("g", R"(,"strict":false)");
  const std::string plain = tool("h", "");
  for (const auto& [tools, expected] : {std::pair{strict, true},
                                        {loose, false},
                                        {plain, false},
                                        {plain + "," + strict, true},
                                        {loose + "," + plain, false}}) {
    INFO(tools);
    CHECK(constraint(required(tools)).options.strict == expected);
    CHECK_FALSE(constraint(required(tools)).options.any_whitespace);
  }
}

TEST_CASE("a function without parameters takes any object, and references stay in their schema") {
  const auto refusal = [](const std::string& tools, const std::string& answer) {
    const Read line = read(tool_chat(required(tools)));
    REQUIRE(line.request.fields.constraint);
    return grammar::JsonSchema(line.request.fields.constraint->text).refuse(answer);
  };
  for (const char* none : {"", R"(,"parameters":null)", R"(,"parameters":{})"}) {
    INFO(none);
    CHECK(refusal(tool("f", none), R"([{"name":"f","parameters":{"x":1}}])") == "");
    CHECK(refusal(tool("f", none), R"([{"name":"f","parameters":"text"}])") != "");
    const Read one = read(tool_chat(named(tool("f", none), "f")));
    REQUIRE(one.request.fields.constraint);
    CHECK(grammar::JsonSchema(one.request.fields.constraint->text).refuse("7") != "");
  }
  // Schemas with names of their own, by which they refer to themselves.
  const auto with_id = [](const std::string& name, const std::string& type) {
    return tool(name, R"(,"parameters":{"$id":"https://a/)" + name +
                          R"(","type":"object","properties":{"x":{"$ref":"https://a/)" + name +
                          R"(#/$defs/T"}},"$defs":{"T":{"type":")" + type + "\"}}}");
  };
  const std::string tools = with_id("f", "integer") + "," + with_id("g", "string");
  CHECK(refusal(tools, R"([{"name":"f","parameters":{"x":1}}])") == "");
  CHECK(refusal(tools, R"([{"name":"g","parameters":{"x":"a"}}])") == "");
  CHECK(refusal(tools, R"([{"name":"f","parameters":{"x":"a"}}])") != "");
  CHECK(refusal(tools, R"([{"name":"g","parameters":{"x":1}}])") != "");
}
