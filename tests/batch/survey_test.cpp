// Survey of an input's lines for plan -i.
#include "batch/prompt_survey.h"

#include <catch2/catch.hpp>

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
