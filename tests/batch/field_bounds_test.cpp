// Fields of a request at the ends of their ranges, and beside what the run says by itself.
#include <catch2/catch.hpp>

#include "batch/read_request.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using testing::read;
using testing::Read;
using testing::with_field;

namespace {

constexpr Envelope kPlain = Envelope::plain;

RequestFields over(const RequestFields& defaults, const std::string& line) {
  const Read got = read(line, kPlain, defaults);
  INFO(line << ": " << got.message);
  CHECK(got.code == "");
  return got.request.fields;
}

/// The code of a field's refusal in a run with this --max-logprobs.
std::string refused_with(int64_t max_logprobs, const std::string& name, const std::string& value) {
  try {
    (void)read_fields(parse_json<OrderedJson>(with_field(name, value)), Endpoint::completions,
                      kPlain, {}, {.vocab_size = 100, .max_logprobs = max_logprobs},
                      [](std::string_view, std::string_view) {});
    return "";
  } catch (const LineError& error) {
    return error.code();
  }
}

}  // namespace

TEST_CASE("the first and the last value of a field's range are taken, the next ones are not") {
  struct Row {
    const char* field;
    std::vector<const char*> taken, refused;
  };
  for (const Row& row :
       {Row{"n", {"1", "16384", "16384.0"}, {"0", "16385"}},
        Row{"top_p", {"1e-9", "1"}, {"0.0", "1.0000001"}},
        Row{"min_p", {"0", "1"}, {"-0.0000001", "1.0000001"}}, Row{"top_k", {"-1", "0"}, {"-2"}},
        Row{"presence_penalty", {"-2", "2"}, {"-2.0000001", "2.0000001"}},
        Row{"frequency_penalty", {"-2", "2"}, {"-2.0000001", "2.0000001"}},
        Row{"repetition_penalty", {"0.000001", "1000000"}, {"0.0000009", "1000000.1"}},
        Row{"logprobs", {"0", "20"}, {"-1", "21"}},
        Row{"prompt_logprobs", {"0", "20"}, {"-1", "21"}},
        Row{"truncate_prompt_tokens", {"-1", "1"}, {"-2", "0"}},
        Row{"thinking_token_budget", {"-1", "0"}, {"-2"}}, Row{"min_tokens", {"0"}, {"-1"}},
        Row{"stream_interval", {"1"}, {"0"}}, Row{"routed_experts_prompt_start", {"0"}, {"-1"}},
        Row{"best_of", {"1"}, {"0", "2"}}, Row{"stop_token_ids", {"[0,99]"}, {"[-1]", "[100]"}},
        Row{"logit_bias", {R"({"0":-100,"99":100})"}, {R"({"0":-100.1})", R"({"99":100.1})"}},
        // 2^63 is no whole number of 64 bits, its neighbors below are.
        Row{"seed",
            {"-9223372036854775808", "9223372036854775807", "-9223372036854774784.0",
             "9223372036854774784.0"},
            {"9223372036854775808", "9223372036854775808.0", "-9223372036854775809"}}}) {
    for (const char* value : row.taken) {
      INFO(row.field << " = " << value);
      CHECK(read(with_field(row.field, value)).message == "");
    }
    for (const char* value : row.refused) {
      INFO(row.field << " = " << value);
      CHECK(read(with_field(row.field, value)).param.starts_with(row.field));
    }
  }
}

TEST_CASE("without a limit of log probabilities a line may ask for all of them") {
  for (const char* name : {"logprobs", "prompt_logprobs"}) {
    for (const char* value : {"-1", "0", "1000000"}) CHECK(refused_with(-1, name, value).empty());
    CHECK(refused_with(-1, name, "-2") == "bad_field");
    CHECK(refused_with(0, name, "0").empty());
    CHECK(refused_with(0, name, "1") == "bad_field");
  }
}

TEST_CASE("what a line says of a field takes the place of what the run says") {
  RequestFields run;
  run.sampling.logprobs = 3;
  run.sampling.seed = 7;
  run.sampling.logit_bias = {{1, 5.0}, {2, 6.0}};
  run.sampling.stop = {"x", "y"};
  run.sampling.stop_token_ids = {1, 2};
  run.sampling.top_k = 9;
  run.bad_words = {"x"};
  run.max_tokens = 50;
  run.thinking_token_budget = 8;
  run.mm_processor_kwargs = {{"a", 1}};
  const auto line = [&](const std::string& name, const std::string& value) {
    return over(run, with_field(name, value));
  };
  CHECK(line("logprobs", "false").sampling.logprobs == std::nullopt);
  CHECK(line("logprobs", "true").sampling.logprobs == 0);
  CHECK(line("logprobs", "null").sampling.logprobs == 3);
  CHECK(line("seed", "-1").sampling.seed == std::nullopt);
  CHECK(line("seed", "0").sampling.seed == 0);
  CHECK(line("logit_bias", R"({"2":1})").sampling.logit_bias ==
        std::map<int32_t, double>{{2, 1.0}});
  CHECK(line("logit_bias", "{}").sampling.logit_bias.empty());
  CHECK(line("stop", "\"z\"").sampling.stop == std::vector<std::string>{"z"});
  CHECK(line("stop", "[]").sampling.stop.empty());
  CHECK(line("stop_token_ids", "[3]").sampling.stop_token_ids == std::vector<int32_t>{3});
  CHECK(line("top_k", "-1").sampling.top_k == 0);
  CHECK(line("bad_words", "[]").bad_words.empty());
  CHECK(line("max_completion_tokens", "4").max_tokens == 4);
  CHECK(line("thinking_token_budget", "-1").thinking_token_budget == std::nullopt);
  CHECK(line("mm_processor_kwargs", R"({"b":2})").mm_processor_kwargs.dump() == R"({"b":2})");
  CHECK(line("temperature", "0").sampling.stop == run.sampling.stop);
}

TEST_CASE("an effort of reasoning that a line states goes before whether the run thinks") {
  RequestFields run;
  run.chat_template_kwargs = {{"enable_thinking", false}};
  const auto thinks = [&](const std::string& more) {
    return over(run, R"({"messages":[{"role":"user","content":"x"}])" + more + "}")
        .chat_template_kwargs["enable_thinking"];
  };
  CHECK(thinks("") == false);
  CHECK(thinks(R"(,"reasoning_effort":"high")") == true);
  CHECK(thinks(R"(,"reasoning_effort":"none")") == false);
  CHECK(thinks(R"(,"reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false})") ==
        false);
  run.chat_template_kwargs = {{"enable_thinking", true}};
  CHECK(thinks(R"(,"reasoning_effort":"none")") == false);
  // An effort of the run counts like one of the line.
  run.reasoning_effort = "none";
  CHECK(thinks("") == false);
}

TEST_CASE("data of images goes with one prompt, and with several only where it has none") {
  const std::string two = R"({"prompt":["x","y"],"multi_modal_data":)";
  CHECK(read(two + R"({"image":"a.png"}})").param == "multi_modal_data");
  CHECK(read(two + R"({"video":["a.png","b.png"]}})").param == "multi_modal_data");
  for (const char* none : {"{}", "null", R"({"image":null})"}) {
    const Read line = read(two + none + "}");
    CHECK(line.message == "");
    CHECK(line.request.prompts.size() == 2);
  }
  CHECK(read(R"({"prompt":["x"],"multi_modal_data":{"image":["a.png","b.png"]}})")
            .request.media.size() == 2);
}

TEST_CASE("a content may be null but for a user's, and be left out where a message needs none") {
  const auto code = [](const std::string& role, const std::string& more) {
    return read(R"({"messages":[{"role":")" + role + "\"" + more + "}]}").code;
  };
  for (const char* role : {"assistant", "system", "tool", "developer"}) {
    INFO(role);
    CHECK(code(role, R"(,"content":null)") == "");
    CHECK(code(role, R"(,"content":[])") == "");
  }
  CHECK(code("user", R"(,"content":null)") == "bad_field");
  for (const char* role : {"tool", "developer"}) CHECK(code(role, "") == "");
  for (const char* role : {"user", "system", "assistant"}) CHECK(code(role, "") == "bad_field");
  for (const char* key : {"reasoning", "reasoning_content", "refusal", "thinking", "audio",
                          "tool_calls", "function_call", "tool_responses"}) {
    INFO(key);
    CHECK(code("assistant", ",\"" + std::string(key) + "\":\"x\"") == "");
    CHECK(code("user", ",\"" + std::string(key) + "\":\"x\"") == "bad_field");
  }
}

TEST_CASE("a value in a message is short, whatever it is") {
  const auto text = [](size_t letters) { return excerpt(OrderedJson(std::string(letters, 'x'))); };
  CHECK(text(38) == "\"" + std::string(38, 'x') + "\"");
  CHECK(text(39) == "\"" + std::string(36, 'x') + "...");
  CHECK(text(100'000).size() == 40);
  const auto array = [](size_t count) { return excerpt(OrderedJson(std::vector<int>(count, 1))); };
  CHECK(array(8) == "[1,1,1,1,1,1,1,1]");
  CHECK(array(9) == "an array of 9");
  OrderedJson object;
  for (char key = 'a'; key < 'i'; ++key) object[std::string(1, key)] = 1;
  CHECK_THAT(excerpt(object), Catch::StartsWith("{\"a\":1,"));
  object["i"] = 1;
  CHECK(excerpt(object) == "an object of 9 keys");
  CHECK(excerpt(OrderedJson("\u20ac")) == "\"\\u20ac\"");
}
