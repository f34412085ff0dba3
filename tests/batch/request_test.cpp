#include <catch2/catch.hpp>
#include <set>

#include "batch/id_register.h"
#include "batch/line_error.h"
#include "batch/nearest_name.h"
#include "batch/request_line.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

struct Read {
  LineHead head;
  LineRequest request;
  std::string code, message, param;  // of the error, if any
  std::vector<std::string> unknown;  // "name>nearest"
};

Read read(const std::string& text, Envelope usual = Envelope::plain) {
  Read result;
  Line line;
  line.number = 3;
  line.text = text;
  const FieldLimits limits{.vocab_size = 100, .max_logprobs = 20};
  const auto unknown = [&](std::string_view name, std::string_view nearest) {
    result.unknown.push_back(std::string(name) + ">" + std::string(nearest));
  };
  try {
    OrderedJson body = read_envelope(line, usual, result.head);
    result.request = read_request(result.head, std::move(body), {}, limits, unknown);
  } catch (const LineError& error) {
    result.code = error.code();
    result.message = error.what();
    result.param = error.param();
  }
  return result;
}

std::string batch_line(const std::string& body, const std::string& url = "/v1/completions") {
  return R"({"custom_id":"a","method":"POST","url":")" + url + R"(","body":)" + body + "}";
}

std::string with_field(const std::string& name, const std::string& value) {
  return "{\"prompt\":\"x\",\"" + name + "\":" + value + "}";
}

}  // namespace

TEST_CASE("the forms of a line") {
  SECTION("a bare string is a prompt") {
    const Read line = read("\"hello\"");
    CHECK(line.code == "");
    CHECK(line.head.id == "3");
    CHECK(std::get<std::string>(line.request.prompts.at(0)) == "hello");
  }
  SECTION("prompt as text, with an id") {
    const Read line = read(R"({"id":"a","prompt":"hello","max_tokens":5})");
    CHECK(line.head.id == "a");
    CHECK(line.request.fields.max_tokens == 5);
  }
  SECTION("a number as id") {
    CHECK(read(R"({"id":17,"prompt":"x"})").head.id == "17");
  }
  SECTION("prompt as ids") {
    const Read line = read(R"({"prompt":[1,2,99]})");
    CHECK(std::get<TokenIds>(line.request.prompts.at(0)) == TokenIds{1, 2, 99});
  }
  SECTION("prompt_token_ids") {
    const Read line = read(R"({"prompt_token_ids":[5]})");
    CHECK(std::get<TokenIds>(line.request.prompts.at(0)) == TokenIds{5});
  }
  SECTION("several prompts") {
    CHECK(read(R"({"prompt":["a","b"]})").request.prompts.size() == 2);
    CHECK(read(R"({"prompt":[[1],[2],[3]]})").request.prompts.size() == 3);
  }
  SECTION("messages") {
    const Read line = read(R"({"messages":[{"role":"user","content":"hi"}]})");
    CHECK(line.head.endpoint == Endpoint::chat);
    CHECK(line.request.messages.size() == 1);
  }
  SECTION("OpenAI batch") {
    const Read text = read(batch_line(R"({"model":"m","prompt":"x"})"));
    CHECK(text.head.envelope == Envelope::batch);
    CHECK(text.head.id == "a");
    CHECK(text.head.endpoint == Endpoint::completions);
    CHECK(text.request.fields.model == "m");
    const Read chat =
        read(batch_line(R"({"messages":[{"role":"user","content":"x"}]})", "/v1/chat/completions"));
    CHECK(chat.head.endpoint == Endpoint::chat);
    CHECK(chat.head.is_request);
  }
}

TEST_CASE("what is no request fails its line with code and place") {
  struct Row {
    std::string text, code, message;
  };
  const Row rows[] = {
      {"{\"prompt\":", "bad_json", "line 3, column 11"},
      {"{\"prompt\":\"a\"} x", "bad_json", "line 3, column"},
      {"{\"prompt\":\"a\",\"prompt\":\"b\"}", "bad_json", "duplicate key"},
      {"{\"prompt\":\"\\ud800\"}", "bad_json", "line 3"},
      {"{\"prompt\":1e999}", "bad_json", "overflow"},
      {"{\"prompt\":NaN}", "bad_json", "line 3"},
      {"{\"prompt\":\"a\xC3(\"}", "bad_utf8", "column 13"},
      {std::string(100000, '['), "bad_json", "deep"},
      {"[1]", "bad_field", "expected an object or a string"},
      {"17", "bad_field", "found 17"},
      {"{}", "bad_field", "none of prompt, messages, prompt_token_ids"},
      {"{\"prompt\":\"a\",\"messages\":[]}", "bad_field", "found several"},
      {"{\"prompt\":7}", "bad_field", "prompt: expected"},
      {"{\"prompt\":[]}", "bad_field", "prompt: expected"},
      {"{\"prompt\":[\"a\",[1]]}", "bad_field", "prompt: expected"},
      {"{\"prompt\":[100]}", "bad_field", "from 0 to 99, found 100"},
      {"{\"prompt\":[-1]}", "bad_field", "found -1"},
      {"{\"prompt\":[1.5]}", "bad_field", "found 1.5"},
      {"{\"messages\":[]}", "bad_field", "messages: expected"},
      {"{\"messages\":[{\"content\":\"x\"}]}", "bad_field", "messages[0].role"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":3}]}", "bad_field", "messages[0].content"},
      {"{\"id\":[],\"prompt\":\"a\"}", "bad_field", "id: expected a string"},
      {"{\"custom_id\":7,\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{}}", "bad_field",
       "custom_id: expected a string"},
      {"{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/v1/completions\",\"body\":{}}",
       "bad_field", "method: expected \"POST\""},
      {"{\"custom_id\":\"a\",\"url\":\"/v1/embeddings\",\"body\":{}}", "bad_field",
       "url: expected"},
      {"{\"custom_id\":\"a\",\"url\":\"/v1/completions\"}", "bad_field", "body: is missing"},
      {"{\"url\":\"/v1/completions\",\"body\":{}}", "bad_field", "custom_id: is missing"},
      {batch_line("{}"), "bad_field", "none of prompt"},
      {batch_line("{}", "/v1/chat/completions"), "bad_field", "messages: is missing"},
  };
  for (const Row& row : rows) {
    INFO(row.text.substr(0, 100));
    const Read line = read(row.text);
    CHECK(line.code == row.code);
    CHECK_THAT(line.message, Catch::Contains(row.message));
  }
}

TEST_CASE("a picture's address is the memory that the line was read into") {
  const std::string url = "data:image/png;base64," + std::string(200'000, 'A');
  const std::pair<std::string, std::string> forms[] = {
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")",
       R"("}},{"type":"text","text":"?"}]}]})"},
      {R"({"messages":[{"role":"user","content":[{"type":"image","image":")", R"("}]}]})"},
      {R"({"prompt":"x","multi_modal_data":{"image":")", R"("}})"},
      {R"({"prompt":"x","multi_modal_data":{"image":["a",")", R"("]}})"},
  };
  for (const auto& [before, after] : forms) {
    Line line;
    line.text = before + url + after;
    const char* memory = line.text.data();
    LineHead head;
    OrderedJson body = read_envelope(line, Envelope::plain, head);
    const LineRequest request =
        read_request(head, std::move(body), {}, {.vocab_size = 100}, [](auto, auto) {});
    const std::string& source = request.media.back().sources.front();
    INFO(before);
    CHECK(source.size() == url.size());
    CHECK(source == url);
    CHECK(source.data() == memory);
  }
}

TEST_CASE("a line too broken to tell takes the envelope of the lines before it") {
  CHECK(read("{\"custom_id\": \"a\", ").head.envelope == Envelope::batch);
  CHECK(read("{\"prompt", Envelope::batch).head.envelope == Envelope::batch);
  CHECK(read("{\"prompt", Envelope::batch).head.id == std::nullopt);
  CHECK(read("{\"prompt").head.id == "3");
}

TEST_CASE("fields out of range are refused by name") {
  struct Row {
    std::string field, value;
  };
  const Row rows[] = {
      {"temperature", "-1"},
      {"temperature", "\"0.7\""},
      {"temperature", "true"},
      {"top_p", "0"},
      {"top_p", "1.01"},
      {"top_k", "-2"},
      {"top_k", "1.5"},
      {"min_p", "2"},
      {"n", "0"},
      {"n", "1000000000"},
      {"n", "9223372036854775808"},
      {"max_tokens", "0"},
      {"max_tokens", "-1"},
      {"max_tokens", "9223372036854775808"},
      {"max_tokens", "1e300"},
      {"min_tokens", "-1"},
      {"repetition_penalty", "0"},
      {"presence_penalty", "2.5"},
      {"frequency_penalty", "-2.5"},
      {"seed", "1.5"},
      {"stop", "\"\""},
      {"stop", "[\"a\",\"\"]"},
      {"stop", "7"},
      {"stop_token_ids", "[100]"},
      {"stop_token_ids", "3"},
      {"allowed_token_ids", "[]"},
      {"logit_bias", "{\"x\":1}"},
      {"logit_bias", "{\"100\":1}"},
      {"logit_bias", "{\"-1\":1}"},
      {"logprobs", "21"},
      {"logprobs", "-1"},
      {"prompt_logprobs", "1000000"},
      {"echo", "1"},
      {"stream", "true"},
      {"response_format", "{\"type\":\"json_object\"}"},
      {"response_format", "\"text\""},
      {"truncate_prompt_tokens", "0"},
      {"best_of", "3"},
      {"suffix", "\"x\""},
      {"guided_json", "{}"},
      {"use_beam_search", "true"},
      {"metadata", "1"},
      {"skip_special_tokens", "\"no\""},
  };
  for (const Row& row : rows) {
    INFO(row.field << " = " << row.value);
    const Read line = read(with_field(row.field, row.value));
    CHECK(line.code == "bad_field");
    CHECK(line.param == row.field);
    CHECK(line.message.starts_with(row.field));
  }
  CHECK(read(with_field("logit_bias", "{\"5\":101}")).message.starts_with("logit_bias[5]"));
}

TEST_CASE("fields within range are taken") {
  const auto fields = [](const std::string& name, const std::string& value) {
    const Read line = read(with_field(name, value));
    INFO(name << ": " << line.message);
    CHECK(line.code == "");
    CHECK(line.unknown.empty());
    return line.request.fields;
  };
  CHECK(fields("temperature", "0").sampling.temperature == 0);
  CHECK(fields("temperature", "-0.0").sampling.temperature == 0);
  CHECK(fields("temperature", "0.001").sampling.temperature == 0.01);
  CHECK(fields("temperature", "1.5").sampling.temperature == 1.5);
  CHECK(fields("temperature", "null").sampling.temperature == 1);
  CHECK(fields("top_p", "0.5").sampling.top_p == 0.5);
  CHECK(fields("top_k", "-1").sampling.top_k == 0);
  CHECK(fields("top_k", "40").sampling.top_k == 40);
  CHECK(fields("n", "3").sampling.n == 3);
  CHECK(fields("max_tokens", "5.0").max_tokens == 5);
  CHECK(fields("max_completion_tokens", "7").max_tokens == 7);
  CHECK(fields("seed", "-5").sampling.seed == -5);
  CHECK(fields("seed", "-1").sampling.seed == std::nullopt);
  CHECK(fields("stop", "\"x\"").sampling.stop == std::vector<std::string>{"x"});
  CHECK(fields("stop", "[\"x\",\"y\"]").sampling.stop.size() == 2);
  CHECK(fields("logit_bias", "{\"5\":-100,\"7\":1.5}").sampling.logit_bias.at(7) == 1.5);
  CHECK(fields("logprobs", "0").sampling.logprobs == 0);
  CHECK(fields("logprobs", "true").sampling.logprobs == 0);
  CHECK(fields("logprobs", "false").sampling.logprobs == std::nullopt);
  CHECK(fields("prompt_logprobs", "20").sampling.prompt_logprobs == 20);
  CHECK(fields("allowed_token_ids", "[1,2]").sampling.allowed_token_ids.size() == 2);
  CHECK(fields("bad_words", "[\"x\"]").bad_words.size() == 1);
  CHECK(fields("response_format", "{\"type\":\"text\"}").echo == false);
  CHECK(fields("return_token_ids", "true").return_token_ids);
  CHECK(fields("ignore_eos", "true").sampling.ignore_eos);
  CHECK(fields("add_special_tokens", "false").add_special_tokens == false);
  CHECK(fields("truncate_prompt_tokens", "-1").truncate_prompt_tokens == -1);
  CHECK(fields("suffix", "null").echo == false);
}

TEST_CASE("fields that mean something together") {
  CHECK(read(R"({"prompt":"x","max_tokens":0,"echo":true})").code == "");
  CHECK(read(R"({"messages":[{"role":"user"}],"top_logprobs":2})").param == "top_logprobs");
  const Read chat = read(
      batch_line(R"({"messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":2})",
                 "/v1/chat/completions"));
  CHECK(chat.request.fields.sampling.logprobs == 2);
  CHECK(read(batch_line(R"({"messages":[{"role":"user","content":"x"}],"logprobs":2})",
                        "/v1/chat/completions"))
            .param == "logprobs");
  CHECK(read(batch_line(R"({"prompt":"x","logprobs":true})")).param == "logprobs");
  CHECK(read(R"({"prompt":"x","max_tokens":3,"max_completion_tokens":4})")
            .request.fields.max_tokens == 4);
  const std::string base = R"({"messages":[{"role":"assistant","content":"x"}],)";
  CHECK(read(base + R"("continue_final_message":true})").request.fields.add_generation_prompt ==
        false);
  CHECK(read(base + R"("continue_final_message":true,"add_generation_prompt":true})").param ==
        "continue_final_message");
}

TEST_CASE("unknown fields are told with the nearest known one") {
  using Names = std::vector<std::string>;
  CHECK(read(with_field("temprature", "0")).unknown == Names{"temprature>temperature"});
  CHECK(read(with_field("max_token", "1")).unknown == Names{"max_token>max_tokens"});
  CHECK(read(with_field("zebra", "1")).unknown == Names{"zebra>"});
  CHECK(read(with_field("tools", "[]")).unknown.size() == 1);
  // A line's own id is none of the fields, in a body of a batch it is.
  CHECK(read(with_field("id", "\"a\"")).unknown.empty());
  CHECK(read(batch_line(R"({"prompt":"x","id":"b"})")).unknown.size() == 1);
  CHECK(read(with_field("temprature", "0")).code == "");
}

TEST_CASE("the field table is sorted, and every field is explained") {
  std::string_view before;
  for (const Field& field : request_field_table()) {
    CHECK(before <= field.name);
    before = field.name;
    CHECK((field.use == Field::Use::refused) == field.values.empty());
  }
}

TEST_CASE("nearest names") {
  const std::vector<std::string_view> names{"temperature", "top_p", "top_k", "stop"};
  CHECK(nearest_name("temperatrue", names) == "temperature");
  CHECK(nearest_name("top-p", names) == "top_p");
  CHECK(nearest_name("stpo", names) == "stop");
  CHECK(nearest_name("presence", names) == "");
  CHECK(nearest_name("", names) == "");
  CHECK(nearest_name(std::string(100000, 'x'), names) == "");
}

TEST_CASE("ids are taken once, given or by line number") {
  IdRegister ids;
  const auto take = [&](uint64_t line, const char* id) {
    LineHead head;
    head.number = line;
    head.id_is_line_number = id == nullptr;
    head.id = id ? std::string(id) : std::to_string(line);
    return ids.take(head);
  };
  CHECK(take(1, nullptr) == 0);
  CHECK(take(2, "a") == 0);
  CHECK(take(3, "a") == 2);
  CHECK(take(4, "1") == 1);
  CHECK(take(5, "01") == 0);
  CHECK(take(6, "2") == 0);  // line 2 has another id
  CHECK(take(7, "9") == 0);
  CHECK(take(8, "99999999999999999999999") == 0);
  CHECK(take(9, nullptr) == 7);
  CHECK(take(10, "") == 0);
  CHECK(take(11, "") == 10);
  for (uint64_t line = 100; line < 5000; ++line) CHECK(take(line, nullptr) == 0);
  CHECK(take(5000, "4999") == 4999);
  LineHead nameless;
  nameless.number = 6000;
  CHECK(ids.take(nameless) == 0);
}
