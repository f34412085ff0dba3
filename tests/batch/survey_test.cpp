// Survey of an input's lines for plan -i.
#include "batch/prompt_survey.h"

#include <catch2/catch.hpp>

#include "batch/grammar_survey.h"
#include "engine/byte_tokenizer.h"
#include "scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;

TEST_CASE(
    "lines without max_tokens are open, but OpenAI's completions, which end after 16 tokens") {
  const test::Scratch scratch;
  const std::string path = scratch.write("in", R"({"prompt_token_ids":[1,2]}
{"prompt_token_ids":[1,2,3],"max_tokens":5}
{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":[4]}}
{"prompt_token_ids":[7]}
)");
  files::InputFile input = files::InputFile::open(path);
  SurveyOptions options;
  options.prompts.max_model_len = 100;
  options.limits.vocab_size = 10;
  const PromptSurvey survey = survey_prompts(input, options);
  CHECK(survey.bad_lines == 0);
  CHECK(survey.open_ended == 2);
  REQUIRE(survey.sequences.size() == 4);
  CHECK(survey.sequences[0].answer == 98);
  CHECK(survey.sequences[1].answer == 5);
  CHECK(survey.sequences[2].answer == 16);
}

TEST_CASE("a survey tells fields that have no effect, with the line and the nearest name") {
  const test::Scratch scratch;
  files::InputFile input = files::InputFile::open(scratch.write("in", R"({"prompt_token_ids":[1]}
{"prompt_token_ids":[1],"tempereture":1}
)"));
  SurveyOptions options;
  options.prompts.max_model_len = 100;
  options.limits.vocab_size = 10;
  std::string told;
  options.unknown = [&](uint64_t line, std::string_view name, std::string_view reason) {
    told += std::to_string(line) + " " + std::string(name) + " " + std::string(reason);
  };
  CHECK(survey_prompts(input, options).bad_lines == 0);
  CHECK(told.starts_with("2 tempereture is no known field"));
}

TEST_CASE("a refusal of an unknown field shows the beginning of a long name, as a note does") {
  const std::string name(100, 'x'), shown(64, 'x');
  CHECK(shortened_name(name) == shown);
  CHECK(shortened_name(std::string(63, 'x') + "\u00e9") ==
        std::string(63, 'x'));  // whole characters
  CHECK(shortened_name(std::string(62, 'x') + "\u00e9") == std::string(62, 'x') + "\u00e9");
  CHECK_THROWS_WITH(on_unknown(UnknownFields::refuse)(name, "is unknown"), shown + ": is unknown");
}

TEST_CASE("whole blocks that stood before are shared, but for the one of a prompt's last token") {
  struct Row {
    const char* name;
    std::vector<int> lengths;  // of prompts that begin alike
    int64_t shared;            // tokens, in blocks of 4
  };
  for (const Row& row :
       {Row{"less than a block", {3, 3}, 0}, Row{"exactly one block", {4, 4}, 0},
        Row{"one block and a token", {5, 5}, 4}, Row{"exactly two blocks", {8, 8}, 4},
        Row{"two blocks and a token", {9, 9, 9}, 16}, Row{"a longer one behind", {4, 9}, 4},
        Row{"a shorter one behind", {9, 4}, 0}}) {
    INFO(row.name);
    const test::Scratch scratch;
    std::string text;
    for (const int length : row.lengths) {
      text += R"({"max_tokens":1,"prompt_token_ids":[0)";
      for (int i = 1; i < length; ++i) text += "," + std::to_string(i);
      text += "]}\n";
    }
    files::InputFile input = files::InputFile::open(scratch.write("in", text));
    SurveyOptions options;
    options.block_size = 4;
    options.prompts.max_model_len = 100;
    options.limits.vocab_size = 10;
    CHECK(survey_prompts(input, options).shared_tokens == row.shared);
  }
}

namespace {

/// A line of token ids: `length` times the token `first`.
std::string ids_line(const std::string& id, int length, int first, const std::string& more = "") {
  std::string ids = std::to_string(first);
  for (int i = 1; i < length; ++i) ids += "," + std::to_string(first);
  return R"({"id":")" + id + R"(","prompt_token_ids":[)" + ids + "]" + more + "}\n";
}

PromptSurvey survey_of(const std::string& text, const SurveyOptions& options) {
  const test::Scratch scratch;
  files::InputFile input = files::InputFile::open(scratch.write("in", text));
  return survey_prompts(input, options);
}

SurveyOptions short_context() {
  SurveyOptions options;
  options.prompts.max_model_len = 8;
  options.limits.vocab_size = 10;
  return options;
}

}  // namespace

TEST_CASE("a survey counts each kind of line that does not run as it stands") {
  const std::string text = ids_line("a", 2, 1) + ids_line("b", 8, 2) + "\n" + "{broken\n" +
                           ids_line("a", 3, 3) + ids_line("c", 12, 4) + ids_line("d", 9, 5) +
                           R"({"id":"e","prompt_token_ids":[99]})"
                           "\n" +
                           ids_line("f", 7, 6, R"(,"max_tokens":1,"n":2)");
  const PromptSurvey survey = survey_of(text, short_context());
  CHECK(survey.lines == 8);
  CHECK(survey.chats == 0);
  CHECK(survey.bad_lines == 2);  // broken, a token that the model has not
  CHECK(survey.first_bad_line == 4);
  CHECK_THAT(survey.first_bad_reason, Catch::Contains("line 4, column 2"));
  CHECK(survey.duplicate_ids == 1);
  CHECK(survey.over_context == 3);  // a prompt of 8 tokens leaves no room for one
  CHECK(survey.first_over_context == 2);
  CHECK(survey.longest_over_context == 12);
  CHECK(survey.open_ended == 1);
  CHECK(survey.prompt_tokens == 2 + 7);
  REQUIRE(survey.sequences.size() == 3);
  CHECK(survey.sequences[0].prompt == 2);
  CHECK(survey.sequences[0].answer == 6);
  CHECK(survey.sequences[2].prompt == 7);
  CHECK(survey.sequences[2].answer == 1);
  SurveyOptions counting = short_context();
  counting.keeps_sequences = false;
  const PromptSurvey counted = survey_of(text, counting);
  CHECK(counted.sequences.capacity() == 0);
  CHECK(counted.prompt_tokens == survey.prompt_tokens);
  CHECK(counted.bad_lines == 2);
  CHECK(survey.cut_lines + survey.dropped_tokens + survey.split_lines == 0);
}

TEST_CASE("a survey counts what --long-prompt cuts and splits, and answers with a cap as ended") {
  const std::string text = ids_line("a", 12, 1) + ids_line("b", 3, 2);
  SurveyOptions options = short_context();
  options.prompts.long_prompt = LongPrompt::truncate_left;
  const PromptSurvey cut = survey_of(text, options);
  CHECK(cut.cut_lines == 1);
  CHECK(cut.dropped_tokens == 12 - cut.sequences.front().prompt);
  CHECK(cut.split_lines + cut.over_context == 0);
  CHECK(cut.open_ended == 2);
  options.prompts.long_prompt = LongPrompt::split;
  options.prompts.max_tokens_cap = 2;
  const PromptSurvey split = survey_of(text, options);
  CHECK(split.split_lines == 1);
  CHECK(split.sequences.size() >= 3);
  CHECK(split.cut_lines + split.dropped_tokens + split.open_ended == 0);
}

TEST_CASE("a survey tells every line of its slice, with the envelope of the lines before it") {
  const std::string batch =
      R"({"custom_id":"x","method":"POST","url":"/v1/completions","body":{"prompt":[4]}})"
      "\n";
  const std::string text =
      ids_line("a", 1, 1) + batch + "{broken\n" + ids_line("a", 1, 2) + batch + ids_line("b", 1, 3);
  SurveyOptions options = short_context();
  options.slice = {.first = 1, .count = 4};
  options.is_done = [](uint64_t slot) { return slot == 0; };
  struct Told {
    uint64_t line;
    Envelope usual;
    uint64_t same_id;
    bool runs;
  };
  std::vector<Told> told;
  options.each = [&](const SurveyedLine& line) {
    told.push_back({line.place.number, line.usual, line.same_id, line.request != nullptr});
    CHECK(line.text != 0);
  };
  const PromptSurvey survey = survey_of(text, options);
  CHECK(survey.lines == 4);
  CHECK(survey.bad_lines == 1);
  CHECK(survey.duplicate_ids == 2);
  const auto is = [&](size_t at, uint64_t line, Envelope usual, uint64_t same_id, bool runs) {
    const Told& found = told.at(at);
    return found.line == line && found.usual == usual && found.same_id == same_id &&
           found.runs == runs;
  };
  REQUIRE(told.size() == 4);
  CHECK(is(0, 2, Envelope::plain, 0, false));  // done
  CHECK(is(1, 3, Envelope::batch, 0, false));
  CHECK(is(2, 4, Envelope::batch, 1, false));  // the id of a line before the slice
  CHECK(is(3, 5, Envelope::plain, 2, false));
  options.slice = {.first = 5, .count = 9};
  options.each = nullptr;
  CHECK(survey_of(text, options).sequences.empty());  // its slot is done
  options.is_done = nullptr;
  const PromptSurvey last = survey_of(text, options);
  CHECK(last.sequences.size() == 1);
  CHECK(last.lines == 1);
  CHECK(last.bad_lines + last.duplicate_ids == 0);  // those before the slice are not its own
  options.slice = {};
  options.most_bytes = text.size();
  CHECK(survey_of(text, options).lines == 6);
  options.most_bytes = text.size() - 1;
  CHECK(survey_of(text, options).lines < 6);
}

TEST_CASE("grammars are compiled of the lines that are answered, and of no line more") {
  const test::Scratch scratch;
  std::string text;
  for (int line = 0; line < 4; ++line)
    text += R"({"prompt":"x","structured_outputs":{"choice":[")" +
            std::string(1, static_cast<char>('a' + line)) + "\"]}}\n";
  scratch.write("in", text + "{\"prompt\":\"x\"}\n");
  const text::Tokenizer tokenizer = testing::byte_tokenizer(scratch.path(""));
  const auto lines_of = [&](const Slice& slice) {
    files::InputFile input = files::InputFile::open(scratch.path("in"));
    grammar::Compiler compiler(tokenizer, {.vocab_size = 257});
    return survey_grammars(input, {.defaults = {}, .limits = {.vocab_size = 257}, .slice = slice},
                           compiler)
        .lines;
  };
  CHECK(lines_of({}) == 4);
  CHECK(lines_of({.first = 0, .count = 1}) == 1);
  CHECK(lines_of({.first = 1, .count = 2}) == 2);
  CHECK(lines_of({.first = 3, .count = 9}) == 1);
}

TEST_CASE("where there are more blocks than a survey remembers it does not say what is shared") {
  // Blocks of one token; 2^21 of them are remembered.
  const auto survey = [](size_t tokens) {
    std::string text = R"({"max_tokens":1,"prompt_token_ids":[1)";
    for (size_t i = 1; i < tokens; ++i) text += ",1";
    SurveyOptions options;
    options.prompts.max_model_len = int64_t{1} << 24;
    options.limits.vocab_size = 10;
    options.block_size = 1;
    return survey_of(text + "]}\n" + R"({"prompt_token_ids":[1,1]})", options);
  };
  const PromptSurvey few = survey(10);
  CHECK_FALSE(few.sharing_cut_off);
  CHECK(few.all_shared_tokens() == 1u);
  const PromptSurvey many = survey((size_t{1} << 21) + 1);
  CHECK(many.sharing_cut_off);
  CHECK(many.shared_tokens == 1);
  CHECK(many.all_shared_tokens() == std::nullopt);
}
