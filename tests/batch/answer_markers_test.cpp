// Marks of reasoning and of calls: what sampling and the detokenizer are told of them.
#include <catch2/catch.hpp>
#include <string>

#include "batch/answer_markers.h"
#include "batch/fields/structured_fields.h"
#include "batch/finished_line.h"
#include "batch/line_error.h"
#include "batch/tool_chat.h"
#include "text/tokenizer_fixture.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;
using testing::finished_chat;
using testing::kAnswerOptions;
using testing::kOfferedTools;
using testing::read;
using testing::Read;
using testing::tool_chat;

namespace {

/// A tokenizer of Qwen's markers, of which one is a special token.
text::Tokenizer tokenizer_with(const std::string& special) {
  Json added = Json::array();
  for (const char* marker : {"<think>", "</think>", "<tool_call>", "</tool_call>"}) {
    added.push_back({{"id", 2 + added.size()},
                     {"content", marker},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special == marker}});
  }
  const Json model = {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}}}, {"merges", Json::array()}};
  return text::load_json(Json{{"added_tokens", added}, {"model", model}}.dump());
}

const std::string kNone = R"("n":1)";  // fields that mean nothing here

/// What sampling heeds for a chat with `fields`, behind a prompt that leaves reasoning so.
engine::SamplingParams marked(const AnswerMarkers& markers, const std::string& fields,
                              text::Thinking prompt = text::Thinking::unsaid) {
  const Read line = read(tool_chat(fields));
  REQUIRE(line.code == "");
  engine::SamplingParams sampling;
  markers.apply(line.head, line.request.fields, prompt, sampling);
  return sampling;
}

}  // namespace

TEST_CASE("special tokens stay in the text of a line whose markers they are") {
  const text::AnswerFormats both{text::find_tool_format("hermes"),
                                 text::find_reasoning_format("qwen3")};
  REQUIRE((both.tools != nullptr && both.reasoning != nullptr));
  const auto skipped = [&](const std::string& special, const text::AnswerFormats& formats,
                           const std::string& fields) {
    const text::Tokenizer tokenizer = tokenizer_with(special);
    return marked(AnswerMarkers(&tokenizer, formats), fields).skip_special_tokens;
  };
  CHECK(skipped("", both, kOfferedTools));
  CHECK(!skipped("<tool_call>", both, kOfferedTools));
  CHECK(skipped("<tool_call>", both, kNone));  // a line without tools
  CHECK(skipped("<tool_call>", {nullptr, both.reasoning}, kOfferedTools));
  CHECK(!skipped("</think>", both, kNone));
  CHECK(skipped("</think>", {both.tools, nullptr}, kOfferedTools));
}

TEST_CASE("an answer of a given form that ended within its reasoning fails, and says what to do") {
  const text::Tokenizer tokenizer = tokenizer_with("");
  grammar::Compiler compiler(tokenizer, {.vocab_size = 6});
  const auto told = [&](const std::string& form, const std::string& answer) -> std::string {
    FinishedLine line = finished_chat(tool_chat(form), {answer});
    const auto grammar = compile_constraint(compiler, *line.fields.constraint);
    try {
      read_parts(kAnswerOptions.formats, grammar.get(), line);
      return "";
    } catch (const LineError& error) {
      CHECK(error.code() == code::invalid_answer);
      return error.what();
    }
  };
  for (const char* form : {R"("guided_regex":"a+")", R"("guided_choice":["a"])",
                           R"("response_format":{"type":"json_object"})"})
    CHECK_THAT(told(form, "<think>Hm."), Contains("answer 0 ended within its reasoning, before") &&
                                             Contains("thinking_token_budget"));
  CHECK(told(R"("guided_regex":"a*")", "<think>Hm.</think>").empty());
  CHECK(told(R"("guided_regex":"a+")", "<think>Hm.</think>a").empty());
  const FinishedLine line = finished_chat(tool_chat(R"("guided_regex":"a+")"), {""});
  const text::ToolAnswer call{.reasoning = "Hm.", .calls = {{"", "f", "{}"}}};
  const auto grammar = compile_constraint(compiler, *line.fields.constraint);
  CHECK_NOTHROW(check_answers(*grammar, line.fields, line.outputs[0], {call}));
}

TEST_CASE("sampling knows the marks of reasoning where a budget or a form needs them") {
  const text::Tokenizer tokenizer = tokenizer_with("");
  const text::AnswerFormats qwen{nullptr, text::find_reasoning_format("qwen3")};
  const AnswerMarkers markers(&tokenizer, qwen);
  const std::string budget = R"("thinking_token_budget":7)";
  CHECK(marked(markers, kNone).thinking == nullptr);
  CHECK(marked(markers, budget, text::Thinking::ended).thinking == nullptr);
  const auto thinking = marked(markers, budget).thinking;
  REQUIRE(thinking != nullptr);
  CHECK(thinking->starts == std::vector<std::string>{"<think>"});
  CHECK(thinking->ends == std::vector<std::string>{"</think>"});
  CHECK(thinking->start_tokens == std::vector<std::vector<int32_t>>{{2}});
  CHECK(thinking->end_tokens == std::vector<int32_t>{3});
  CHECK(thinking->budget == 7);
  CHECK(!thinking->open);
  CHECK(marked(markers, budget, text::Thinking::open).thinking->open);
  const auto formed = marked(markers, R"("structured_outputs":{"choice":["a"]})").thinking;
  REQUIRE(formed != nullptr);
  CHECK(!formed->budget);
  // Answers of models whose prompts open no reasoning begin within it all the same.
  const AnswerMarkers unmarked(&tokenizer, {nullptr, text::find_reasoning_format("deepseek_r1")});
  CHECK(marked(unmarked, budget).thinking->open);
  // In formats of messages the end has the next message's header.
  const AnswerMarkers harmony(&tokenizer, {nullptr, text::find_reasoning_format("openai_gptoss")});
  CHECK(marked(harmony, budget).thinking->end_tokens ==
        tokenizer.encode("<|end|><|start|>assistant<|channel|>final<|message|>",
                         text::AddSpecials::no));
  // A call of tools ends reasoning too, but not before an answer of a given form.
  const AnswerMarkers kimi(&tokenizer, {nullptr, text::find_reasoning_format("kimi_k2")});
  const std::string call = "<|tool_calls_section_begin|>";
  CHECK(marked(kimi, budget).thinking->ends == std::vector<std::string>{"</think>", call});
  CHECK(marked(kimi, R"("structured_outputs":{"choice":["a"]})").thinking->ends ==
        std::vector<std::string>{"</think>"});
  CHECK(markers.thinking_of("x<think>") == text::Thinking::open);
  // Of answers that are ids nobody reads marks.
  const AnswerMarkers ids(nullptr, qwen);
  CHECK(ids.thinking_of("x<think>") == text::Thinking::unsaid);
  CHECK_THROWS_WITH(marked(ids, budget), Catch::Contains("--reasoning-parser"));
  CHECK_THROWS_WITH(marked(AnswerMarkers(&tokenizer, {}), budget),
                    Catch::Contains("--reasoning-parser"));
}

TEST_CASE(
    "a budget of reasoning says what it lacks, and messages of reasoning end each by itself") {
  const text::Tokenizer tokenizer = tokenizer_with("");
  const text::AnswerFormats qwen{nullptr, text::find_reasoning_format("qwen3")};
  const auto told = [&](const std::string& text, const text::AnswerFormats& formats) {
    const Read line = read(text);
    REQUIRE(line.code == "");
    engine::SamplingParams sampling;
    try {
      AnswerMarkers(&tokenizer, formats)
          .apply(line.head, line.request.fields, text::Thinking::unsaid, sampling);
      return std::string();
    } catch (const LineError& error) {
      CHECK(error.param() == "thinking_token_budget");
      return std::string(error.what());
    }
  };
  const std::string budget = R"("thinking_token_budget":7)", prompt = R"({"prompt":"x",)" + budget;
  CHECK(told(tool_chat(budget), qwen).empty());
  CHECK_THAT(told(tool_chat(budget), {}), Contains("needs --reasoning-parser"));
  CHECK_THAT(told(prompt + "}", qwen), Contains("needs messages"));
  CHECK_THAT(told(prompt + "}", {}), Contains("needs messages"));
  const AnswerMarkers harmony(&tokenizer, {nullptr, text::find_reasoning_format("openai_gptoss")});
  CHECK_FALSE(marked(harmony, budget).thinking->pauses.empty());
  CHECK(marked(AnswerMarkers(&tokenizer, qwen), budget).thinking->pauses.empty());
}
