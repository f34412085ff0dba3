// Lines of requests with fields added, changed or left out at random: read as they were when
// tests/data/digests/requests.txt was written (README there).
#include <catch2/catch.hpp>

#include "batch/read_request.h"
#include "digests.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using namespace plimsoll::testing;

namespace {

constexpr int kChanges = 250;  // of a line

const char* const kTools =
    R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",
    "properties":{"x":{"type":"integer"}},"required":["x"]}}},{"type":"function","function":{"name":
    "g"}}])";
const char* const kSchema = R"({"type":"object","properties":{"a":{"type":"string"}}})";

std::vector<std::string> lines() {
  const std::string chat = R"({"messages":[{"role":"system","content":"s"},{"role":"user",)"
                           R"("content":"hi"}])";
  const std::string parts =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url",)"
      R"("image_url":{"url":"a.png","detail":"low"}},{"type":"image","image":"b.png"},{"type":)"
      R"("video","video":["c.png","d.png"]}]},{"role":"assistant","content":"a"}])";
  const std::string calls =
      R"({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"2"}],"tools":)" +
      std::string(kTools);
  return {R"("a text")",
          R"({"prompt":"x"})",
          R"({"id":"i","prompt":["x","y"],"n":2,"max_tokens":5,"logprobs":3,"echo":true})",
          R"({"prompt_token_ids":[1,2,3],"temperature":0.5,"top_k":4,"stop":["a"],"seed":7})",
          R"({"prompt":[[1,2],[3]],"logit_bias":{"5":-3},"min_tokens":2,"prompt_logprobs":1})",
          R"({"prompt":"x","multi_modal_data":{"image":"a.png","video":["b.png","c.png"]}})",
          R"({"prompt":"x","structured_outputs":{"json":)" + std::string(kSchema) + "}}",
          R"({"prompt":"x","guided_choice":["a","b"],"truncate_prompt_tokens":4})",
          chat + "}",
          chat + R"(,"id":9,"temperature":1,"logprobs":true,"top_logprobs":2,"max_tokens":4})",
          chat + R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":)" +
              kSchema + "}}}",
          chat + R"(,"continue_final_message":false,"documents":[{"title":"t","text":"x"}],)"
                 R"("chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low"})",
          parts + "}",
          calls + "}",
          calls + R"(,"tool_choice":"required","parallel_tool_calls":false})",
          calls + R"(,"tool_choice":{"type":"function","function":{"name":"f"}}})",
          batch_line(R"({"model":"m","prompt":"x","max_tokens":3,"stop":"a"})"),
          batch_line(chat + R"(,"model":"m","tools":)" + kTools + "}", "/v1/chat/completions")};
}

/// Values that a field may have, and that it may not.
const char* const kValues[] = {"null",
                               "true",
                               "false",
                               "0",
                               "1",
                               "-1",
                               "2",
                               "5.0",
                               "0.5",
                               "99",
                               "100",
                               "1e30",
                               "\"\"",
                               "\"a\"",
                               "\"7\"",
                               "\"true\"",
                               "\"none\"",
                               "\"auto\"",
                               "\"required\"",
                               "\"text\"",
                               "\"json_object\"",
                               "\"user\"",
                               "\"assistant\"",
                               "\"low\"",
                               "\"right\"",
                               "\"f\"",
                               "[]",
                               "[1]",
                               "[\"a\"]",
                               "[\"a\",\"\"]",
                               "[[1],[2,3]]",
                               "[{}]",
                               "{}",
                               "{\"type\":\"text\"}",
                               "{\"type\":\"json_object\"}",
                               "{\"type\":\"image_url\",\"image_url\":\"e.png\"}",
                               "{\"type\":\"text\",\"text\":\"z\"}",
                               "{\"role\":\"user\",\"content\":\"z\"}",
                               "{\"regex\":\"a+\"}",
                               "{\"choice\":[\"a\"]}",
                               "{\"3\":1.5}",
                               "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"};

void collect(const OrderedJson& value, const OrderedJson::json_pointer& at,
             std::vector<OrderedJson::json_pointer>& paths) {
  if (!at.empty()) paths.push_back(at);
  for (size_t i = 0; value.is_array() && i < value.size(); ++i) collect(value[i], at / i, paths);
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items()) collect(inner, at / key, paths);
}

/// The line with one value of it changed, doubled or left out, or with one more field.
OrderedJson changed(Draw& draw, OrderedJson line) {
  std::vector<OrderedJson::json_pointer> paths;
  collect(line, OrderedJson::json_pointer(), paths);
  const auto value = [&] { return parse_json<OrderedJson>(draw.of(kValues)); };
  if (!line.is_object() || paths.empty()) return value();
  if (draw.below(2) == 0) {
    OrderedJson& body = line.contains("body") && line["body"].is_object() ? line["body"] : line;
    body[std::string(draw.of(request_field_table()).name)] = value();
    return line;
  }
  const OrderedJson::json_pointer& at = draw.of(paths);
  OrderedJson& holder = line[at.parent_pointer()];
  switch (draw.below(4)) {
    case 0:
      if (holder.is_object()) {
        holder.erase(at.back());
      } else {
        holder.erase(std::stoul(at.back()));
      }
      break;
    case 1:
      if (holder.is_array()) {
        holder.push_back(OrderedJson(holder[0]));
      } else {
        holder[at.back() + "s"] = OrderedJson(holder[at.back()]);
      }
      break;
    default:
      line[at] = value();
  }
  return line;
}

Json printed(const LineHead& head) {
  return {{"envelope", static_cast<int>(head.envelope)},
          {"endpoint", static_cast<int>(head.endpoint)},
          {"id", head.id.value_or("(none)")},
          {"id_is_line_number", head.id_is_line_number},
          {"lacks_url", head.lacks_url},
          {"is_request", head.is_request}};
}

Json printed(const engine::SamplingParams& sampling) {
  return {{"n", sampling.n},
          {"temperature", sampling.temperature},
          {"top_p", sampling.top_p},
          {"top_k", sampling.top_k},
          {"min_p", sampling.min_p},
          {"penalties",
           {sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty}},
          {"seed", sampling.seed ? Json(*sampling.seed) : Json()},
          {"stop", sampling.stop},
          {"stop_token_ids", sampling.stop_token_ids},
          {"include_stop_str_in_output", sampling.include_stop_str_in_output},
          {"ignore_eos", sampling.ignore_eos},
          {"min_tokens", sampling.min_tokens},
          {"logprobs", sampling.logprobs ? Json(*sampling.logprobs) : Json()},
          {"prompt_logprobs", sampling.prompt_logprobs ? Json(*sampling.prompt_logprobs) : Json()},
          {"logit_bias", sampling.logit_bias},
          {"allowed_token_ids", sampling.allowed_token_ids},
          {"skip_special_tokens", sampling.skip_special_tokens}};
}

Json printed(const RequestFields& fields) {
  const auto number = [](const auto& given) { return given ? Json(*given) : Json(); };
  Json result = {{"sampling", printed(fields.sampling)},
                 {"max_tokens", number(fields.max_tokens)},
                 {"top_logprobs", number(fields.top_logprobs)},
                 {"bad_words", fields.bad_words},
                 {"truncate_prompt_tokens", number(fields.truncate_prompt_tokens)},
                 {"truncation_side", static_cast<int>(fields.truncation_side)},
                 {"add_special_tokens", number(fields.add_special_tokens)},
                 {"echo", fields.echo},
                 {"return_token_ids", fields.return_token_ids},
                 {"mm_processor_kwargs", fields.mm_processor_kwargs.dump()},
                 {"chat_template", number(fields.chat_template)},
                 {"chat_template_kwargs", fields.chat_template_kwargs.dump()},
                 {"reasoning_effort", number(fields.reasoning_effort)},
                 {"add_generation_prompt", number(fields.add_generation_prompt)},
                 {"continue_final_message", fields.continue_final_message},
                 {"documents", fields.documents ? fields.documents->dump() : ""},
                 {"tools", fields.tools ? fields.tools->dump() : ""},
                 {"tool_choice", static_cast<int>(fields.tool_choice)},
                 {"forced_tool", fields.forced_tool},
                 {"parallel_tool_calls", fields.parallel_tool_calls},
                 {"thinking_token_budget", number(fields.thinking_token_budget)},
                 {"include_reasoning", fields.include_reasoning},
                 {"model", fields.model}};
  if (fields.constraint)
    result["constraint"] = {{"key", fields.constraint->key()},
                            {"field", fields.constraint->field},
                            {"places", fields.constraint->places}};
  return result;
}

Json printed(const LineRequest& request) {
  Json prompts = Json::array();
  for (const RawPrompt& prompt : request.prompts)
    std::visit([&](const auto& given) { prompts.push_back(given); }, prompt);
  Json media = Json::array();
  for (const Media& one : request.media)
    media.push_back({static_cast<int>(one.kind), one.sources, one.field});
  return {{"fields", printed(request.fields)},
          {"prompts", prompts},
          {"messages", request.messages.dump()},
          {"media", media}};
}

Answered asked(const std::string& line, Envelope usual) {
  return answered(line, [&] {
    const Read got = read(line, usual);
    Json answer = {{"head", printed(got.head)}, {"unknown", got.unknown}};
    if (got.code.empty()) {
      answer["request"] = printed(got.request);
    } else {
      answer["refused"] = {got.code, got.message, got.param};
    }
    return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  });
}

/// The line as somebody's script broke it.
std::string broken(Draw& draw, std::string line) {
  const size_t at = draw.below(line.size());
  switch (draw.below(4)) {
    case 0:
      return line.substr(0, at);
    case 1:
      return line.erase(at, 1);
    case 2:
      line[at] = "\"{}[],:'\\\t\xff"[draw.below(11)];
      return line;
    default:
      return line + line.substr(at);
  }
}

}  // namespace

TEST_CASE("lines of requests changed at random are read, or refused, as they were") {
  Digests digests("requests");
  for (const std::string& text : lines()) {
    Draw draw(text);
    const OrderedJson line = parse_json<OrderedJson>(text);
    const Envelope envelope =
        text.find("custom_id") != std::string::npos ? Envelope::batch : Envelope::plain;
    std::vector<Answered> all = {asked(text, envelope)};
    for (int i = 0; i < kChanges; ++i) {
      OrderedJson other = changed(draw, line);
      for (size_t more = draw.below(3); more > 0; --more) other = changed(draw, other);
      all.push_back(asked(other.dump(), envelope));
      if (i % 8 == 0) all.push_back(asked(broken(draw, text), envelope));
    }
    digests.compare(fmt::format("{:016x}", Draw::digest(text)), all);
  }
  digests.finish();
}
