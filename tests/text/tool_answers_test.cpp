// Answers with calls as models write them, well and badly, each by its format.
#include <catch2/catch.hpp>
#include <string>

#include "text/answer_rows.h"

using namespace plimsoll;
using namespace plimsoll::text;
using testing::check_rows;
using testing::kTypedTools;
using testing::shown_calls;

TEST_CASE("calls in JSON") {
  const std::string bern = R"({"name": "f", "arguments": {"city": "Bern"}})";
  check_rows({
      {"hermes", "<tool_call>\n" + bern + "\n</tool_call>", R"(f({"city": "Bern"}))", ""},
      // The closing marker may be missing at the end.
      {"hermes", "<tool_call>" + bern, R"(f({"city": "Bern"}))", ""},
      // A marker within a text of the arguments is text.
      {"hermes", R"(<tool_call>{"name":"f","arguments":{"a":"</tool_call>"}}</tool_call>)",
       R"(f({"a": "</tool_call>"}))", ""},
      {"hermes", R"(<tool_call>{"arguments":{},"name":"f"}</tool_call>)", "f({})", ""},
      {"hermes", R"(<tool_call>{"name":"f","parameters":{}}</tool_call>)", "f({})", ""},
      {"hermes", R"(<tool_call>{"name":"f","arguments":"{\"a\": 1}"}</tool_call>)",
       R"(f({"a": 1}))", ""},
      {"hermes",
       R"(<tool_call>{"name":"f","arguments":{"n":1e5,"x":[ 1,2 ],"s":"\u00e9\/"}}</tool_call>)",
       R"(f({"n": 1e5, "x": [1, 2], "s": "é/"}))", ""},
      // Half of a surrogate pair stands for no text.
      {"hermes", R"(<tool_call>{"name":"f","arguments":{"s":"\ud800"}}</tool_call>)", "",
       R"(<tool_call>{"name":"f","arguments":{"s":"\ud800"}}</tool_call>)", true},
      // Text behind a call stays.
      {"hermes", "A <tool_call>" + bern + "</tool_call> B", R"(f({"city": "Bern"}))", "A  B"},
      // As in vLLM one call that cannot be read makes all of it text.
      {"hermes", "<tool_call>" + bern + "</tool_call><tool_call>{\"name\": \"g\"}</tool_call>", "",
       "<tool_call>" + bern + "</tool_call><tool_call>{\"name\": \"g\"}</tool_call>", true},
      {"hermes", "<tool_call>{'name': 'f', 'arguments': {}}</tool_call>", "",
       "<tool_call>{'name': 'f', 'arguments': {}}</tool_call>", true},
      {"hermes", R"(<tool_call>{"name": "", "arguments": {}}</tool_call>)", "",
       R"(<tool_call>{"name": "", "arguments": {}}</tool_call>)", true},
      {"hermes", R"(<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>)", "",
       R"(<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>)", true},
      {"hermes", "<tool_call></tool_call>", "", "<tool_call></tool_call>", true},
      {"hermes", "</tool_call>", "", "</tool_call>"},
      {"granite", "<|tool_call|>[" + bern + "]", R"(f({"city": "Bern"}))", ""},
      {"granite", "<tool_call>[" + bern + "]", R"(f({"city": "Bern"}))", ""},
      {"granite", "[" + bern + "]", R"(f({"city": "Bern"}))", ""},
      {"granite", "[" + bern + "] and more", "", "[" + bern + "] and more"},
      {"granite-20b-fc", "<function_call> " + bern + "\n<function_call> " + bern,
       "f({\"city\": \"Bern\"})\nf({\"city\": \"Bern\"})", ""},
      {"phi4_mini_json", "functools[" + bern + "]", R"(f({"city": "Bern"}))", ""},
      {"phi4_mini_json", "functools.partial(f)", "", "functools.partial(f)"},
      {"jamba", "<tool_calls>[\n  " + bern + ",\n  " + bern + "\n]</tool_calls>",
       "f({\"city\": \"Bern\"})\nf({\"city\": \"Bern\"})", ""},
      {"minimax", "<tool_calls>\n" + bern + "\n" + bern + "\n</tool_calls>",
       "f({\"city\": \"Bern\"})\nf({\"city\": \"Bern\"})", ""},
      {"internlm",
       "Look.<|action_start|><|plugin|>{\"name\": \"f\", \"parameters\": {\"a\": "
       "1}}<|action_end|>\n",
       R"(f({"a": 1}))", "Look."},
      {"internlm", R"(<|action_start|><|plugin|>{"name": "f"}<|action_end|>)", "f({})", ""},
      {"cohere_command3",
       R"(<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>)",
       R"(f({"a": 1}))", ""},
      {"apertus", R"(<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>)",
       "f({\"a\": 1})\ng({})", ""},
      {"gigachat3", "<|function_call|>" + bern, R"(f({"city": "Bern"}))", ""},
      {"xlam", "```json\n[" + bern + "]\n```", R"(f({"city": "Bern"}))", ""},
      {"xlam", "[" + bern + "]", R"(f({"city": "Bern"}))", ""},
      {"xlam", "So.</think>[" + bern + "]", R"(f({"city": "Bern"}))", "So."},
      {"xlam", "```python\nprint(1)\n```", "", "```python\nprint(1)\n```"},
      {"xlam", "```\nx\n``` then ```json\n[" + bern + "]\n```", R"(f({"city": "Bern"}))",
       "```\nx\n``` then "},
      {"llama3_json", R"({"name": "f", "parameters": {"a": {"b": {"c": 1}}}})",
       R"(f({"a": {"b": {"c": 1}}}))", ""},
      {"llama3_json", "<|python_tag|>" + bern, R"(f({"city": "Bern"}))", ""},
      {"llama3_json", "I call " + bern + "; " + bern + " now",
       "f({\"city\": \"Bern\"})\nf({\"city\": \"Bern\"})", "I call  now"},
      {"llama3_json", R"({"name": "Bern", "size": 5})", "", R"({"name": "Bern", "size": 5})"},
      {"llama3_json", R"({"name": "Bern", "parameters": 5})", "",
       R"({"name": "Bern", "parameters": 5})"},
      {"llama3_json", "{ { " + bern, R"(f({"city": "Bern"}))", "{ { "},
  });
}

TEST_CASE("calls of a name with arguments in JSON") {
  check_rows({
      {"mistral", R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g"}])",
       "f({\"a\": 1})\ng({})", ""},
      {"mistral", R"([TOOL_CALLS] [{"name": "f", "arguments": {}}] trailing)", "f({})",
       " trailing"},
      {"mistral", R"([TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g{"b":[]})", "f({\"a\": 1})\ng({\"b\":[]})",
       ""},
      {"mistral", R"([TOOL_CALLS]f[ARGS]{"a": 1})", R"(f({"a": 1}))", ""},
      {"mistral", R"([TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{"a": 1})", R"(f({"a": 1}))", ""},
      // vLLM returns such calls too, so that the model sees what it did.
      {"mistral", R"([TOOL_CALLS]f{"a": )", R"(f({"a":))", ""},
      {"mistral", "[TOOL_CALLS]no arguments", "", "[TOOL_CALLS]no arguments", true},
      {"deepseek_v3",
       "Gut.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
       "1}\n```"
       "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<"
       "｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       "f({\"a\": 1})\ng({})", "Gut."},
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
       "bad}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "f({\"a\": bad})", ""},
      {"deepseek_v31",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
       "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\":",
       "f({\"a\": 1})", "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\":", true},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
       "{\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>",
       R"(f({"a": 1}))", ""},
  });
  const ToolAnswer kimi = read_tool_calls(
      *find_tool_format("kimi_k2"),
      "<|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}<|tool_call_end|>",
      kTypedTools);
  REQUIRE(kimi.calls.size() == 1);
  CHECK(kimi.calls[0].id == "functions.f:3");
}

TEST_CASE("calls as elements get the types of their schemas") {
  const auto coder = [](const std::string& parameters) {
    return "<tool_call>\n<function=get_weather>\n" + parameters + "</function>\n</tool_call>";
  };
  const auto of = [](const std::string& name, const std::string& value) {
    return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
  };
  check_rows({
      {"qwen3_coder", coder(of("city", "Bern") + of("days", "3")),
       R"(get_weather({"city": "Bern", "days": 3}))", ""},
      {"qwen3_coder", coder(""), "get_weather({})", ""},
      {"qwen3_coder", coder(of("city", "null") + of("unit", "None")),
       R"(get_weather({"city": "null", "unit": null}))", ""},
      {"qwen3_coder", coder(of("days", "three") + of("exact", "True")),
       R"(get_weather({"days": "three", "exact": true}))", ""},
      {"qwen3_coder", coder(of("exact", "perhaps") + of("days", "null")),
       R"(get_weather({"exact": "perhaps", "days": null}))", ""},
      {"qwen3_coder", coder(of("flags", "['a', True]") + of("flags", "[\"b\"]")),
       R"(get_weather({"flags": ["b"]}))", ""},
      {"qwen3_coder", coder(of("other", "12")), R"(get_weather({"other": "12"}))", ""},
      {"qwen3_coder", coder(of("city", "\n two lines\n")),
       R"(get_weather({"city": "\n two lines\n"}))", ""},
      {"qwen3_coder", coder(of("city", "has </parameter> in it")),
       R"(get_weather({"city": "has </parameter> in it"}))", ""},
      {"qwen3_coder", coder("<parameter=city>\nBern\n<parameter=days>\n3\n</parameter>\n"),
       R"(get_weather({"city": "Bern", "days": 3}))", ""},
      // vLLM reads a call without its outer marker too.
      {"qwen3_coder", "Now <function=f>\n<parameter=a>\nx\n</parameter>\n</function>",
       R"(f({"a": "x"}))", "Now "},
      {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\nx", "",
       "<tool_call>\n<function=f>\n<parameter=a>\nx", true},
      {"seed_oss",
       "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</seed:tool_call>",
       R"(f({"a": "x"}))", ""},
      {"glm45",
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</"
       "arg_value>\n<arg_key>days</arg_key>"
       "\n<arg_value>3</arg_value>\n</tool_call>",
       R"(get_weather({"city": "Bern", "days": 3}))", ""},
      {"glm45",
       "<tool_call>get_weather<arg_key>city</arg_key><arg_value> Bern </arg_value></tool_call>",
       R"(get_weather({"city": " Bern "}))", ""},
      {"glm45", "<tool_call>f</tool_call>", "f({})", ""},
      {"glm45",
       "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>{'a': [1, None]}</arg_value>\n</tool_call>",
       R"(f({"x": {"a": [1, null]}}))", ""},
      {"glm45", R"(<tool_call>{"name": "f"}</tool_call>)", "",
       R"(<tool_call>{"name": "f"}</tool_call>)", true},
      {"minimax_m2",
       "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter "
       "name=\"a\">x</parameter>\n</invoke>\n<invoke "
       "name=\"g\">\n</invoke>\n</minimax:tool_call>",
       "f({\"a\": \"x\"})\ng({})", ""},
      {"deepseek_v32",
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
       "string=\"true\">5"
       "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" "
       "string=\"false\">[5]</｜DSML｜parameter>\n"
       "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       R"(f({"a": "5", "b": [5]}))", ""},
      {"deepseek_v4",
       "<｜DSML｜tool_calls>\n<｜DSML｜invoke "
       "name=\"f\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
       "f({})", ""},
      {"step3",
       "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
       "name=\"f\">"
       "<steptml:parameter "
       "name=\"a\">x</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
       R"(f({"a": "x"}))", ""},
      {"solar_open2",
       "<|tool_call:start|>get_weather\n<|tool_arg:start|>days<|tool_arg:value|>3<|tool_arg:end|>\n"
       "<|tool_call:end|>",
       R"(get_weather({"days": 3}))", ""},
  });
}

TEST_CASE("calls in Python's syntax, in Gemma's, and in channels") {
  check_rows({
      {"pythonic", R"([f(a="x", b=1), g()])", "f({\"a\": \"x\", \"b\": 1})\ng({})", ""},
      {"pythonic", "[f(a='it\\'s', b=-1.5e3, c=None, d=[True, False], e={'k': (1, 2)},)]",
       R"(f({"a": "it's", "b": -1.5e3, "c": null, "d": [true, false], "e": {"k": [1, 2]}}))", ""},
      {"pythonic", "[f(a=1e-05, b=-2.5e-3)]", R"(f({"a": 1e-05, "b": -2.5e-3}))", ""},
      {"pythonic", "[api.v1.get(x=true, y=null)]", R"(api.v1.get({"x": true, "y": null}))", ""},
      {"pythonic", "[f(a='\\u00e9\\x41\\n\"')]", R"(f({"a": "éA\n\""}))", ""},
      {"pythonic", "[f(a='''x'y''')]", R"(f({"a": "x'y"}))", ""},
      {"pythonic", "[f(a={1: 2, 'b': 3})]", R"(f({"a": {"1": 2, "b": 3}}))", ""},
      {"pythonic", "[f(1)]", "", "[f(1)]"},
      {"pythonic", "[f(a=g())]", "", "[f(a=g())]"},
      {"pythonic", "[f(a=x)]", "", "[f(a=x)]"},
      {"pythonic", "[f(a=1)] and more", "", "[f(a=1)] and more"},
      {"pythonic", "[f(a=1), 2]", "", "[f(a=1), 2]"},
      {"pythonic", "[f(a=007)]", "", "[f(a=007)]"},
      {"pythonic", "Text. [f(a=1)]", "", "Text. [f(a=1)]"},
      {"llama4_pythonic", "<|python_start|>[f(a=1)]<|python_end|>", R"(f({"a": 1}))", ""},
      {"llama4_pythonic", "[f(a=1)]<|python_end|>", R"(f({"a": 1}))", ""},
      {"llama4_pythonic", "[f(a=1)]", R"(f({"a": 1}))", ""},
      {"olmo3", "<function_calls>\nf(a=1)\ng(b=\"x\")\n</function_calls>",
       "f({\"a\": 1})\ng({\"b\": \"x\"})", ""},
      {"olmo3", "<function_calls>f(a=</function_calls>", "",
       "<function_calls>f(a=</function_calls>", true},
      {"lfm2", "<|tool_call_start|>[f(a=\"x\")]<|tool_call_end|>Done.", R"(f({"a": "x"}))",
       "Done."},
      {"gemma4",
       "<|tool_call>call:f{a:<|\"|>x, {y}<|\"|>,n:42,l:[1,<|\"|>b<|\"|>],o:{k:true}}<tool_call|>",
       R"(f({"a": "x, {y}", "n": 42, "l": [1, "b"], "o": {"k": true}}))", ""},
      {"gemma4", "<|tool_call>call:f{}<tool_call|><|tool_call>call:g{a:bare word}<tool_call|>",
       "f({})\ng({\"a\": \"bare word\"})", ""},
      {"gemma4", "<|tool_call>call:f{a:<|\"|>cut", "", "<|tool_call>call:f{a:<|\"|>cut", true},
      {"functiongemma", "<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>",
       R"(f({"a": "x"}))", ""},
      {"openai",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.f "
       "<|constrain|>json<|message|>{\"a\":1}",
       R"(f({"a": 1}))", ""},
      {"openai", "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{bad",
       "f({bad)", ""},
      {"openai", "<|channel|>final<|message|>Four.", "", "Four."},
      {"openai", "plain", "", "plain"},
  });
}

TEST_CASE("calls that a grammar made") {
  const ToolAnswer calls = read_required_calls(
      R"([{"name": "f", "parameters": {"a": 1}}, {"name":"g","parameters":{}}])");
  CHECK(shown_calls(calls) == "f({\"a\": 1})\ng({})");
  CHECK(calls.content == "");
  const std::string cut = R"([{"name": "f", "parameters": {"a": 1}}, {"na)";
  CHECK(read_required_calls(cut).calls.empty());
  CHECK(read_required_calls(cut).content == cut);
}
