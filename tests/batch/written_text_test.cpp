// What is written of answers and failures: escapes, log probabilities, roles and kinds of errors.
#include <catch2/catch.hpp>
#include <limits>

#include "batch/json_text.h"
#include "batch/logprobs_text.h"
#include "batch/output_line.h"
#include "batch/read_request.h"
#include "batch/tool_chat.h"
#include "text/tokenizer_fixture.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using testing::batch_line;
using testing::finished_chat;
using testing::kAnswerOptions;
using testing::read;
using testing::Read;
using testing::tool_chat;

namespace {

/// Tokens of one byte, of two ("é") and of three ("€").
const text::Tokenizer& characters_tokenizer() {
  static const text::Tokenizer loaded = text::load_json(R"({"added_tokens":[
      {"id":3,"content":"b","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}],
      "decoder":{"type":"Fuse"},
      "model":{"type":"BPE","vocab":{"a":0,"\u00e9":1,"\u20ac":2,"b":3,"x":4},"merges":[]}})");
  return loaded;
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

Json completions(const std::vector<TokenPosition>& positions, const text::Tokenizer* with) {
  JsonText out;
  LogprobsText(with).completions(out, positions);
  return parse_json<Json>(out.text());
}

}  // namespace

TEST_CASE("every byte of a text is read back from its JSON as it was") {
  std::string all;
  for (int byte = 0; byte < 0x80; ++byte) all += static_cast<char>(byte);
  JsonText out;
  out.begin_array().string(all);
  for (const char byte : all) out.string({&byte, 1});
  const Json read_back = parse_json<Json>(out.end_array().text());
  CHECK(read_back[0].get<std::string>() == all);
  for (size_t byte = 0; byte < all.size(); ++byte)
    CHECK(read_back[byte + 1].get<std::string>() == all.substr(byte, 1));
  JsonText controls;
  controls.string("\b\f\n\r\t\x1f\x0b");
  CHECK(controls.text() == R"("\b\f\n\r\t\u001f\u000b")");
}

TEST_CASE("offsets count characters, and what is impossible has OpenAI's number") {
  const engine::PositionLogprobs some = {{1, -0.5F, 1}, {0, kNever, 2}};
  const engine::PositionLogprobs never = {{4, kNever, 9}, {1, -0.25F, 1}};
  const std::vector<TokenPosition> positions = {{0, nullptr}, {1, &some}, {2, &some}, {4, &never}};
  const Json shown = completions(positions, &characters_tokenizer());
  CHECK(shown["text_offset"] == Json({0, 1, 2, 3}));
  CHECK(shown["tokens"] == Json({"a", "\u00e9", "\u20ac", "x"}));
  CHECK(shown["token_logprobs"] == Json({nullptr, -0.5, -0.5, -9999}));
  CHECK(shown["top_logprobs"][0].is_null());
  CHECK(shown["top_logprobs"][1] == Json{{"\u00e9", -0.5}, {"a", -9999}});
  CHECK(shown["top_logprobs"][3] == Json{{"x", -9999}, {"\u00e9", -0.25}});
  CHECK(completions(positions, nullptr)["top_logprobs"][1] ==
        Json{{"token_id:1", -0.5}, {"token_id:0", -9999}});
  JsonText chat;
  LogprobsText(&characters_tokenizer()).chat(chat, std::vector<TokenPosition>{{4, &never}}, 2);
  const Json token = parse_json<Json>(chat.text())["content"][0];
  CHECK(token["token"] == "x");
  CHECK(token["logprob"] == -9999);
  CHECK(token["bytes"] == Json({120}));
  CHECK(token["top_logprobs"][0]["token"] == "\u00e9");
  CHECK(token["top_logprobs"][0]["bytes"] == Json({0xc3, 0xa9}));
  CHECK(token["top_logprobs"][1]["logprob"] == -9999);
  JsonText prompt;
  LogprobsText(&characters_tokenizer())
      .prompt(prompt, std::vector<std::optional<engine::PositionLogprobs>>{{}, never});
  CHECK(parse_json<Json>(prompt.text()) ==
        Json({nullptr,
              {{"4", {{"logprob", -9999}, {"rank", 9}, {"decoded_token", "x"}}},
               {"1", {{"logprob", -0.25}, {"rank", 1}, {"decoded_token", "\u00e9"}}}}}));
}

TEST_CASE("tokens that print the same have one key, with the likelier one's number") {
  // Ids that the vocabulary does not have print as nothing.
  const engine::PositionLogprobs alike = {{900, -0.5F, 1}, {901, -1.5F, 2}, {0, -2.5F, 3}};
  JsonText out;
  LogprobsText(&characters_tokenizer()).completions(out, std::vector<TokenPosition>{{900, &alike}});
  REQUIRE_NOTHROW(parse_json<Json>(out.text()));  // refuses keys that are there twice
  const Json top = parse_json<Json>(out.text())["top_logprobs"][0];
  CHECK(top.size() == 2);
  CHECK(top["a"] == -2.5);
  CHECK(top[""] == -0.5);
}

TEST_CASE("a failure of a sound batch line is an answer of status 400, others are errors") {
  const Digest identity = digest("x");
  for (const std::string_view code : kErrorCodes) {
    INFO(code);
    LineHead head;
    head.number = 4;
    head.id = "a";
    head.envelope = Envelope::batch;
    head.is_request = true;
    const auto line = [&] {
      return parse_json<Json>(
          failure_line(head, identity, LineError(code, "why", "field"), kAnswerOptions));
    };
    const bool is_answer = code == code::bad_field || code == code::context_too_long ||
                           code == code::template_error || code == code::tokenizer_error;
    const Json made = line();
    CHECK(made["custom_id"] == "a");
    if (is_answer) {
      CHECK(made["error"].is_null());
      CHECK(made["response"]["status_code"] == 400);
      CHECK(made["response"]["body"]["error"] == Json{{"message", "why"},
                                                      {"type", "invalid_request_error"},
                                                      {"param", "field"},
                                                      {"code", 400}});
    } else {
      CHECK(made["response"].is_null());
      CHECK(made["error"] == Json{{"code", code}, {"message", "why"}, {"line", 4}});
    }
    head.is_request = false;
    CHECK(line()["response"].is_null());
    CHECK(line()["error"]["code"] == code);
    head.envelope = Envelope::plain;
    head.is_request = true;
    CHECK(line() == Json{{"id", "a"},
                         {"choices", Json::array()},
                         {"usage", nullptr},
                         {"error", {{"code", code}, {"message", "why"}, {"line", 4}}}});
  }
}

TEST_CASE("a chat echoes the message that its answer goes on from, and none before it") {
  const auto message = [](const std::string& fields, const std::string& role) {
    FinishedLine line =
        finished_chat(batch_line(tool_chat(fields), "/v1/chat/completions"), {" and on"});
    line.last_role = role;
    line.last_content = "On";
    return parse_json<Json>(
        answer_line(line, {.model = "m"}))["response"]["body"]["choices"][0]["message"];
  };
  const std::string going_on = R"("continue_final_message":true,"add_generation_prompt":false)";
  CHECK(message(going_on + R"(,"echo":true)", "assistant")["content"] == "On and on");
  CHECK(message(going_on, "assistant")["content"] == " and on");
  CHECK(message(R"("echo":true)", "user")["content"] == " and on");
  CHECK(message(R"("echo":true)", "user")["role"] == "assistant");
  CHECK(message(going_on + R"(,"echo":true)", "user")["role"] == "user");
  CHECK(message(going_on + R"(,"echo":true)", "user")["content"] == "On and on");
}

TEST_CASE("parts of a conversation join their reasoning, where they have some, and their figures") {
  FinishedLine line =
      finished_chat(batch_line(tool_chat(R"("prompt_logprobs":0)"), "/v1/chat/completions"), {"x"});
  line.prompts[0].parts = {{1}, {2}, {3}};
  line.outputs.resize(3, line.outputs[0]);
  const std::vector<std::string> reasoning = {"First.", "", "Last."};
  for (size_t part = 0; part < 3; ++part) {
    line.answers.push_back({{.reasoning = reasoning[part], .content = "x"}});
    line.outputs[part].prompt_logprobs = {
        engine::PositionLogprobs{{static_cast<int32_t>(part), -1.0F, 1}}};
  }
  const Json body = parse_json<Json>(answer_line(line, kAnswerOptions))["response"]["body"];
  const Json message = body["choices"][0]["message"];
  CHECK(message["reasoning"] == "First.\n\nLast.");
  CHECK(message["reasoning_content"] == "First.\n\nLast.");
  CHECK(message["content"] == "x\n\nx\n\nx");
  REQUIRE(body["prompt_logprobs"].size() == 3);
  for (int part = 0; part < 3; ++part)
    CHECK(body["prompt_logprobs"][static_cast<size_t>(part)].contains(std::to_string(part)));
}
