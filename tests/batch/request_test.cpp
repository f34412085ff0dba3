// Lines of an input as requests.
#include <catch2/catch.hpp>

#include "batch/id_register.h"
#include "batch/line_error.h"
#include "batch/read_request.h"
#include "batch/request_line.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using testing::batch_line;
using testing::read;
using testing::Read;

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
      {"[1]", "bad_field", "is a JSON array; make it lines: jq -c '.[]' FILE"},
      {"17", "bad_field", "found 17"},
      {"{}", "bad_field", "none of prompt, messages, prompt_token_ids"},
      {"{\"prompt\":\"a\",\"messages\":[]}", "bad_field", "found several"},
      {"{\"prompt\":\"a\",\"prompt_token_ids\":[1]}", "bad_field", "found several"},
      {"{\"prompt_token_ids\":[1],\"messages\":[]}", "bad_field", "found several"},
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

TEST_CASE("an image's address is the memory that the line was read into") {
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

TEST_CASE("misspelt keys and roles within a message are told, a lost content fails the line") {
  const auto message = [](const std::string& text) {
    return read(R"({"messages":[)" + text + "]}");
  };
  const Read lost = message(R"({"role":"user","contents":"What is 2+2?"})");
  CHECK(lost.code == "bad_field");
  CHECK(lost.message == "messages[0].content: is missing; did you mean it by \"contents\"?");
  CHECK(message(R"({"role":"user"})").message == "messages[0].content: is missing");
  CHECK(message(R"({"role":"user","content":null})").code == "bad_field");
  CHECK(message(R"({"role":"system","text":"x"})").code == "bad_field");
  CHECK(message(R"({"role":"assistant","contnet":"x"})").code == "bad_field");
  CHECK(message(R"({"role":"assistant","content":null,"tool_calls":[]})").code == "");
  CHECK(message(R"({"role":"assistant","tool_calls":[]})").code == "");
  CHECK(message(R"({"role":"tool","content":"4","tool_call_id":"a"})").unknown.empty());
  CHECK(message(R"({"role":"usr","content":"x"})").unknown ==
        std::vector<std::string>{"messages[].role \"usr\": is no known role; did you mean user?"});
  CHECK(message(R"({"role":"user","content":"x","nmae":"y"})").unknown ==
        std::vector<std::string>{
            "messages[].nmae: is no known key of a message; did you mean name?"});
}

TEST_CASE("batch lines without a url count by their body, and Azure's urls are taken") {
  const std::string messages = R"({"messages":[{"role":"user","content":"Hi"}]})";
  const Read chat = read(R"({"custom_id":"0","body":)" + messages + "}");
  CHECK(chat.code == "");
  CHECK(chat.head.endpoint == Endpoint::chat);
  CHECK(chat.unknown ==
        std::vector<std::string>{"url: is missing; lines whose body has messages count as chats"});
  const Read completion = read(R"({"custom_id":"0","body":{"prompt":"x"}})");
  CHECK(completion.code == "");
  CHECK(completion.head.endpoint == Endpoint::completions);
  CHECK_THAT(read(R"({"custom_id":"0","body":{}})").message, Catch::Contains("url: is missing"));
  CHECK(read(batch_line(messages, "/chat/completions")).head.endpoint == Endpoint::chat);
  CHECK(read(batch_line(R"({"prompt":"x"})", "/completions")).code == "");
  CHECK_THAT(read(R"({"custom_id":"a","params":)" + messages + "}").message,
             Catch::Contains("jq -c '{custom_id, body:"));
}

// Fields of ChatCompletionRequest and CompletionRequest, vllm/entrypoints/openai/*/protocol.py.
TEST_CASE("ids are taken once, given or by line number") {
  IdRegister ids;
  const auto take = [&](uint64_t line, const char* id) {
    LineHead head;
    head.number = line;
    head.id_is_line_number = id == nullptr;
    head.id = id ? std::string(id) : std::to_string(line);
    return ids.take(head).before;
  };
  for (int time = 0; time < 2; ++time) {
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
  }
  for (uint64_t line = 100; line < 5000; ++line) CHECK(take(line, nullptr) == 0);
  CHECK(take(5000, "4999") == 4999);
  LineHead nameless;
  nameless.number = 6000;
  CHECK(ids.take(nameless).before == 0);
}

TEST_CASE("the record of an id goes to the line that takes the id first") {
  IdRegister ids;
  CHECK(ids.add_record(digest("a"), 1) == 0);
  CHECK(ids.add_record(digest("a"), 2) == 1);
  CHECK(ids.add_record(digest("7"), 2) == 0);
  CHECK(ids.add_record(digest("b"), 3) == 0);
  const auto take = [&](uint64_t line, const std::string& id) {
    LineHead head;
    head.number = line;
    head.id = id;
    head.id_is_line_number = id == std::to_string(line);
    const IdRegister::Taken taken = ids.take(head);
    return std::pair(taken.before, taken.record);
  };
  CHECK(take(5, "a") == std::pair<uint64_t, uint64_t>(0, 1));
  CHECK(take(6, "a") == std::pair<uint64_t, uint64_t>(5, 0));
  CHECK(take(7, "7") == std::pair<uint64_t, uint64_t>(0, 2));
  CHECK(take(8, "7") == std::pair<uint64_t, uint64_t>(7, 0));
  CHECK(take(9, "c") == std::pair<uint64_t, uint64_t>(0, 0));
}
