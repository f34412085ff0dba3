// Chat templates: what they see, what they may spend, where they come from.
#include "text/chat_template.h"

#include <unistd.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "processor_time.h"

namespace plimsoll::text {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAlternating =
    R"({{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{{- '[' ~ message.role ~ '] ' + message.content | trim ~ eos_token -}}
{% endfor %}
{% if add_generation_prompt %}{{ '[assistant] ' }}{% endif %})";

ChatInput input_of(const char* messages) {
  ChatInput input;
  input.messages = OrderedJson::parse(messages);
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  return input;
}

std::string render(const std::string& source, const ChatInput& input = input_of("[]")) {
  return ChatTemplate::parse(source).render(input);
}

std::string failure_of(const std::string& source, TemplateBudget budget = {},
                       const ChatInput& input = input_of("[]")) {
  try {
    return "rendered: " + ChatTemplate::parse(source).render(input, budget);
  } catch (const TemplateError& error) {
    return error.what();
  }
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() / ("plimsoll_templates_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("A conversation becomes the prompt") {
  auto input =
      input_of(R"([{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Yo"}])");
  CHECK(render(kAlternating, input) == "<s>[user] Hi</s>[assistant] Yo</s>");
  input.add_generation_prompt = true;
  CHECK(render(kAlternating, input) == "<s>[user] Hi</s>[assistant] Yo</s>[assistant] ");
}

TEST_CASE("A template refuses a conversation in its own words") {
  const auto input = input_of(R"([{"role": "assistant", "content": "I first"}])");
  CHECK_THROWS_WITH(render(kAlternating, input),
                    "Conversation roles must alternate user/assistant/user/assistant/...");
}

TEST_CASE("what one template may spend in memory does not bind the next conversation") {
  const TemplateBudget small{.max_steps = 100, .max_depth = 8, .max_output = 10};
  CHECK(
      failure_of("{{ 'a' * 11 }}", small).starts_with("the template makes a text of more than 10"));
  CHECK(failure_of("ok", small) == "rendered: ok");
  // More than the rooms of those two together.
  ChatInput input = input_of("[]");
  input.kwargs["long"] = std::string(size_t{70} << 20, 'x');
  CHECK(render("{{ long[:2] }}", input) == "xx");
}

TEST_CASE("Templates see the conversation and nothing else") {
  ChatInput input = input_of(R"([{"role": "user", "content": [{"type": "text", "text": "é"}]}])");
  SECTION("absent tools and documents are none") {
    CHECK(render("{{ tools }} {{ documents is none }} {{ add_generation_prompt }}", input) ==
          "None True False");
  }
  SECTION("tools keep the order of their keys") {
    input.tools = OrderedJson::parse(R"([{"z": 1, "a": {"y": 2.0, "b": null}}])");
    CHECK(render("{{ tools[0] | tojson }}", input) == R"({"z": 1, "a": {"y": 2.0, "b": null}})");
  }
  SECTION("further variables come before special tokens") {
    input.kwargs = OrderedJson::parse(R"({"enable_thinking": false, "eos_token": "!"})");
    CHECK(render("{{ enable_thinking }}{{ bos_token }}{{ eos_token }}", input) == "False<s>!");
  }
  SECTION("numbers keep their kind") {
    input.kwargs = OrderedJson::parse(R"({"i": 2, "f": 2.0, "u": 18446744073709551615})");
    CHECK(render("{{ i }} {{ f }} {{ u }}", input) == "2 2.0 18446744073709551615");
  }
  SECTION("no Python behind the values") {
    for (const char* source :
         {"{{ ''.__class__.__mro__ }}", "{{ cycler.__init__.__globals__ }}", "{{ lipsum.x.y }}",
          "{{ '{0.__class__.x}'.format(1) }}", "{{ lipsum() }}", "{{ self.x() }}"}) {
      INFO(source);
      CHECK_THROWS_AS(render(source, input), TemplateError);
    }
  }
  SECTION("no other templates, and only where they are reached") {
    CHECK(render("{% if false %}{% include 'x' %}{% import 'x' as y %}{% endif %}ok", input) ==
          "ok");
    for (const char* source : {"{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}",
                               "{% from 'x' import y %}"}) {
      INFO(source);
      CHECK_THROWS_AS(render(source, input), TemplateError);
    }
  }
}

TEST_CASE("Malformed templates name the line") {
  struct Row {
    const char* source;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"a\n{{ 'abc }}", "(template line 2)"},
      {"a\n\n{% if x %}", "The innermost block that needs to be closed is 'if'. (template line 3)"},
      {"{% foo %}", "Encountered unknown tag 'foo'. (template line 1)"},
      {"{{ a b }}", "expected token 'end of print statement', got 'b' (template line 1)"},
      {"{{ }}", "Expected an expression, got 'end of print statement' (template line 1)"},
      {"{{ [1, 2 }}", "unexpected '}', expected ']' (template line 1)"},
      {"{# x", "Missing end of comment tag (template line 1)"},
      {"{% raw %}x", "Missing end of raw directive (template line 1)"},
      {"\n{{ x|nofilter }}", "No filter named 'nofilter'. (template line 2)"},
      {"\n{{ x is notest }}", "No test named 'notest'. (template line 2)"},
      {"{% break %}", "'break' outside loop (template line 1)"},
      {"{% set 1 = 2 %}", "can't assign to this expression (template line 1)"},
      {"{% macro m(a, a) %}{% endmacro %}", "duplicate argument 'a' (template line 1)"},
      {"{{ f(a=1, a=2) }}", "keyword argument repeated: a (template line 1)"},
      {"{{ '\\ud800' }}", "lone surrogate"},
  };
  for (const Row& row : rows) {
    INFO(row.source);
    CHECK_THAT(failure_of(row.source), Catch::Contains(row.message));
  }
}

TEST_CASE("Hostile templates end soon and say why") {
  struct Row {
    const char* label;
    std::string source;
    const char* message;
  };
  const std::string doubling =
      "{% set n = namespace(v=START) %}{% for i in range(200) %}{% set n.v = STEP %}{% endfor %}";
  const auto grows = [&](const std::string& start, const std::string& step) {
    std::string source = doubling;
    source.replace(source.find("START"), 5, start);
    return source.replace(source.find("STEP"), 4, step);
  };
  const std::vector<Row> rows = {
      {"a long range", "{% for i in range(10 ** 9) %}x{% endfor %}", "Range too big"},
      {"an endless loop",
       "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"},
      {"doubling by ~", grows("'a'", "n.v ~ n.v"), "bytes"},
      {"doubling by +", grows("'a'", "n.v + n.v"), "bytes"},
      {"doubling by join", grows("'a'", "[n.v, n.v]|join"), "bytes"},
      {"doubling by replace", grows("'a'", "n.v.replace('a', 'aa')"), "steps"},
      {"doubling a list", grows("[1]", "n.v + n.v"), "list"},
      {"squaring", grows("3", "n.v * n.v"), "too large"},
      {"repetition", "{{ 'a' * 10 ** 12 }}", "bytes"},
      {"repetition past 64 bits", "{{ 'ab' * 10 ** 18 * 10 ** 18 }}", "bytes"},
      {"padding", "{{ 'a'.center(10 ** 12) }}", "bytes"},
      {"padding filter", "{{ 'a'|center(10 ** 12) }}", "bytes"},
      {"indent", "{{ 'a\nb'|indent(10 ** 12) }}", "bytes"},
      {"format width", "{{ '%999999999999d' % 1 }}", "bytes"},
      {"format precision", "{{ '%.999999999f' % 1.5 }}", "precision"},
      {"format field", "{{ '{:>999999999999}'.format(1) }}", "bytes"},
      {"JSON indent", "{{ [1]|tojson(indent=10 ** 12) }}", "bytes"},
      {"batch fill", "{{ [1]|batch(10 ** 12, 0)|list }}", "list"},
      {"time format", "{{ strftime_now('%999999999d') }}", "width"},
      {"big power", "{{ 7 ** 7 ** 7 }}", "too large"},
      {"endless macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deeper than 64"},
      {"macro tree",
       "{% macro m(n) %}{{ m(n + 1) if n < 40 }}{{ m(n + 1) if n < 40 }}{% endmacro %}{{ m(0) }}",
       "steps"},
      {"endless loop()", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
       "deeper than 64"},
      {"endless caller",
       "{% macro m() %}{{ caller() }}{% endmacro %}{% macro r() %}{% call m() %}{{ r() }}{% "
       "endcall %}{% endmacro %}{{ r() }}",
       "deeper than 64"},
      {"output", "{% for i in range(99999) %}" + repeated("x", 1000) + "{% endfor %}", "bytes"},
      {"shared pairs", grows("(1,)", "(n.v, n.v)") + "{{ {n.v: 1} }}", "steps"},
      {"shared pairs as text", grows("(1,)", "(n.v, n.v)") + "{{ n.v }}", "steps"},
      {"nested lists",
       "{% set n = namespace(v=1) %}{% for i in range(9999) %}{% set n.v = [n.v] %}{% endfor %}",
       "nested"},
      {"a namespace in itself", "{% set n = namespace() %}{% set n.v = [n] %}{{ n }}", "recursion"},
      {"chained generators", grows("[1]", "n.v|map('string')") + "{{ n.v|list }}", "chained"},
      {"many values", grows("[]", "[n.v, 'x' * 4000000]"), "memory"},
      {"brackets", "{{ " + repeated("(", 100'000), "nested too deeply"},
      {"signs", "{{ " + repeated("-", 100'000) + "1 }}", "nested too deeply"},
      {"a long sum", "{{ 1" + repeated("+1", 100'000) + " }}", "nested too deeply"},
      {"a long path", "{{ a" + repeated(".a", 100'000) + " }}", "nested too deeply"},
      {"blocks", repeated("{% if 1 %}", 20'000), "nested too deeply"},
      {"a huge template", repeated("x", 2'000'000), "bytes"},
      {"many arguments",
       "{{ f(" +
           [] {
             std::string all;
             for (int i = 0; i < 20'000; ++i) all += "a" + std::to_string(i) + "=1,";
             return all;
           }() +
           ") }}",
       "too many keyword arguments"},
  };
  for (const Row& row : rows) {
    INFO(row.label);
    const testing::ProcessorTime time;
    const std::string message = failure_of(row.source);
    CHECK(time.seconds() < 20);
    CHECK_THAT(message, Catch::Contains(row.message));
  }
}

TEST_CASE("Budgets are the caller's") {
  CHECK(failure_of("{% for i in range(50) %}{{ i }}{% endfor %}", {.max_steps = 20}) ==
        "the template takes more than 20 steps (template line 1)");
  CHECK_THAT(failure_of("{{ 'a' * 100 }}", {.max_output = 50}),
             Catch::Contains("more than 50 bytes"));
  CHECK_THAT(
      failure_of("{% macro m(n) %}{{ m(n - 1) if n }}{% endmacro %}{{ m(5) }}", {.max_depth = 3}),
      Catch::Contains("deeper than 3 levels"));
}

TEST_CASE("A template truncated at every byte offset is an error or renders, never a crash") {
  const std::string source = std::string(kAlternating) +
                             "{% macro m(a, b=1) %}{{ caller(a) }}{% endmacro %}{% call(x) m([1, "
                             "{'k': 2.5}]) %}{{ x|tojson }}"
                             "{% endcall %}{% raw %}{{ {% endraw %}{# c #}{% set a, b = 1, "
                             "'x\\u00e9' %}{{ b[::-1] if a is odd }}";
  const auto input = input_of(R"([{"role": "user", "content": "Hi"}])");
  for (size_t length = 0; length <= source.size(); ++length) {
    INFO("cut at byte " << length);
    for (const std::string& cut : {source.substr(0, length), source.substr(length)}) {
      CHECK_THAT(failure_of(cut, {}, input),
                 Catch::StartsWith("rendered: ") || Catch::Contains("template line"));
    }
  }
}

TEST_CASE("Threads share a template") {
  const auto chat_template = ChatTemplate::parse(kAlternating);
  const auto input = input_of(R"([{"role": "user", "content": "Hi"}])");
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) wrong += chat_template.render(input) != "<s>[user] Hi</s>";
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("Where a folder keeps its templates") {
  const Folder folder;
  using Templates = std::map<std::string, std::string>;
  SECTION("nowhere") {
    CHECK(folder_templates(folder.path()).empty());
  }
  SECTION("in tokenizer_config.json, as text") {
    folder.write("tokenizer_config.json", R"({"chat_template": "A", "x": 1})");
    CHECK(folder_templates(folder.path()) == Templates{{"default", "A"}});
  }
  SECTION("in tokenizer_config.json, as a list of names") {
    folder.write(
        "tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "A"}, {"name": "rag", "template": "B"}]})");
    CHECK(folder_templates(folder.path()) == Templates{{"default", "A"}, {"rag", "B"}});
  }
  SECTION("chat_template.json comes before tokenizer_config.json") {
    folder.write("tokenizer_config.json", R"({"chat_template": "A"})");
    folder.write("chat_template.json", R"({"chat_template": "B"})");
    CHECK(folder_templates(folder.path()) == Templates{{"default", "B"}});
  }
  SECTION("files come before both") {
    folder.write("tokenizer_config.json", R"({"chat_template": "A"})");
    folder.write("chat_template.jinja", "C\n");
    folder.write("additional_chat_templates/tool_use.jinja", "T");
    folder.write("additional_chat_templates/notes.txt", "no template");
    CHECK(folder_templates(folder.path()) == Templates{{"default", "C\n"}, {"tool_use", "T"}});
  }
  SECTION("unusable ones are named") {
    for (const char* text :
         {"{", "[]", R"({"chat_template": 1})", R"({"chat_template": [{"name": "x"}]})",
          R"({"chat_template": [{"name": "x", "template": 2}]})"}) {
      INFO(text);
      folder.write("tokenizer_config.json", text);
      CHECK_THROWS_WITH(folder_templates(folder.path()), Catch::Contains("tokenizer_config.json"));
    }
  }
}

TEST_CASE("The choice among templates") {
  const std::map<std::string, std::string> several = {
      {"default", "D"}, {"tool_use", "T"}, {"rag", "R"}};
  CHECK(choose_template(several, "", false) == "D");
  CHECK(choose_template(several, "", true) == "T");
  CHECK(choose_template(several, "rag", true) == "R");
  CHECK(choose_template({{"default", "D"}}, "", true) == "D");
  CHECK_THROWS_WITH(choose_template(several, "x", false),
                    Catch::Contains("default, rag, tool_use"));
  CHECK_THROWS_WITH(choose_template({{"rag", "R"}, {"x", "X"}}, "", false),
                    Catch::Contains("rag, x"));
  CHECK_THROWS_WITH(choose_template({}, "", false), Catch::Contains("--chat-template"));
}

}  // namespace plimsoll::text
