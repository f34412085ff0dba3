// A line of several prompts, cut into parts, with several answers to each: what is joined and
// counted.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "batch/output_line.h"
#include "batch/read_request.h"
#include "batch/tool_chat.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using testing::batch_line;
using testing::kAnswerOptions;
using testing::read;
using testing::Read;

namespace {

/// The answer `n` to the part of a prompt that begins with this id: a token for each of the part.
engine::Completion completion_of(const TokenIds& part, int32_t n) {
  engine::Completion completion;
  completion.text = "to " + std::to_string(part.front()) + ", " + std::to_string(n);
  for (const int32_t id : part) completion.token_ids.push_back(100 * n + id);
  for (const int32_t id : completion.token_ids)
    completion.logprobs.push_back({{.token = id, .logprob = -0.5F, .rank = 1}});
  return completion;
}

/// The output line of prompts that were cut into these parts, with two answers to each part.
Json line_of_parts(const std::string& text, const std::vector<std::vector<TokenIds>>& prompts,
                   OutputFormat format = OutputFormat::json) {
  const Read line = read(text);
  REQUIRE(line.code == "");
  FinishedLine made;
  made.head = line.head;
  made.fields = line.request.fields;
  made.dropped_tokens = 9;
  for (const std::vector<TokenIds>& parts : prompts) {
    made.prompts.emplace_back().parts = parts;
    made.prompts.back().text = "P" + std::to_string(parts.front().front()) + ": ";
    for (const TokenIds& part : parts) {
      std::vector<engine::Completion>& completions = made.outputs.emplace_back().completions;
      for (const int32_t n : {0, 1}) completions.push_back(completion_of(part, n));
    }
  }
  OutputOptions options = kAnswerOptions;
  options.format = format;
  return Json::parse(answer_line(made, options));
}

const std::vector<std::vector<TokenIds>> kTwoPrompts = {{{1, 2, 3}, {4}, {5, 6}}, {{7, 8}}};
const std::string kAskedIds = R"({"prompt":["x","y"],"n":2,"return_token_ids":true)";

}  // namespace

TEST_CASE("the usage of a line counts all parts of its prompts once, and all answers") {
  for (const std::string& text : {kAskedIds + "}", batch_line(kAskedIds + "}")}) {
    INFO(text);
    const Json line = line_of_parts(text, kTwoPrompts);
    const Json& body = line.contains("response") ? line["response"]["body"] : line;
    CHECK(body["usage"] == Json{{"prompt_tokens", 8},
                                {"completion_tokens", 16},
                                {"total_tokens", 24},
                                {"dropped_prompt_tokens", 9}});
  }
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"n":2,)"
                           R"("return_token_ids":true})";
  const Json line = line_of_parts(batch_line(chat, "/v1/chat/completions"), {kTwoPrompts[0]});
  const Json& body = line["response"]["body"];
  CHECK(body["usage"]["prompt_tokens"] == 6);
  CHECK(body["usage"]["completion_tokens"] == 12);
  CHECK(body["usage"]["total_tokens"] == 18);
  CHECK(body["prompt_token_ids"] == Json({1, 2, 3, 4, 5, 6}));
  CHECK(body["choices"].size() == 2);
}

TEST_CASE("each choice has the answers to all parts of its prompt, and the ids of all parts") {
  const Json line = line_of_parts(kAskedIds + R"(,"logprobs":0})", kTwoPrompts);
  struct Row {
    std::string text;
    std::vector<int> ids, prompt;
  };
  const std::vector<Row> rows = {
      {"to 1, 0\n\nto 4, 0\n\nto 5, 0", {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}},
      {"to 1, 1\n\nto 4, 1\n\nto 5, 1", {101, 102, 103, 104, 105, 106}, {1, 2, 3, 4, 5, 6}},
      {"to 7, 0", {7, 8}, {7, 8}},
      {"to 7, 1", {107, 108}, {7, 8}}};
  REQUIRE(line["choices"].size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json& choice = line["choices"][i];
    INFO(choice.dump());
    CHECK(choice["index"] == i);
    CHECK(choice["text"] == rows[i].text);
    CHECK(choice["token_ids"] == Json(rows[i].ids));
    CHECK(choice["prompt_token_ids"] == Json(rows[i].prompt));
    CHECK(choice["logprobs"]["token_logprobs"].size() == rows[i].ids.size());
  }
  const Json ids = line_of_parts(kAskedIds + "}", kTwoPrompts, OutputFormat::ids);
  CHECK(ids["token_ids"] == Json({rows[0].ids, rows[1].ids, rows[2].ids, rows[3].ids}));
}

TEST_CASE("an echo begins with all parts of the prompt") {
  const Json echo = line_of_parts(kAskedIds + R"(,"echo":true})", kTwoPrompts);
  CHECK(echo["choices"][0]["text"] == "P1: to 1, 0\n\nto 4, 0\n\nto 5, 0");
  CHECK(echo["choices"][0]["token_ids"] == Json({1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  CHECK(echo["choices"][3]["token_ids"] == Json({7, 8, 107, 108}));
  const Json alone = line_of_parts(kAskedIds + R"(,"echo":true,"max_tokens":0})", kTwoPrompts);
  CHECK(alone["choices"][1]["text"] == "P1: ");
  CHECK(alone["choices"][1]["token_ids"] == Json({1, 2, 3, 4, 5, 6}));
  CHECK(alone["usage"]["prompt_tokens"] == 8);
  CHECK(alone["usage"]["completion_tokens"] == 0);
}

TEST_CASE("an echo has the figures of each token of its prompt but the first") {
  const Read line = read(R"({"prompt":[5,6,7],"echo":true,"logprobs":0,"max_tokens":0})");
  REQUIRE(line.code == "");
  FinishedLine made;
  made.head = line.head;
  made.fields = line.request.fields;
  made.prompts.emplace_back().parts = {{5, 6, 7}};
  engine::RequestOutput& output = made.outputs.emplace_back();
  output.completions.emplace_back().token_ids = {9};
  output.prompt_logprobs = {std::nullopt, engine::PositionLogprobs{{6, -0.5F, 1}},
                            engine::PositionLogprobs{{7, -0.25F, 1}}};
  const Json choice = Json::parse(answer_line(made, {}))["choices"][0];
  CHECK(choice["logprobs"]["token_logprobs"] == Json({nullptr, -0.5, -0.25}));
  CHECK(choice["finish_reason"] == "length");
}

TEST_CASE("a body's name, time and ids are the run's, and its seed makes other ids") {
  const auto body = [](const OutputOptions& options, const std::string& url,
                       const std::string& asked) {
    const Read line = read(batch_line(asked, url));
    REQUIRE(line.code == "");
    FinishedLine made;
    made.head = line.head;
    made.fields = line.request.fields;
    made.identity = digest(asked);
    made.prompts.emplace_back().parts = {{1}};
    engine::Completion& completion = made.outputs.emplace_back().completions.emplace_back();
    completion.finish = engine::FinishReason::stop;
    completion.stop_token = 7;
    made.dropped_tokens = 1;
    return Json::parse(answer_line(made, options));
  };
  const std::string prompt = R"({"prompt":[1]})";
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}]})";
  OutputOptions options{.model = "m", .created = 77, .seed = 1};
  const Json text = body(options, "/v1/completions", prompt)["response"];
  CHECK(text["body"]["model"] == "m");
  CHECK(text["body"]["created"] == 77);
  CHECK(text["body"]["object"] == "text_completion");
  CHECK(text["body"]["choices"][0]["stop_reason"] == 7);
  CHECK(text["body"]["choices"][0]["finish_reason"] == "stop");
  CHECK(text["body"]["usage"]["dropped_prompt_tokens"] == 1);
  const Json spoken = body(options, "/v1/chat/completions", chat)["response"];
  CHECK(spoken["body"]["object"] == "chat.completion");
  const auto id = [](const Json& response) { return response["body"]["id"].get<std::string>(); };
  CHECK_THAT(id(text), Catch::StartsWith("cmpl-"));
  CHECK_THAT(id(spoken), Catch::StartsWith("chatcmpl-"));
  CHECK(body(options, "/v1/completions", prompt)["response"] == text);
  options.seed = 2;
  const Json other = body(options, "/v1/completions", prompt);
  CHECK(id(other["response"]) != id(text));
  CHECK(other["response"]["request_id"] != text["request_id"]);
}

TEST_CASE("ids alone are a list, and a list of lists where a line has several answers") {
  const auto ids = [](const std::string& asked, const std::vector<std::vector<TokenIds>>& prompts,
                      size_t choices) {
    const Read line = read(asked);
    REQUIRE(line.code == "");
    FinishedLine made;
    made.head = line.head;
    made.fields = line.request.fields;
    int32_t id = 0;
    for (const std::vector<TokenIds>& parts : prompts) {
      made.prompts.emplace_back().parts = parts;
      engine::RequestOutput& output = made.outputs.emplace_back();
      for (size_t i = 0; i < choices; ++i) output.completions.emplace_back().token_ids = {++id};
    }
    OutputOptions options;
    options.format = OutputFormat::ids;
    return Json::parse(answer_line(made, options))["token_ids"];
  };
  CHECK(ids(R"({"prompt":[5]})", {{{5}}}, 1) == Json::parse("[1]"));
  CHECK(ids(R"({"prompt":[5],"n":2})", {{{5}}}, 2) == Json::parse("[[1],[2]]"));
  CHECK(ids(R"({"prompt":[[5],[6]]})", {{{5}}, {{6}}}, 1) == Json::parse("[[1],[2]]"));
}
