// Fields of a request: ranges, refusals, forms of answers, the table.
#include <catch2/catch.hpp>

#include "base/nearest_name.h"
#include "batch/line_error.h"
#include "batch/read_request.h"
#include "batch/request_line.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using testing::batch_line;
using testing::read;
using testing::Read;
using testing::with_field;

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
      {"repetition_penalty", "1e-7"},
      {"repetition_penalty", "1000001"},
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
      {"thinking_token_budget", "-2"},
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
      {"response_format", "{\"type\":\"json_object\",\"json_schema\":{\"schema\":{}}}"},
      {"response_format", "{\"type\":\"json_object\",\"schema\":3}"},
      {"response_format", "{\"type\":\"text\",\"schema\":{}}"},
      {"response_format", "{\"type\":\"text\",\"json_schema\":{\"schema\":{}}}"},
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
  CHECK(read(with_field("best_of", "3")).message == "best_of: expected 1, found 3");
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
  const auto bare = constraint(
      with_field("response_format", R"({"type":"json_object","schema":)" + schema + "}"));
  CHECK(bare->kind == Kind::schema);
  CHECK(bare->text == schema);
  // Numbers keep all their digits.
  const std::string digits = R"({"const":12345678901234567890123,"maximum":0.10})";
  CHECK(constraint(with_field("guided_json", digits))->text == digits);
  CHECK(constraint(with_field("structured_outputs", R"({"json":)" + digits + "}"))->text == digits);
  for (const std::string& asked :
       {R"("guided_json":)" + digits, R"("structured_outputs":{"json":)" + digits + "}",
        R"("response_format":{"type":"json_schema","json_schema":{"schema":)" + digits + "}}"}) {
    INFO(asked);
    const Read batched = read(batch_line("{\"prompt\":\"x\"," + asked + "}"));
    REQUIRE(batched.request.fields.constraint);
    CHECK(batched.request.fields.constraint->text == digits);
  }
  const Read list = read(with_field("structured_outputs", R"({"choice":[1.5]})"));
  CHECK_THAT(list.message, Catch::Contains("found [1.5]"));
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
  // A line's arguments of the template stand beside those of the run, and before them.
  RequestFields defaults;
  defaults.chat_template_kwargs = {{"of_run", 1}, {"both", 1}};
  const Read beside = read(R"({"messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":)"
                           R"({"of_line":2,"both":2}})",
                           Envelope::plain, defaults);
  CHECK(beside.request.fields.chat_template_kwargs.dump() ==
        R"({"of_run":1,"both":2,"of_line":2})");
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
