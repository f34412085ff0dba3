#include <catch2/catch.hpp>
#include <set>

#include "base/nearest_name.h"
#include "batch/id_register.h"
#include "batch/line_error.h"
#include "batch/request_line.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

struct Read {
  LineHead head;
  LineRequest request;
  std::string code, message, param;  // of the error, if any
  std::vector<std::string> unknown;  // "name: reason"
};

Read read(const std::string& text, Envelope usual = Envelope::plain,
          const RequestFields& defaults = {}) {
  Read result;
  Line line;
  line.number = 3;
  line.text = text;
  const FieldLimits limits{.vocab_size = 100, .max_logprobs = 20};
  const auto unknown = [&](std::string_view name, std::string_view reason) {
    result.unknown.push_back(std::string(name) + ": " + std::string(reason));
  };
  try {
    OrderedJson body = read_envelope(line, usual, result.head);
    result.request = read_request(result.head, std::move(body), defaults, limits, unknown);
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
      {"[1]", "bad_field", "is a JSON array; make it lines: jq -c '.[]' FILE"},
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

TEST_CASE("fields out of range are refused by name") {
  struct Row {
    std::string field, value;
  };
  const Row rows[] = {
      {"temperature", "-1"},
      {"temperature", "\"hot\""},
      {"temperature", "\"true\""},
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
      {"echo", "\"1\""},
      {"truncation_side", "\"middle\""},
      {"thinking_token_budget", "10"},
      {"logprob_token_ids", "[1]"},
      {"repetition_detection", "{}"},
      {"vllm_xargs", "{}"},
      {"prompt_embeds", "\"x\""},
      {"return_tokens_as_token_ids", "true"},
      {"return_weight_versions", "true"},
      {"stream", "true"},
      {"response_format", "{\"type\":\"structural_tag\"}"},
      {"response_format", "{\"type\":\"json_schema\"}"},
      {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}"},
      {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":3}}"},
      {"structured_outputs", "{}"},
      {"structured_outputs", "{\"json_object\":false}"},
      {"structured_outputs", "{\"json\":{},\"regex\":\"a\"}"},
      {"structured_outputs", "{\"choice\":[]}"},
      {"structured_outputs", "{\"regex\":1}"},
      {"structured_outputs", "{\"structural_tag\":\"{}\"}"},
      {"structured_outputs", "{\"jsn\":{}}"},
      {"guided_json", "1"},
      {"guided_regex", "{}"},
      {"guided_grammar", "[]"},
      {"guided_choice", "[\"\"]"},
      {"response_format", "\"text\""},
      {"truncate_prompt_tokens", "0"},
      {"best_of", "3"},
      {"suffix", "\"x\""},
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
  CHECK(fields("truncation_side", "\"right\"").truncation_side == RequestFields::Side::right);
  // vLLM takes numbers, true and false in quotes.
  CHECK(fields("max_tokens", "\"2\"").max_tokens == 2);
  CHECK(fields("temperature", "\"0.0\"").sampling.temperature == 0);
  CHECK(fields("ignore_eos", "\"true\"").sampling.ignore_eos);
  CHECK_FALSE(fields("ignore_eos", "\"False\"").sampling.ignore_eos);
  CHECK(fields("suffix", "null").echo == false);
}

TEST_CASE("the form of an answer, from each field that says it") {
  using Kind = grammar::Constraint::Kind;
  const auto constraint = [](const std::string& line, const RequestFields& defaults = {}) {
    const Read found = read(line, Envelope::plain, defaults);
    INFO(line << ": " << found.message);
    REQUIRE(found.code == "");
    return found.request.fields.constraint;
  };
  const std::string schema = R"({"type":"object","properties":{"b":{},"a":{}}})";
  const auto format = [&](const std::string& strict) {
    return with_field(
        "response_format",
        R"({"type":"json_schema","json_schema":{"name":"x","schema":)" + schema + strict + "}}");
  };
  CHECK(constraint(format(""))->text == schema);  // in its order
  CHECK(constraint(format(""))->options.strict);
  CHECK(constraint(format(R"(,"strict":null)"))->options.strict);
  CHECK(constraint(format(R"(,"strict":true)"))->options.strict);
  CHECK_FALSE(constraint(format(R"(,"strict":false)"))->options.strict);
  CHECK(constraint(with_field("response_format", R"({"type":"json_object"})"))->kind ==
        Kind::json_object);
  CHECK_FALSE(constraint(with_field("response_format", R"({"type":"text"})")));
  const auto outputs = constraint(
      with_field("structured_outputs",
                 R"({"json":"{}","regex":null,"whitespace_pattern":" ?",)"
                 R"("disable_any_whitespace":true,"disable_additional_properties":true})"));
  CHECK(outputs->text == "{}");
  CHECK(outputs->options.whitespace_pattern == " ?");
  CHECK_FALSE(outputs->options.any_whitespace);
  CHECK_FALSE(outputs->options.additional_properties);
  CHECK(constraint(with_field("guided_choice", R"(["a","b"])"))->choices.size() == 2);
  CHECK(constraint(with_field("guided_regex", R"("a+")"))->kind == Kind::regex);
  CHECK(constraint(with_field("guided_grammar", R"("root ::= \"a\"")"))->kind == Kind::ebnf);
  CHECK(constraint(R"({"prompt":"x","guided_whitespace_pattern":"","guided_json":true})")
            ->options.whitespace_pattern == "");
  // A line's own goes before the run's; the field that is to blame is the line's.
  RequestFields defaults;
  defaults.constraint = {.kind = Kind::regex, .text = "a", .field = "structured_outputs"};
  CHECK(constraint(R"({"prompt":"x"})", defaults)->text == "a");
  CHECK(constraint(with_field("guided_json", "{}"), defaults)->field == "guided_json");
  CHECK_FALSE(constraint(with_field("response_format", R"({"type":"text"})"), defaults));
  const Read both = read(R"({"prompt":"x","guided_regex":"a","structured_outputs":{"regex":"a"}})");
  CHECK(both.param == "guided_regex");
  CHECK(both.message.starts_with("guided_regex: stands beside structured_outputs"));
}

TEST_CASE("fields that mean something together") {
  CHECK(read(R"({"prompt":"x","max_tokens":0,"echo":true})").code == "");
  CHECK(read(R"({"messages":[{"role":"user","content":"x"}],"top_logprobs":2})").param ==
        "top_logprobs");
  const Read none =
      read(R"({"messages":[{"role":"user","content":"x"}],"top_logprobs":0,"logprobs":false})");
  CHECK(none.code == "");
  CHECK(none.request.fields.sampling.logprobs == std::nullopt);
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

TEST_CASE("max_tokens: what is below 1 is refused in the same words") {
  for (const char* value : {"-1", "0"}) {
    CHECK_THAT(read(with_field("max_tokens", value)).message,
               Catch::Contains("max_tokens: expected a whole number of at least 1") &&
                   Catch::Contains(std::string("found ") + value));
  }
  CHECK(read(with_field("priority", "\"x\"")).message ==
        "priority: expected a whole number, found \"x\"");
}

TEST_CASE("reasoning_effort: templates see it, and whether to think unless the line says so") {
  const auto kwargs = [](const std::string& more) {
    const Read line = read(R"({"messages":[{"role":"user","content":"Hi"}])" + more + "}");
    INFO(line.message);
    CHECK(line.code == "");
    return line.request.fields.chat_template_kwargs.dump();
  };
  CHECK(kwargs("") == "{}");
  CHECK(kwargs(R"(,"reasoning_effort":"high")") ==
        R"({"reasoning_effort":"high","enable_thinking":true})");
  CHECK(kwargs(R"(,"reasoning_effort":"none")") ==
        R"({"reasoning_effort":"none","enable_thinking":false})");
  CHECK(kwargs(R"(,"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false})") ==
        R"({"enable_thinking":false,"reasoning_effort":"low"})");
  const Read wrong =
      read(R"({"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"much"})");
  CHECK_THAT(wrong.message, Catch::Contains("one of none, minimal, low, medium, high"));
}

TEST_CASE("unknown fields are told with the nearest known one") {
  const auto only = [](const Read& line) {
    CHECK(line.code == "");
    REQUIRE(line.unknown.size() == 1);
    return line.unknown.front();
  };
  CHECK(only(read(with_field("temprature", "0"))) ==
        "temprature: is no known field and has no effect; did you mean temperature?");
  CHECK_THAT(only(read(with_field("max_token", "1"))), Catch::EndsWith("mean max_tokens?"));
  CHECK(only(read(with_field("zebra", "1"))) == "zebra: is no known field and has no effect");
  CHECK(only(read(with_field("tools", "[]"))) ==
        "tools: has no effect beside a prompt, only beside messages");
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],)";
  CHECK(only(read(chat + R"("best_of":1})")) ==
        "best_of: has no effect beside messages, only beside a prompt");
  CHECK_THAT(only(read(chat + R"("enable_thinking":true})")),
             Catch::Contains("chat_template_kwargs"));
  CHECK_THAT(only(read(chat + R"("extra_body":{"top_k":1}})")),
             Catch::Contains("fields of their own"));
  // A line's own id is none of the fields, in a body of a batch it is.
  CHECK(read(with_field("id", "\"a\"")).unknown.empty());
  CHECK(read(batch_line(R"({"prompt":"x","id":"b"})")).unknown.size() == 1);
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
  CHECK(read(R"({"custom_id":"0","body":{"prompt":"x"}})").head.endpoint == Endpoint::completions);
  CHECK_THAT(read(R"({"custom_id":"0","body":{}})").message, Catch::Contains("url: is missing"));
  CHECK(read(batch_line(messages, "/chat/completions")).head.endpoint == Endpoint::chat);
  CHECK(read(batch_line(R"({"prompt":"x"})", "/completions")).code == "");
  CHECK_THAT(read(R"({"custom_id":"a","params":)" + messages + "}").message,
             Catch::Contains("jq -c '{custom_id, body:"));
}

// Fields of ChatCompletionRequest and CompletionRequest, vllm/entrypoints/openai/*/protocol.py.
TEST_CASE("every request field of vLLM 0.33 is in the table") {
  using Names = std::vector<std::string_view>;
  const std::pair<int, Names> fields[] = {
      {Field::both,
       {"add_special_tokens",
        "allowed_token_ids",
        "bad_words",
        "cache_salt",
        "ec_transfer_params",
        "echo",
        "frequency_penalty",
        "ignore_eos",
        "include_stop_str_in_output",
        "kv_transfer_params",
        "length_penalty",
        "logit_bias",
        "logprob_token_ids",
        "logprobs",
        "max_tokens",
        "min_p",
        "min_tokens",
        "mm_payload",
        "model",
        "n",
        "presence_penalty",
        "priority",
        "prompt_logprobs",
        "repetition_detection",
        "repetition_penalty",
        "request_id",
        "response_format",
        "return_mm_kwargs",
        "return_token_ids",
        "return_token_offsets",
        "return_tokens_as_token_ids",
        "return_weight_versions",
        "routed_experts_prompt_start",
        "seed",
        "session_id",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "stop",
        "stop_token_ids",
        "stream",
        "stream_interval",
        "stream_options",
        "structured_outputs",
        "temperature",
        "thinking_token_budget",
        "top_k",
        "top_p",
        "truncate_prompt_tokens",
        "truncation_side",
        "use_beam_search",
        "user",
        "vllm_xargs",
        "watermarking"}},
      {Field::chat,
       {"add_generation_prompt", "chat_template", "chat_template_kwargs", "continue_final_message",
        "documents", "include_reasoning", "max_completion_tokens", "media_io_kwargs", "messages",
        "mm_processor_kwargs", "parallel_tool_calls", "reasoning_effort", "return_prompt_text",
        "tool_choice", "tools", "top_logprobs"}},
      {Field::completions, {"prompt", "prompt_embeds", "suffix"}}};
  for (const auto& [where, names] : fields) {
    for (const std::string_view name : names) {
      INFO(name);
      int known = 0;
      for (const Field& field : request_field_table())
        known |= field.name == name ? field.where : 0;
      CHECK((known & where) == where);
    }
  }
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
