// Passes over an input before a run: which lines are bad, what other formats are, which grammars.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "batch/grammar_survey.h"
#include "batch/input_scan.h"
#include "batch/line_reader.h"
#include "batch/prompt_survey.h"
#include "batch/scratch.h"
#include "engine/byte_tokenizer.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;
using files::InputFile;
using test::Scratch;

namespace {

InputScan scan(const std::string& text, ScanOptions options = {}) {
  const Scratch scratch;
  InputFile input = InputFile::open(scratch.write("in", text));
  options.limits.vocab_size = 10;
  return scan_input(input, options);
}

/// What is said of a file of this text; "" where it may be one of ours.
std::string told_of_format(const std::string& text) {
  const Scratch scratch;
  InputFile input = InputFile::open(scratch.write("in", text));
  try {
    refuse_other_formats(input, 1 << 20);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::input_unusable);
    return error.what();
  }
}

}  // namespace

TEST_CASE("a scan names the first three bad lines and remembers the numbers of all") {
  const std::string good = "\"x\"\n";
  const std::string text = good + "\n" + "{broken\n" +
                           R"({"prompt":"x","top_p":2})"
                           "\n" +
                           good +
                           R"({"id":"5","prompt":"x"})"
                           "\n" +
                           "7\n" +
                           R"({"id":"a","prompt":[99]})"
                           "\n";
  const InputScan found = scan(text);
  CHECK(found.lines == 7);
  CHECK(found.checked == 7);
  CHECK(found.bad == 5);
  CHECK(found.bad_lines == std::vector<uint64_t>{3, 4, 6, 7, 8});  // blank lines counted
  REQUIRE(found.first_bad.size() == 3);
  CHECK_THAT(found.first_bad[0], Catch::StartsWith("line 3, column 2: "));
  CHECK_THAT(found.first_bad[1], Catch::StartsWith("line 4: top_p: "));
  CHECK(found.first_bad[2] == "line 6: the id is that of line 5");
  // A line that fails takes its id all the same, an unknown field is a fault where it is to be.
  const std::string twice = R"({"id":"a","prompt":7})"
                            "\n"
                            R"({"id":"a","prompt":"x","colour":1})"
                            "\n";
  CHECK(scan(twice).bad_lines == std::vector<uint64_t>{1, 2});
  const std::string unknown = R"({"prompt":"x","colour":1})"
                              "\n";
  CHECK(scan(unknown).bad == 0);
  CHECK(scan(unknown, {.unknown_fields = UnknownFields::refuse}).first_bad ==
        std::vector<std::string>{"line 1: colour: is no known field and has no effect"});
}

TEST_CASE("tables, texts and data of other programs are told apart") {
  const std::string zero(1, '\0');
  for (const auto& [text, told] : std::vector<std::pair<std::string, std::string>>{
           {"a,b\nc,d\n", "--icsv"},
           {"a\tb\nc\td\n", "--itsv"},
           {"a\tb\nc,d\n", "--icsv"},  // some separator in each line
           {"a,b\nc\td\n", "--icsv"},
           {"a\tb\nc d\n", "plain text"},
           {"a b\nc d\n", "plain text"},
           {"a" + zero + "b\nc\n", "binary data"},
           {"a\nb" + zero + "\n", "binary data"},
           {"  [1]\n[2]\n", "a JSON array"},
           {R"({"custom_id":"a","params":{"prompt":"x"}})"
            "\n",
            "batch form of another service"},
           {"a,b\n", ""},
           {"a,b\n\"c\"\n", ""},
           {R"({"custom_id":"a","params":{},"body":{"prompt":"x"}})"
            "\n",
            ""}}) {
    INFO(text);
    if (told.empty()) {
      CHECK(told_of_format(text) == "");
    } else {
      CHECK_THAT(told_of_format(text), Contains(told));
    }
  }
  // Eight lines are looked at.
  const std::string seven = "a,1\nb,2\nc,3\nd,4\ne,5\nf,6\ng,7\n";
  CHECK(told_of_format(seven + "{\"prompt\":\"x\"}\n") == "");
  CHECK_THAT(told_of_format(seven + "h,8\n{\"prompt\":\"x\"}\n"), Contains("--icsv"));
}

TEST_CASE("a file of another kind is told with its name and its cure") {
  for (const auto& [begin, kind, cure] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"\xfd"
            "7zXZ" +
                std::string(1, '\0'),
            "xz-compressed", "xzcat"},
           {"PAR1", "a Parquet file", "duckdb"},
           {"ARROW1", "an Arrow file", "JSON lines"},
           {"Obj\x01", "an Avro file", "avro cat"},
           {"SQLite format 3" + std::string(1, '\0'), "an SQLite database", "JSON lines"},
           {"BZh9", "bzip2-compressed", "bzcat"},
           {"PK\x03\x04", "a zip archive", "unpack it"},
           {"\xff\xfe", "UTF-16 text", "iconv -f UTF-16"},
           {"\xfe\xff", "UTF-16 text", "iconv -f UTF-16"}}) {
    INFO(kind);
    const Scratch scratch;
    InputFile input = InputFile::open(scratch.write("in", begin + "rest\n"));
    LineReader reader(input, 100);
    Line line;
    CHECK_THROWS_WITH(reader.next(line, -1),
                      Contains("in: is " + kind + ", not JSONL; ") && Contains(cure));
    // Only a file begins so, not a line.
    InputFile behind = InputFile::open(scratch.write("behind", "\"x\"\n" + begin + "rest\n"));
    LineReader second(behind, 100);
    CHECK(second.next(line, -1) == LineReader::Got::line);
    CHECK(second.next(line, -1) == LineReader::Got::line);
  }
}

TEST_CASE("grammars that cannot be had are counted, and the first is told with its line") {
  const Scratch scratch;
  const std::string good = R"({"prompt":"x","guided_regex":"a+"})"
                           "\n";
  const std::string bad = R"({"prompt":"x","guided_regex":"(a"})"
                          "\n";
  const std::string chat =
      R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required",)"
      R"("tools":[{"type":"function","function":{"name":"f","parameters":)";
  scratch.write("in", "\"x\"\n\n" + good + bad + "{\"guided_regex\":\n" + bad + good + chat +
                          R"({"type":"no"}}}]})"
                          "\n" +
                          chat +
                          R"({"type":"object"}}}]})"
                          "\n");
  const text::Tokenizer tokenizer = testing::byte_tokenizer(scratch.path(""));
  const auto survey = [&](const Slice& slice, const DoneLines* done, size_t longest = 1000) {
    InputFile input = InputFile::open(scratch.path("in"));
    grammar::Compiler compiler(tokenizer, {.vocab_size = 257});
    return survey_grammars(input,
                           {.defaults = {},
                            .limits = {.vocab_size = 257},
                            .max_line_bytes = longest,
                            .slice = slice,
                            .done = done},
                           compiler);
  };
  const GrammarSurvey all = survey({}, nullptr);
  CHECK(all.lines == 6);  // not the broken one
  CHECK(all.refused_lines == 3);
  CHECK(all.first_refused == 4);
  CHECK_THAT(all.first_reason, Catch::StartsWith("guided_regex: "));
  const GrammarSurvey last = survey({.first = 6, .count = 2}, nullptr);
  CHECK(last.lines == 2);
  CHECK(last.refused_lines == 1);
  CHECK(last.first_refused == 8);
  CHECK_THAT(last.first_reason, Contains("tools[0].function.parameters"));
  DoneLines done;
  done.slots = {DoneLines::State::ok, DoneLines::State::open, DoneLines::State::failed,
                DoneLines::State::open, DoneLines::State::ok};
  const GrammarSurvey rest = survey({}, &done);
  CHECK(rest.lines == 4);
  CHECK(rest.refused_lines == 1);
  CHECK(rest.first_refused == 8);
  CHECK(survey({}, nullptr, 40).lines == 4);  // longer lines get their errors in the run
}

TEST_CASE("a survey counts lines whose images the launch refuses, and chats that it answers") {
  const std::string image = PLIMSOLL_SOURCE_DIR "/tests/data/images/odd_37x53.png";
  auto vision = std::make_shared<model::VisionSpec>();
  vision->kind = model::VisionKind::qwen2_vl;
  vision->merge = 2;
  vision->image_token = 7;
  SurveyOptions options;
  options.prompts.max_model_len = 100;
  options.prompts.pixels = PromptOptions::Pixels::counted;
  options.prompts.images = std::make_shared<ImageLoader>(
      ImageRules{.vision = vision,
                 .refusal = "",
                 .settings = Json::parse(R"({"max_pixels": 100352})"),
                 .most_images = 2,
                 .allowed_folder = PLIMSOLL_SOURCE_DIR "/tests/data/images"});
  options.limits.vocab_size = 10;
  const std::string with_image =
      R"({"prompt_token_ids":[1,7],"multi_modal_data":{"image":")" + image + "\"}}\n";
  const std::string text = "{\"prompt_token_ids\":[1]}\n" + with_image + with_image;
  const auto survey = [&] {
    const Scratch scratch;
    InputFile input = InputFile::open(scratch.write("in", text));
    return survey_prompts(input, options);
  };
  const PromptSurvey taken = survey();
  CHECK(taken.bad_lines == 0);
  CHECK(taken.prompt_tokens == 1 + 2 * 7);  // a token and six of the image
  size_t asked = 0;
  options.image_fault =
      [&](const engine::Images& images) -> std::optional<engine::RequestOutput::Failure> {
    CHECK(images.items.size() == 1);
    if (++asked == 1) return std::nullopt;
    return engine::RequestOutput::Failure{"image_too_large", "too many patches"};
  };
  const PromptSurvey refused = survey();
  CHECK(asked == 2);
  CHECK(refused.bad_lines == 1);
  CHECK(refused.first_bad_line == 3);
  CHECK(refused.first_bad_reason == "too many patches");
  CHECK(refused.prompt_tokens == 1 + 7);
  CHECK(refused.sequences.size() == 2);
}
