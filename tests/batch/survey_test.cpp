// What plan -i makes of the lines of an input.
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
