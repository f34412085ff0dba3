// Reasoning before answers, in every format.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "text/answer/answer.h"
#include "text/answer/messages.h"

using namespace plimsoll;
using namespace plimsoll::text;

namespace {

struct ReasonedParts {
  std::string reasoning, content;
};

const std::vector<ReasonedParts> kReasonedAnswers = {
    {"2 and 2 make 4.", "Four."},
    {"\nLines\nof thought\n", "\n\nLines\nof an answer\n"},
    {"a", "b"},
    {"Zürich 東京 🌧", "Ça va ?"},
    {"{\"not\": \"an answer\"}", "{\"an\": \"answer\"}"},
    {"It says <b>bold</b> and </b>", "<i>yes</i>"},
    {"Is 3 < 4? Yes.", "3 < 4"},
    {"\"quoted\" \\ 'text'", "\t\"x\""},
    {"tags such as <th and ink>", "no </thin"},
    {std::string(3000, 'x'), std::string(2000, 'y')},
    {"Wait. Wait.", "1. a\n2. b"},
    {"[not calls]", "[1, 2]"},
    {"end: ", "  spaces stay  "}};

const ReasoningFormat& reasoning_named(const char* name) {
  const ReasoningFormat* format = find_reasoning_format(name);
  REQUIRE(format != nullptr);
  return *format;
}

SplitAnswer split_answer(const ReasoningFormat& format, const std::string& text,
                         Thinking thinking = Thinking::unsaid) {
  const ToolAnswer answer =
      read_answer({.reasoning = &format}, text, thinking, OrderedJson::array());
  return {answer.reasoning, answer.content};
}

/// Text between the message of reasoning and the header of the next one.
std::string between_messages(const ReasoningFormat& format) {
  if (format.messages == &kHarmonyMessages) return "<|end|><|start|>assistant";
  if (format.messages == &kInklingMessages) return "<|end_message|><|message_model|>";
  if (format.messages == &kKimiMessages) return "<|close|>think<|sep|>";
  return format.messages == nullptr ? "" : "<|eom|><|start|>assistant ";
}

/// An answer as a model of the format writes it.
std::string as_written(const ReasoningFormat& format, const ReasonedParts& parts) {
  const std::string line = format.own_lines ? "\n" : "";
  std::string content = parts.content;
  if (!format.answer_begin.empty()) {
    content = "\n" + std::string(format.answer_begin) + "\n" + content + "\n" +
              std::string(format.answer_end);
  }
  const std::string end = between_messages(format);
  return std::string(format.starts[0]) + line + parts.reasoning + line + end +
         std::string(format.ends[0]) + content;
}

}  // namespace

TEST_CASE("reasoning is told apart in every format") {
  REQUIRE(kReasonedAnswers.size() >= 12);
  for (const ReasoningFormat& format : reasoning_formats()) {
    for (const ReasonedParts& parts : kReasonedAnswers) {
      const std::string text = as_written(format, parts);
      INFO(format.names[0] << ": " << text);
      const SplitAnswer split = split_answer(format, text);
      CHECK(split.reasoning == parts.reasoning);
      CHECK(split.content == parts.content);
      const std::string line = format.own_lines ? "\n" : "";
      const SplitAnswer cut =
          split_answer(format, std::string(format.starts[0]) + line + parts.reasoning + line +
                                   forced_end(format, AnswerKind::free_text) + parts.content);
      CHECK(cut.reasoning == parts.reasoning);
      CHECK(cut.content == parts.content);
      if (format.messages == &kHarmonyMessages) continue;
      // A prompt that ends with the first marker, and one that ends with the last.
      const std::string rest = text.substr(format.starts[0].size());
      const SplitAnswer open = split_answer(format, rest, Thinking::open);
      CHECK(open.reasoning == parts.reasoning);
      CHECK(open.content == parts.content);
      CHECK(split_answer(format, parts.content, Thinking::ended).reasoning == "");
      CHECK(split_answer(format, parts.content, Thinking::ended).content == parts.content);
    }
  }
}

TEST_CASE("reasoning that is cut short ends as a model would end it") {
  for (const ReasoningFormat& format : reasoning_formats()) {
    INFO(format.names[0]);
    CHECK(forced_end(format, AnswerKind::free_text) ==
          between_messages(format) + std::string(format.ends[0]));
  }
  CHECK(forced_end(reasoning_named("cohere_command3"), AnswerKind::grammar) ==
        "<|END_THINKING|><|START_RESPONSE|>");
}

TEST_CASE("an answer with reasoning that is cut at any byte loses nothing") {
  for (const ReasoningFormat& format : reasoning_formats()) {
    for (const ReasonedParts& parts : kReasonedAnswers) {
      const std::string text = as_written(format, parts);
      if (text.size() > 1000) continue;
      for (size_t cut = 0; cut <= text.size(); ++cut) {
        for (const Thinking thinking : {Thinking::unsaid, Thinking::open, Thinking::ended}) {
          const SplitAnswer split = split_answer(format, text.substr(0, cut), thinking);
          const std::string all = split.reasoning + "\n" + split.content;
          for (const std::string word :
               {"make", "Four", "東京", "bold", "Yes", "quoted", "Lines"}) {
            const bool there = text.substr(0, cut).find(word) != std::string::npos;
            if (!there || all.find(word) != std::string::npos) continue;
            FAIL_CHECK(format.names[0] << ": " << text.substr(0, cut) << " lost " << word);
          }
        }
      }
    }
  }
}

TEST_CASE("marks that are missing, doubled or out of order") {
  struct Row {
    const char* format;
    std::string text, reasoning, content;
    Thinking thinking = Thinking::unsaid;
  };
  const Row rows[] = {
      // Prompts of DeepSeek R1 may hold the first mark without ending in it.
      {"deepseek_r1", "thoughts</think>answer", "thoughts", "answer"},
      {"deepseek_r1", "only thoughts", "only thoughts", ""},
      {"deepseek_r1", "<think>only thoughts", "only thoughts", ""},
      {"deepseek_r1", "<think></think>answer", "", "answer"},
      {"deepseek_r1", "a</think>b</think>c", "a", "b</think>c"},
      {"deepseek_r1", "", "", ""},
      // A model that does not think has no marks.
      {"qwen3", "plain", "", "plain"},
      {"qwen3", "thoughts</think>\n\nanswer", "thoughts", "\n\nanswer"},
      {"qwen3", "<think>cut", "cut", ""},
      {"qwen3", "cut", "cut", "", Thinking::open},
      {"qwen3", "<think>a</think>b", "a", "b", Thinking::open},
      {"qwen3", "\n <think>a</think>b", "a", "b", Thinking::open},
      {"qwen3", "a <think> b</think>c", "a <think> b", "c", Thinking::open},
      {"qwen3", "a </think> stays", "", "a </think> stays", Thinking::ended},
      {"qwen3", "Well. <think>a</think>b", "a", "Well. b"},
      {"qwen3", "\n<think>\na\n</think>\n\nb", "\na\n", "\n\nb"},
      {"qwen3", "a</think>b<think>c", "a", "b<think>c"},
      {"mistral", "plain", "", "plain"},
      {"mistral", "no start[/THINK]x", "", "no start[/THINK]x"},
      {"mistral", "[THINK]cut", "cut", ""},
      {"mistral", "before[THINK]a[/THINK]b", "a", "beforeb"},
      {"granite", "Here's my thought process: a Here's my response: b", " a ", " b"},
      {"granite", "Here is my thought process: cut", "", "Here is my thought process: cut"},
      {"granite", "Here is my response: b", "", "Here is my response: b"},
      {"hunyuan_a13b", "<think>\na\n</think>\n<answer>\nb\n</answer>", "a", "b"},
      {"hunyuan_a13b", "<think>\na\n</think>\n<answer>\ncut", "a", "cut"},
      {"hunyuan_a13b", "<think>\ncut", "", "<think>\ncut"},
      {"hunyuan_a13b", "<answer>\nb\n</answer>", "", "b"},
      {"ernie45", "a\n</think>\n\n<response>\nb\n</response>\n", "a\n", "b"},
      {"ernie45", "a</think>plain", "a", "plain"},
      {"kimi_k2", "a<|tool_calls_section_begin|>calls", "a", "<|tool_calls_section_begin|>calls"},
      {"kimi_k2", "<think>a</think>b<|tool_calls_section_begin|>c", "a",
       "b<|tool_calls_section_begin|>c"},
      {"seed_oss", "<seed:think>a</seed:think>b", "a", "b"},
      {"openai_gptoss",
       "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>"
       "commentary<|message|>b<|end|><|start|>assistant<|channel|>final<|message|>c",
       "a", "b\nc"},
      {"openai_gptoss", "<|channel|>analysis<|message|>cut", "cut", ""},
      {"openai_gptoss", "no channel", "", "no channel"},
      {"openai_gptoss", "<|channel|>ana", "", "<|channel|>ana"}};
  for (const Row& row : rows) {
    INFO(row.format << ": " << row.text);
    const SplitAnswer split = split_answer(reasoning_named(row.format), row.text, row.thinking);
    CHECK(split.reasoning == row.reasoning);
    CHECK(split.content == row.content);
  }
}

TEST_CASE("the last words of a prompt say whether an answer begins within reasoning") {
  const auto thinking = [](const char* name, const char* prompt) {
    return thinking_of_prompt(reasoning_named(name), prompt);
  };
  CHECK(thinking("qwen3", "<|im_start|>assistant\n") == Thinking::unsaid);
  CHECK(thinking("qwen3", "<|im_start|>assistant\n<think>\n") == Thinking::open);
  CHECK(thinking("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n") == Thinking::ended);
  CHECK(thinking("deepseek_v3", "<｜Assistant｜></think>") == Thinking::ended);
  CHECK(thinking("glm45", "<|assistant|>\n<think></think>") == Thinking::ended);
  // An earlier turn's reasoning says nothing.
  CHECK(thinking("qwen3", "<think>a</think>b<|im_end|>\n<|im_start|>assistant\n") ==
        Thinking::unsaid);
  CHECK(thinking("qwen3", "") == Thinking::unsaid);
}

TEST_CASE("reasoning and calls in one answer") {
  const AnswerFormats formats{find_tool_format("hermes"), find_reasoning_format("qwen3")};
  const OrderedJson tools = OrderedJson::array();
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)";
  const ToolAnswer both =
      read_answer(formats, "<think>a</think>\nLook.\n" + call, Thinking::unsaid, tools);
  CHECK(both.reasoning == "a");
  CHECK(both.content == "\nLook.\n");
  REQUIRE(both.calls.size() == 1);
  CHECK(both.calls[0].arguments == R"({"a": 1})");
  // A call that is only thought of is none.
  const ToolAnswer thought = read_answer(formats, "<think>" + call, Thinking::unsaid, tools);
  CHECK(thought.calls.empty());
  CHECK(thought.reasoning == call);
}

TEST_CASE("formats of reasoning have names of vLLM's parsers, each once") {
  std::vector<std::string_view> names;
  for (const ReasoningFormat& format : reasoning_formats()) {
    for (const std::string_view name : format.names) {
      if (name.empty()) continue;
      CHECK(std::ranges::count(names, name) == 0);
      names.push_back(name);
      CHECK(find_reasoning_format(name) == &format);
    }
  }
  CHECK(names.size() == 39);
}

TEST_CASE("a call's mark before the reasoning begins ends none") {
  const SplitAnswer split = split_answer(reasoning_named("kimi_k2"),
                                         "Not <|tool_calls_section_begin|> yet.<think>Thought");
  CHECK(split.reasoning == "Thought");
  CHECK(split.content == "Not <|tool_calls_section_begin|> yet.");
}
