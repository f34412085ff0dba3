// Answers of formats whose calls are elements of unusual kinds, or whose answers are messages.
#include <catch2/catch.hpp>
#include <string>

#include "text/answer/suffixed.h"
#include "text/answer_rows.h"
#include "text/tokenizer_fixture.h"

using namespace plimsoll;
using namespace plimsoll::text;
using testing::check_rows;
using testing::kTypedTools;
using testing::shown_calls;

TEST_CASE("MiniCPM's calls, as its models spell them") {
  const std::string bern = R"(get_weather({"city": "Bern"}))";
  const std::string open = "<function name=\"get_weather\">";
  const auto in_city = [&](const std::string& value) {
    return open + "<param name=\"city\">" + value + "</param></function>";
  };
  check_rows({
      {"minicpm5", in_city("Bern"), bern, ""},
      {"minicpm5", in_city("\n  Bern \n"), bern, ""},
      {"minicpm5", "<function name='get_weather'><param name='city'>Bern</param></function>", bern,
       ""},
      {"minicpm5", "<functionname=\"get_weather\"><paramname=\"city\">Bern</param></function>",
       bern, ""},
      {"minicpm5", open + "<arguments>\n<param name=\"city\">Bern</param>\n</arguments></function>",
       bern, ""},
      // Texts that are no XML of their own.
      {"minicpm5", in_city("<![CDATA[Bern]]>"), bern, ""},
      {"minicpm5", in_city("\n<![CDATA[ a < b </param></function> ]]>\n"),
       R"(get_weather({"city": "a < b </param></function>"}))", ""},
      {"minicpm5", in_city("a &lt; b &amp;&amp; c"), R"(get_weather({"city": "a < b && c"}))", ""},
      {"minicpm5", in_city("a &lt; b & c"), R"(get_weather({"city": "a &lt; b & c"}))", ""},
      {"minicpm5", in_city("<b>&lt;</b>"), R"(get_weather({"city": "<b>&lt;</b>"}))", ""},
      // All parameters in one, unless the function has one of that name.
      {"minicpm5",
       open + "<param name=\"properties\">{'city': 'Bern', 'days': 3}</param></function>",
       R"(get_weather({"city": "Bern", "days": 3}))", ""},
      // Its members are of their parameters' types, and numbers stay as they are spelled.
      {"minicpm5", open + "<param name=\"arguments\">{'city': 5, 'days': '3'}</param></function>",
       R"(get_weather({"city": "5", "days": 3}))", ""},
      {"minicpm5", open + "<param name=\"properties\">{'a': 1e999, 'b': 1.50}</param></function>",
       R"(get_weather({"a": 1e999, "b": 1.50}))", ""},
      {"minicpm5", R"(<function name="f"><param name="properties">{"a": 1}</param></function>)",
       R"(f({"properties": {"a": 1}}))", ""},
      // A closing tag that is missing, blanks in a tag, CDATA in parts.
      {"minicpm5", open + "<param name=\"city\">Bern\n<param name=\"days\">3</param></function>",
       R"(get_weather({"city": "Bern", "days": 3}))", ""},
      {"minicpm5", open + "<param name = \"city\">Bern</arguments></function>", bern, ""},
      {"minicpm5", in_city("<![CDATA[a]]]]><![CDATA[>b]]> &lt;c"),
       R"(get_weather({"city": "a]]>b <c"}))", ""},
      {"minicpm5", open + R"(<param name="arguments">[1]</param></function>)",
       R"(get_weather({"arguments": [1]}))", ""},
      {"minicpm5", in_city("Bern") + "\nand\n" + open + "</function>", bern + "\nget_weather({})",
       "and\n"},
      {"minicpm5", "<functional> <function>", "", "<functional> <function>"},
      {"minicpm5", open + "<param>Bern</param></function>", "",
       open + "<param>Bern</param></function>", true},
      {"minicpm5", in_city("<![CDATA[Bern"), "", in_city("<![CDATA[Bern"), true},
  });
}

TEST_CASE("calls as elements that are JSON in some answers, or say their types") {
  check_rows({
      {"dots",
       "Look.\n<dots_function_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"days\">3</parameter>\n</invoke>\n</dots_function_call>",
       R"(get_weather({"days": 3}))", "Look.\n"},
      {"dots", R"(<dots_function_call>{"name": "f", "arguments": {"a": 1}}</dots_function_call>)",
       R"(f({"a": 1}))", ""},
      {"dots", R"(<dots_function_call>{"name": "f"}</dots_function_call>)", "",
       R"(<dots_function_call>{"name": "f"}</dots_function_call>)", true},
      {"k2_horizon",
       "<ifm|tool_calls><ifm|tool_call>get_weather<ifm|arg_key>days</ifm|arg_key><ifm|arg_value>3"
       "</ifm|arg_value></ifm|tool_call></ifm|tool_calls>",
       R"(get_weather({"days": 3}))", ""},
      // A type that the call says, where the schema says none.
      {"k2_horizon",
       "<ifm|tool_calls>\n<ifm|tool_call>f\n<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>integer"
       "</ifm|arg_type><ifm|arg_value>5</ifm|arg_value>\n<ifm|arg_key>b</ifm|arg_key>"
       "<ifm|arg_type>any</ifm|arg_type><ifm|arg_value>5</ifm|arg_value>\n</ifm|tool_call>\n"
       "</ifm|tool_calls>",
       R"(f({"a": 5, "b": "5"}))", ""},
      {"k2_horizon",
       R"(<ifm|tool_calls><ifm|tool_call>{"name": "f", "arguments": {}}</ifm|tool_call></ifm|tool_calls>)",
       "f({})", ""},
      {"deepseek_v41",
       "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" "
       "string=\"true\">5</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
       R"(f({"a": "5"}))", ""},
      {"minicpm5",
       "So: <function name=\"get_weather\">\n<param name=\"city\">Bern</param>\n"
       "<param name=\"flags\">[1]</param></function>",
       R"(get_weather({"city": "Bern", "flags": [1]}))", "So: "},
      {"hy_v3",
       "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>days</arg_key>\n<arg_value>3"
       "</arg_value>\n</tool_call>\n</tool_calls>",
       R"(get_weather({"days": 3}))", ""},
      {"hy_v4",
       "<tool_calls><tool_call>f<arg_key>a</arg_key><arg_value>3</arg_value></tool_call>"
       "</tool_calls>",
       R"(f({"a": "3"}))", ""},
      {"plamo3",
       "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
       "<|plamo:begin_tool_name:plamo|>f<|plamo:end_tool_name:plamo|>"
       "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{\"a\": 1}"
       "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
       "<|plamo:end_tool_requests:plamo|>",
       R"(f({"a": 1}))", ""},
  });
}

TEST_CASE("calls as elements within elements") {
  const auto marked = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '<' ? std::string("]<]minimax[>[<") : std::string(1, c);
    return out;
  };
  const auto call = [&](const std::string& parameters) {
    return marked("<tool_call>\n<invoke name=\"get_weather\">" + parameters +
                  "</invoke>\n</tool_call>");
  };
  check_rows({
      {"minimax_m3", "A" + call("<city>Bern</city><days>3</days>"),
       R"(get_weather({"city": "Bern", "days": 3}))", "A"},
      {"minimax_m3", call("<stops><item><hour>5</hour></item><item><hour>6</hour></item></stops>"),
       R"(get_weather({"stops": [{"hour": 5}, {"hour": 6}]}))", ""},
      {"minimax_m3", call("<stops></stops><flags> </flags>"),
       R"(get_weather({"stops": [], "flags": []}))", ""},
      // Names without a schema: texts, and objects of texts; a name that comes twice is a list.
      {"minimax_m3", call("<x><y>1</y><y>2</y></x><x>3</x>"),
       R"(get_weather({"x": [{"y": ["1", "2"]}, "3"]}))", ""},
      {"minimax_m3", call("<x>text<y>1</y></x>"),
       R"(get_weather({"x": {"y": "1", "$text": "text"}}))", ""},
      {"minimax_m3", call(""), "get_weather({})", ""},
      {"minimax_m3",
       marked("<tool_call><invoke name='f'></invoke><invoke name=g></invoke></tool_call>"),
       "f({})\ng({})", ""},
      {"minimax_m3", call("<city>Bern"), "", call("<city>Bern"), true},
      {"minimax_m3", call("<city>Bern</town>"), "", call("<city>Bern</town>"), true},
  });
}

TEST_CASE("answers in messages: reasoning, calls and text by their headers") {
  const std::string call =
      "<atem:function_calls>\n<atem:invoke name=\"get_weather\">\n"
      "<atem:parameter name=\"days\">3</atem:parameter>\n</atem:invoke>\n"
      "</atem:function_calls>";
  check_rows({
      {"muse",
       " to=self<|message|>think<|eom|><|start|>assistant to=get_weather<|message|>" + call +
           "<|eom|><|start|>assistant to=commentary<|message|>Soon.<|eom|><|start|>assistant "
           "to=user<|message|> Done.<|eot|>",
       R"(get_weather({"days": 3}))", "Soon. Done.", false, "think"},
      // A call that is only thought of is none; a header whose <|eom|> is missing is one.
      {"muse", "to=self<|message|>" + call + " to=get_weather<|message|>" + call + "<|eom|>",
       R"(get_weather({"days": 3}))", "", false, call},
      {"muse", "<|message|>no recipient<|eom|>", "", "", false, "no recipient"},
      {"muse_glimmer", "<|message|>no recipient<|eom|>", "", "no recipient"},
      {"muse_glimmer", "to=user<|message|>" + call + "<|eot|>", "", call},
      {"muse", "<|start|>assistant to=f<|message|>no call<|eom|>", "", "no call", true},
      {"inkling",
       "<|content_thinking|>think<|end_message|><|message_model|>get_weather"
       "<|content_invoke_tool_json|>{\"name\": \"get_weather\", \"args\": {\"days\": 3}}"
       "<|end_message|><|message_model|><|content_text|>Done.<|content_model_end_sampling|>",
       R"(get_weather({"days": 3}))", "Done.", false, "think"},
      {"inkling", "<|content_invoke_tool_json|>{\"name\": \"f\"}<|end_message|>", "",
       "{\"name\": \"f\"}", true},
      {"kimi_k3",
       "<|open|>think<|sep|>think<|close|>think<|sep|><|open|>response<|sep|>Soon.<|close|>response"
       "<|sep|><|open|>tools<|sep|><|open|>call tool=\"a &amp; b\" index=\"1\"<|sep|>"
       "<|open|>argument key=\"x\" type=\"string\"<|sep|>5<|close|>argument<|sep|>"
       "<|open|>argument key=\"y\" type=\"object\"<|sep|>{\"k\": [1]}<|close|>argument<|sep|>"
       "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
       R"(a & b({"x": "5", "y": {"k": [1]}}))", "Soon.", false, "think"},
  });
}

TEST_CASE("a message of calls that cannot be read is told, wherever the readable ones stand") {
  const std::string good =
      "<atem:function_calls>\n<atem:invoke name=\"get_weather\">\n"
      "<atem:parameter name=\"days\">3</atem:parameter>\n</atem:invoke>\n"
      "</atem:function_calls>";
  const auto muse = [](const std::string& body) {
    return "<|start|>assistant to=get_weather<|message|>" + body + "<|eom|>";
  };
  const auto inkling = [](const std::string& body) {
    return "<|message_model|>f<|content_invoke_tool_json|>" + body + "<|end_message|>";
  };
  const std::string call = R"(get_weather({"days": 3}))", both = call + "\n" + call;
  for (const char* format : {"muse", "muse_glimmer"}) {
    check_rows({
        {format, muse(good) + muse(good), both, "", false},
        {format, muse("none") + muse(good), call, "none", true},
        {format, muse(good) + muse("none"), call, "none", true},
        {format, muse(good) + muse("none") + muse(good), both, "none", true},
        {format, muse("none") + muse(good) + muse(good), both, "none", true},
    });
  }
  const std::string read = R"({"name": "get_weather", "args": {"days": 3}})";
  const std::string unread = R"({"name": "f"})";
  check_rows({
      {"inkling", inkling(read) + inkling(read), both, "", false},
      {"inkling", inkling(unread) + inkling(read), call, unread, true},
      {"inkling", inkling(read) + inkling(unread), call, unread, true},
      {"inkling", inkling(unread) + inkling(read) + inkling(read), both, unread, true},
  });
}

TEST_CASE("messages without a format of calls, and answers that begin within reasoning") {
  const auto read = [](const char* name, const std::string& text, Thinking thinking) {
    return read_answer({.reasoning = find_reasoning_format(name)}, text, thinking,
                       OrderedJson::array());
  };
  const ToolAnswer kimi =
      read("kimi_k3", "think<|close|>think<|sep|><|open|>response<|sep|>Yes.", Thinking::open);
  CHECK(kimi.reasoning == "think");
  CHECK(kimi.content == "Yes.");
  const ToolAnswer cut = read("inkling", "think", Thinking::open);
  CHECK(cut.reasoning == "think");
  CHECK(cut.content == "");
  // The marker may come again.
  CHECK(read("inkling", "<|content_thinking|>think", Thinking::open).reasoning == "think");
  const ToolAnswer calls =
      read("inkling", "<|content_invoke_tool_json|>{}<|end_message|>", Thinking::unsaid);
  CHECK(calls.content == "{}");
  CHECK(calls.calls.empty());
}

TEST_CASE("tags end with the suffix of a checkpoint's vocabulary") {
  const AnswerFormats plain{find_tool_format("hy_v3"), find_reasoning_format("hy_v3")};
  CHECK(is_suffixed(plain));
  CHECK_FALSE(is_suffixed({find_tool_format("hermes"), find_reasoning_format("qwen3")}));
  const SuffixedFormats suffixed(plain, ":opensource");
  const ToolAnswer answer = read_answer(
      suffixed.formats(),
      "think</think:opensource>\n<tool_calls:opensource><tool_call:opensource>get_weather"
      "<tool_sep:opensource>\n<arg_key:opensource>days</arg_key:opensource>"
      "<arg_value:opensource>3</arg_value:opensource></tool_call:opensource>"
      "</tool_calls:opensource>",
      Thinking::open, kTypedTools);
  CHECK(answer.reasoning == "think");
  CHECK(shown_calls(answer) == R"(get_weather({"days": 3}))");
  CHECK(thinking_of_prompt(*suffixed.formats().reasoning, "x<think:opensource>") == Thinking::open);
  // The vocabulary says it.
  const auto suffix_of = [](const std::string& token) {
    return tag_suffix(load_json(
        R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [{"id": 1, "content": ")" +
        token + R"(", "special": true}]})"));
  };
  CHECK(suffix_of("<tool_call:6124c78e>") == ":6124c78e");
  CHECK(suffix_of("<think:opensource>") == ":opensource");
  CHECK(suffix_of("<tool_call>") == "");
  CHECK(suffix_of("<tool_callers:x>") == "");
  CHECK(suffix_of("<think: a>") == "");
}
