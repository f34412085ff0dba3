// What the engine is asked for a line: how much of its prompt, how many tokens, which figures.
#include <catch2/catch.hpp>

#include "batch/line_error.h"
#include "batch/prompt_builder.h"
#include "batch/scratch.h"
#include "engine/byte_tokenizer.h"
#include "text/tokenizer_fixture.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

/// A letter is a token; a prompt of text begins with <s>.
const text::Tokenizer& letters() {
  static const text::Tokenizer tokenizer = text::load_json(R"({"added_tokens":[
      {"id":9,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
      "decoder":{"type":"ByteLevel"},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
        {"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[9],"tokens":["<s>"]}}},
      "model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"|":8},"merges":[]}})");
  return tokenizer;
}

struct BuiltLine {
  BuiltRequest request;
  std::string code;
  [[nodiscard]] const TokenIds& ids(size_t prompt = 0, size_t part = 0) const {
    return request.prompts.at(prompt).parts.at(part);
  }
  [[nodiscard]] const engine::SamplingParams& sampling() const { return request.sampling.at(0); }
};

BuiltLine build_line(const std::string& json, PromptOptions options = {}) {
  if (options.tokenizer == nullptr) options.tokenizer = &letters();
  if (options.max_model_len == 0) options.max_model_len = 100;
  ChatOptions chat;
  chat.chat_template = "{% for m in messages %}{{ m.content }}|{% endfor %}";
  PromptBuilder builder(options, chat);
  Line line;
  line.number = 1;
  line.text = json;
  BuiltLine built;
  try {
    LineHead head;
    OrderedJson body = read_envelope(line, Envelope::plain, head);
    const LineRequest request = read_request(head, std::move(body), {}, {.vocab_size = 1000},
                                             [](std::string_view, std::string_view) {});
    built.request = builder.build(head, request);
  } catch (const LineError& error) {
    built.code = error.code();
  }
  return built;
}

/// Token ids 0, 1, 2, ...
std::string ids_prompt(int count, const std::string& more = "") {
  std::string ids = "0";
  for (int i = 1; i < count; ++i) ids += "," + std::to_string(i);
  return "\"prompt\":[" + ids + "]" + more;
}

std::string plain(const std::string& body) {
  return "{" + body + "}";
}

std::string of_batch(const std::string& body) {
  return R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{)" + body + "}}";
}

}  // namespace

TEST_CASE("a text begins with the tokenizer's marks, a chat with its template's, unless told") {
  const std::string chat = R"("messages":[{"role":"user","content":"ab"}])";
  CHECK(build_line(plain(R"("prompt":"ab")")).ids() == TokenIds{9, 0, 1});
  CHECK(build_line(plain(R"("prompt":"ab","add_special_tokens":false)")).ids() == TokenIds{0, 1});
  CHECK(build_line(plain(chat)).ids() == TokenIds{0, 1, 8});
  CHECK(build_line(plain(chat + R"(,"add_special_tokens":true)")).ids() == TokenIds{9, 0, 1, 8});
}

TEST_CASE("a prompt that is cut leaves room for the answer that its line is to have") {
  PromptOptions cut{.long_prompt = LongPrompt::truncate_right};
  const auto length = [&](const std::string& line) { return build_line(line, cut).ids().size(); };
  const std::string most = ids_prompt(200, R"(,"max_tokens":40)");
  CHECK(length(plain(ids_prompt(200))) == 75);
  CHECK(length(of_batch(ids_prompt(200))) == 84);  // OpenAI's completions have 16 tokens
  CHECK(length(of_batch(ids_prompt(90))) == 84);
  CHECK(length(plain(most)) == 60);
  CHECK(length(of_batch(most)) == 60);
  cut.max_tokens_cap = 10;
  CHECK(length(plain(ids_prompt(200))) == 90);
  CHECK(length(of_batch(ids_prompt(200))) == 90);
  CHECK(length(plain(most)) == 60);
  CHECK(length(plain(ids_prompt(200, R"(,"max_tokens":0,"echo":true)"))) == 99);
}

TEST_CASE("an echo is the prompt that was computed: of a cut one, what is left") {
  const std::string text = R"("prompt":"abcdefgh","echo":true,"add_special_tokens":false)";
  const auto echo = [](const BuiltLine& built) { return built.request.prompts.at(0).text; };
  CHECK(echo(build_line(plain(text))) == "abcdefgh");
  CHECK(echo(build_line(plain(text + R"(,"truncate_prompt_tokens":3)"))) == "fgh");
  CHECK(echo(build_line(
            plain(text + R"(,"truncate_prompt_tokens":3,"truncation_side":"right")"))) == "abc");
  CHECK(echo(build_line(plain(R"("prompt":[2,3],"echo":true)"))) == "cd");
  CHECK(echo(build_line(plain(R"("prompt":"ab")"))).empty());
}

TEST_CASE("log probabilities of a prompt are computed for an echo of it, and where a line asks") {
  const auto asked = [](const std::string& more) {
    return build_line(plain(R"("prompt":"ab")" + more)).sampling().prompt_logprobs;
  };
  CHECK(asked(R"(,"logprobs":2)") == std::nullopt);
  CHECK(asked(R"(,"echo":true)") == std::nullopt);
  CHECK(asked(R"(,"logprobs":2,"echo":true)") == 2);
  CHECK(asked(R"(,"logprobs":2,"echo":true,"prompt_logprobs":5)") == 5);
  CHECK(asked(R"(,"prompt_logprobs":5)") == 5);
  const BuiltLine chat = build_line(
      R"({"messages":[{"role":"user","content":"a"}],"logprobs":true,"top_logprobs":2,"echo":true})");
  CHECK(chat.sampling().logprobs == 2);
  CHECK(chat.sampling().prompt_logprobs == std::nullopt);
}

TEST_CASE("an answer has no more tokens at least than at most, and an echo alone has no form") {
  const test::Scratch folder;
  const text::Tokenizer bytes = testing::byte_tokenizer(folder.path(""));
  const PromptOptions options{.tokenizer = &bytes,
                              .grammars = std::make_shared<grammar::Compiler>(
                                  bytes, grammar::CompilerOptions{.vocab_size = 257})};
  const auto sampling = [&](const std::string& more) {
    const BuiltLine built =
        build_line(plain(R"("prompt":[1,2],"guided_regex":"a+")" + more), options);
    REQUIRE(built.code == "");
    return built.sampling();
  };
  CHECK(sampling("").grammar != nullptr);
  const auto alone = sampling(R"(,"echo":true,"max_tokens":0,"min_tokens":5)");
  CHECK(alone.grammar == nullptr);
  CHECK(alone.max_tokens == 1);
  CHECK(alone.min_tokens == 1);
  // The context's end comes before max_tokens.
  const auto at_end = sampling(R"(,"max_tokens":500,"min_tokens":200)");
  CHECK(at_end.max_tokens == 98);
  CHECK(at_end.min_tokens == 98);
}

TEST_CASE("a conversation is split in its last user message, the others stay in every part") {
  const auto message = [](const std::string& role, char letter, size_t count) {
    return R"({"role":")" + role + R"(","content":")" + std::string(count, letter) + "\"}";
  };
  const std::string line = R"({"max_tokens":20,"messages":[)" + message("user", 'a', 10) + "," +
                           message("assistant", 'b', 5) + "," + message("user", 'c', 150) + "," +
                           message("assistant", 'd', 3) + "]}";
  const BuiltLine split = build_line(line, {.long_prompt = LongPrompt::split});
  REQUIRE(split.code == "");
  size_t letters_of_message = 0;
  for (const TokenIds& part : split.request.prompts.at(0).parts) {
    CHECK(std::ssize(part) <= 80);
    CHECK(std::ranges::count(part, 0) == 10);
    CHECK(std::ranges::count(part, 1) == 5);
    CHECK(std::ranges::count(part, 3) == 3);
    letters_of_message += static_cast<size_t>(std::ranges::count(part, 2));
  }
  // 80 tokens less 10 + 5 + 3 letters and four ends of messages.
  CHECK(split.request.prompts.at(0).parts.size() == 3);
  CHECK(letters_of_message == 150);
}

TEST_CASE("each prompt of a line is echoed by itself, and whole where it is split") {
  const BuiltLine cut = build_line(
      plain(R"("prompt":["abcdefgh","ab","cd"],"echo":true,"truncate_prompt_tokens":3)"));
  REQUIRE(cut.request.prompts.size() == 3);
  CHECK(cut.request.dropped_tokens == 6);
  CHECK(cut.request.prompts[0].text == "fgh");
  CHECK(cut.request.prompts[1].text == "ab");  // as the line has it, without the mark before it
  CHECK(cut.request.prompts[2].text == "cd");
  const PromptOptions split{.max_model_len = 4, .long_prompt = LongPrompt::split};
  for (const char* prompt : {R"("abcdefgh")", "[0,1,2,3,4,5,6,7]"}) {
    INFO(prompt);
    const BuiltLine parts =
        build_line(plain(std::string(R"("echo":true,"max_tokens":1,"prompt":)") + prompt), split);
    REQUIRE(parts.request.prompts.at(0).parts.size() >= 3);
    CHECK(parts.request.prompts[0].text == "abcdefgh");
  }
}

TEST_CASE("without a tokenizer ids alone are answered, and nothing that is about text") {
  PromptBuilder builder({.max_model_len = 100}, {});
  const auto refused = [&](const std::string& fields) -> std::string {
    Line line;
    line.text = plain(R"("prompt":[1,2])" + fields);
    LineHead head;
    try {
      OrderedJson body = read_envelope(line, Envelope::plain, head);
      const LineRequest request = read_request(head, std::move(body), {}, {.vocab_size = 1000},
                                               [](std::string_view, std::string_view) {});
      const BuiltRequest built = builder.build(head, request);
      CHECK_FALSE(built.sampling.at(0).detokenize);
      CHECK(built.prompts.at(0).text.empty());
      return "";
    } catch (const LineError& error) {
      CHECK_THAT(error.what(), Catch::Contains("--skip-tokenizer-init"));
      return error.param();
    }
  };
  CHECK(refused("").empty());
  CHECK(refused(R"(,"echo":true,"stop_token_ids":[3])").empty());
  CHECK(refused(R"(,"stop":"x")") == "stop");
  CHECK(refused(R"(,"bad_words":["x"])") == "bad_words");
  CHECK(refused(R"(,"guided_regex":"a")") == "guided_regex");
  CHECK(build_line(plain(R"("prompt":[1,2])")).sampling().detokenize);
}

TEST_CASE("what a chat's prompt says of reasoning is kept for its answer") {
  PromptOptions options{.tokenizer = &letters(), .max_model_len = 100};
  options.formats.reasoning = text::find_reasoning_format("qwen3");
  const auto thinking = [&](const std::string& end) {
    ChatOptions chat;
    chat.chat_template = "{{ messages[0].content }}" + end;
    PromptBuilder builder(options, chat);
    LineHead head;
    head.endpoint = Endpoint::chat;
    const LineRequest request = read_request(
        head, parse_json<OrderedJson>(R"({"messages":[{"role":"user","content":"a"}]})"), {},
        {.vocab_size = 10}, [](std::string_view, std::string_view) {});
    return builder.build(head, request).prompts.at(0).thinking;
  };
  CHECK(thinking("<think>") == text::Thinking::open);
  CHECK(thinking("<think></think>") == text::Thinking::ended);
  CHECK(thinking("") == text::Thinking::unsaid);
}

TEST_CASE("words are banned by their letters, whatever blanks stand before them") {
  const test::Scratch folder;
  const text::Tokenizer bytes = testing::byte_tokenizer(folder.path(""), {" x", " yz"});
  const PromptOptions options{.tokenizer = &bytes};
  const auto banned = [&](const std::string& word) {
    const BuiltLine built =
        build_line(plain(R"("prompt":[1],"bad_words":[")" + word + "\"]"), options);
    return built.sampling().bad_words;
  };
  const auto bare = banned("ab");
  REQUIRE(!bare.empty());
  CHECK(bare.front() == TokenIds{'a', 'b'});
  CHECK(banned("  ab") == bare);
  CHECK(banned(" ab") == bare);
  CHECK(banned("  ").empty());
}
