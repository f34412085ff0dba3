// Answers of a form that lines or flags ask for, with the sample model.
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"

using namespace plimsoll;
using Catch::Contains;
using test::json_lines;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

const std::string kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},)"
    R"("age":{"type":"integer","minimum":0,"maximum":99}},"required":["name","age"],)"
    R"("additionalProperties":false})";

std::string plain(const std::string& id, const std::string& fields) {
  return R"({"id":")" + id + R"(","prompt":"Who is there?","max_tokens":60,"temperature":0.8,)" +
         fields + "}\n";
}

std::string batch_line(const std::string& id, const std::string& fields) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/chat/completions","body":)" +
         R"({"messages":[{"role":"user","content":"Who is there?"}],"max_tokens":60,)" + fields +
         "}}\n";
}

/// Text and end of each answer, or the error's code and message, by id.
struct Answer {
  std::string text, end;
};
std::map<std::string, Answer> answers(const std::string& output) {
  std::map<std::string, Answer> found;
  for (const Json& line : json_lines(output)) {
    if (!line.contains("custom_id")) {
      const Json& error = line["error"];
      found[line["id"]] =
          error.is_null() ? Answer{line["choices"][0]["text"], line["choices"][0]["finish_reason"]}
                          : Answer{error["message"], error["code"]};
      continue;
    }
    const Json& body = line["response"]["body"];
    if (body.contains("error")) {
      found[line["custom_id"]] = {body["error"]["message"], body["error"]["param"]};
    } else {
      const Json& choice = body["choices"][0];
      found[line["custom_id"]] = {choice["message"]["content"], choice["finish_reason"]};
    }
  }
  return found;
}

/// True where an answer that was cut could go on to one of the form.
bool is_person(const Answer& answer) {
  if (answer.end == "length")
    return answer.text.find_first_not_of(" \t\r\n") == 0 ? answer.text.starts_with("{") : true;
  const Json person = parse_json<Json>(answer.text);
  return person.size() == 2 && person["name"].is_string() && person["age"] <= 99;
}

}  // namespace

TEST_CASE("every field that gives answers a form, on plain and on batch lines") {
  const std::string format = R"("response_format":{"type":"json_schema","json_schema":{"name":"p",)"
                             R"("schema":)" +
                             kSchema + R"(,"strict":true}})";
  Json text = kSchema;
  const std::pair<std::string, std::string> fields[] = {
      {"format", format},
      {"object", R"("response_format":{"type":"json_object"})"},
      {"json", R"("structured_outputs":{"json":)" + kSchema + "}"},
      {"json-text", R"("structured_outputs":{"json":)" + text.dump() + "}"},
      {"compact", R"("structured_outputs":{"disable_any_whitespace":true,"json":)" + kSchema + "}"},
      {"guided-json", R"("guided_json":)" + kSchema},
      {"regex", R"("structured_outputs":{"regex":"[A-Z]{3}-[0-9]{2,4}"})"},
      {"guided-regex", R"("guided_regex":"[A-Z]{3}-[0-9]{2,4}")"},
      {"choice", R"("structured_outputs":{"choice":["friend","foe"]})"},
      {"guided-choice", R"("guided_choice":["friend","foe"])"},
      {"grammar", R"("structured_outputs":{"grammar":"root ::= \"<\" [a-z]{2,5} \">\""})"},
      {"guided-grammar", R"("guided_grammar":"root ::= \"<\" [a-z]{2,5} \">\"")"}};
  const Scratch scratch;
  std::string input;
  for (const auto& [name, field] : fields) {
    input += plain(name, field) + batch_line("batch-" + name, field);
  }
  scratch.write("in", input);
  const Outcome run = shell(scratch, "plimsoll run $MODEL -i in -o out");
  INFO(run.err);
  REQUIRE(run.status == 0);
  std::map<std::string, Answer> found = answers(scratch.read("out"));
  for (const std::string start : {"", "batch-"}) {
    INFO(start);
    for (const char* name : {"format", "json", "json-text", "compact", "guided-json"}) {
      INFO(name << ": " << found[start + name].text);
      CHECK(is_person(found[start + name]));
    }
    CHECK(found[start + "compact"].text.find('\n') == std::string::npos);
    CHECK_THAT(found[start + "object"].text, Catch::StartsWith("{"));
    for (const char* name : {"regex", "guided-regex"}) {
      CHECK(std::regex_match(found[start + name].text, std::regex("[A-Z]{3}-[0-9]{2,4}")));
    }
    for (const char* name : {"choice", "guided-choice"}) {
      const std::string& choice = found[start + name].text;
      CHECK((choice == "friend" || choice == "foe"));
    }
    for (const char* name : {"grammar", "guided-grammar"}) {
      CHECK(std::regex_match(found[start + name].text, std::regex("<[a-z]{2,5}>")));
      CHECK(found[start + name].end == "stop");
    }
  }
  // Neither batch nor ranks show in the answers.
  for (const char* flags : {"--max-num-seqs 1", "--max-num-batched-tokens 32", "-tp 2", "-dp 2",
                            "-pp 2", "--no-enable-prefix-caching"}) {
    const Outcome again =
        shell(scratch, std::string("plimsoll run $MODEL -q -i in -o again --overwrite ") + flags);
    INFO(flags << ": " << again.err);
    CHECK(again.status == 0);
    CHECK(scratch.read("again") == scratch.read("out"));
  }
}

TEST_CASE("a schema that cannot be had costs its own line, before weights are read") {
  const Scratch scratch;
  scratch.write("in", plain("good", R"("guided_choice":["a"])") +
                          plain("malformed", R"("structured_outputs":{"json":{"type":"strin"}})") +
                          plain("regex", R"("structured_outputs":{"regex":"("})") +
                          plain("grammar", R"("guided_grammar":"root ::= (")") +
                          plain("lark", R"("guided_grammar":"// a\n?start: WORD\n")") +
                          plain("tag", R"("response_format":{"type":"structural_tag"})") +
                          plain("two", R"("guided_regex":"a","structured_outputs":{"regex":"a"})") +
                          plain("none", R"("structured_outputs":{"json_object":false})") +
                          plain("key", R"("structured_outputs":{"jsn":{}})") +
                          batch_line("batch", R"("guided_grammar":"root ::= (")"));
  const Outcome run = shell(scratch, "plimsoll run $MODEL -i in -o out");
  INFO(run.err);
  CHECK(run.status == 3);
  CHECK_THAT(run.err, Contains("5 of 6 lines with a schema or grammar cannot be answered (line 2 "
                               "first: structured_outputs: "));
  std::map<std::string, Answer> found = answers(scratch.read("out"));
  CHECK(found["good"].text == "a");
  for (const char* name : {"malformed", "regex", "grammar", "lark", "tag", "two", "none", "key"}) {
    INFO(name);
    CHECK(found[name].end == "bad_field");
  }
  CHECK_THAT(found["malformed"].text,
             Catch::StartsWith("structured_outputs: ") && Contains("type"));
  CHECK_THAT(found["grammar"].text, Catch::StartsWith("guided_grammar: ") && Contains("line 1"));
  CHECK_THAT(found["lark"].text, Contains("line 1, column 1") && Contains("Lark's grammars"));
  CHECK_THAT(found["tag"].text, Contains("\"structural_tag\" is not supported"));
  CHECK_THAT(found["two"].text, Contains("stands beside"));
  CHECK_THAT(found["key"].text, Contains("did you mean json?"));
  CHECK(found["batch"].end == "guided_grammar");
  // --dry-run counts them all.
  const Outcome dry = shell(scratch, "plimsoll run $MODEL -i in --dry-run");
  INFO(dry.out << dry.err);
  CHECK(dry.status == 3);
  CHECK_THAT(dry.out, Contains("9 refused"));
}

TEST_CASE("--structured-outputs gives all lines a form, and belongs to the run") {
  const Scratch scratch;
  scratch.write("schema.json", kSchema);
  scratch.write("regex.json", R"({"regex": "[a-z]{4}"})");
  scratch.write("bad.json", R"({"type": "strin"})");
  scratch.write("broken.json", "{\n\"type\": ]");
  scratch.write("wrapped.json", R"({"response_format": {"type": "text"}})");
  scratch.write("in", plain("of-flag", R"("top_p":1)") + plain("own", R"("guided_choice":["x"])") +
                          plain("text", R"("response_format":{"type":"text"},"min_tokens":60)"));
  const std::string run = "plimsoll run $MODEL -q -i in -o out --structured-outputs ";
  REQUIRE(shell(scratch, run + "schema.json").status == 0);
  std::map<std::string, Answer> found = answers(scratch.read("out"));
  CHECK(is_person(found["of-flag"]));
  CHECK(found["own"].text == "x");
  CHECK_FALSE(found["text"].text.starts_with("{"));
  const Outcome other = shell(scratch, run + "regex.json");
  CHECK(other.status == 8);
  CHECK_THAT(other.err, Contains("structured_outputs"));
  REQUIRE(shell(scratch, run + R"(' {"regex":"[a-z]{4}"}' --overwrite)").status == 0);
  found = answers(scratch.read("out"));
  CHECK(std::regex_match(found["of-flag"].text, std::regex("[a-z]{4}")));
  for (const auto& [file, what] :
       {std::pair("bad.json", "type"), std::pair("broken.json", "line 2"),
        std::pair("wrapped.json", "response_format at \"\": is no keyword"),
        std::pair("missing.json", "no such file")}) {
    const Outcome refused = shell(scratch, run + file + " --overwrite");
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Contains("--structured-outputs") && Contains(what));
  }
}

TEST_CASE("an answer cut by max_tokens says so, and a run goes on with the same bytes") {
  const Scratch scratch;
  std::string input;
  for (int i = 0; i < 12; ++i) {
    input += plain(std::to_string(i),
                   R"("n":2,"logprobs":1,"structured_outputs":{"json":)" + kSchema + "}");
  }
  input += R"({"id":"cut","prompt":"x","max_tokens":3,"guided_json":)" + kSchema + "}\n";
  scratch.write("in", input);
  const Outcome whole = shell(scratch, "plimsoll run $MODEL -i in -o whole");
  REQUIRE(whole.status == 0);
  CHECK_THAT(whole.err, Contains(" cut at max_tokens); "));
  CHECK(answers(scratch.read("whole"))["cut"].end == "length");
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out --limit 5").status == 0);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o out").status == 0);
  CHECK(scratch.read("out") == scratch.read("whole"));
}

TEST_CASE(
    "a run that is gone on with compiles the grammars of lines that are left, and no others") {
  const Scratch scratch;
  scratch.write("in", plain("a", R"("guided_regex":"[a-c]")") +
                          plain("b", R"("guided_regex":"x")") +
                          plain("c", R"("guided_regex":"[0-9]")"));
  const std::string run = "plimsoll run $MODEL -q -i in -o out --report report ";
  for (const auto& [flags, grammars] : {std::pair{"--limit 2", 2}, std::pair{"", 1}}) {
    INFO(flags);
    REQUIRE(shell(scratch, run + flags).status == 0);
    CHECK(parse_json<Json>(scratch.read("report"))["structured"]["grammars"] == grammars);
  }
}

TEST_CASE("records of texts as a table, by the sample's five lines") {
  const Scratch scratch;
  if (shell(scratch, "jq --version").status != 0) {
    WARN("skipped: jq is not there");
    return;
  }
  scratch.write("schema.json",
                R"({"type":"object","properties":{"who":{"enum":["Romeo","Juliet, \"J\""]},)"
                R"("glad":{"type":"boolean"},"acts":{"type":"array","items":{"enum":[1,2]},)"
                R"("minItems":2,"maxItems":2}},"required":["who","glad","acts"],)"
                R"("additionalProperties":false})");
  scratch.write("texts", "But soft! \"What light\"?\nO, she doth teach\n");
  const Outcome table =
      shell(scratch, "mkdir bin; ln -s '" + test::kProgram +
                         "' bin/plimsoll; export PATH=$PWD/bin:$PATH; bash '" +
                         PLIMSOLL_SOURCE_DIR "/samples/extract' $MODEL schema.json texts");
  INFO(table.out << table.err);
  CHECK(table.status == 0);
  const std::regex row(R"re(("Romeo"|"Juliet, ""J"""),(true|false),"\[[12],[12]\]")re");
  std::istringstream lines(table.out);
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(line == R"("who","glad","acts")");
  for (int i = 0; i < 2; ++i) {
    REQUIRE(std::getline(lines, line));
    CHECK(std::regex_match(line, row));
  }
}

TEST_CASE("text that a schema forces takes fewer steps than tokens, and the report counts it") {
  const Scratch scratch;
  scratch.write(
      "in",
      R"({"prompt":"one","max_tokens":90,"temperature":0,"guided_regex":"(id: [a-z]; ){9}"}
{"prompt":"two","max_tokens":5}
)");
  const Outcome run = shell(scratch, "plimsoll run $MODEL -i in -o out --report report");
  INFO(run.err);
  REQUIRE(run.status == 0);
  const Json report = parse_json<Json>(scratch.read("report"));
  const Json& structured = report["structured"];
  CHECK(structured["kept_forced_tokens"] > 5);
  CHECK(structured["forced_tokens"] >= structured["kept_forced_tokens"]);
  CHECK(report["engine"]["drafted_tokens"] == 0);
  CHECK_THAT(run.err,
             Contains("plimsoll: jump ahead: ") && Contains(" tokens of forced text were drawn\n"));
}
