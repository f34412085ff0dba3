#include "batch/request_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/long_strings.h"
#include "batch/line_error.h"
#include "batch/messages.h"

namespace plimsoll::batch {
namespace {

// Fields with schemas, whose numbers may have more digits than doubles hold.
constexpr std::string_view kExactFields[] = {"response_format", "structured_outputs",
                                             "guided_json"};

[[noreturn]] void bad_field(std::string_view name, const std::string& message) {
  throw LineError(code::bad_field, message, name);
}

OrderedJson parse_line(Line& line) {
  if (line.too_long) {
    throw LineError(code::line_too_long,
                    fmt::format("line {}: is longer than --max-line-bytes allows", line.number));
  }
  if (const std::optional<size_t> bad = first_invalid_utf8(line.text)) {
    throw LineError(code::bad_utf8,
                    fmt::format("line {}, column {}: byte 0x{:02x} is not UTF-8", line.number,
                                *bad + 1, static_cast<unsigned char>(line.text[*bad])));
  }
  try {
    JsonLimits limits = kOrderedLimits;
    limits.exact_fields = kExactFields;
    return parse_json_from<OrderedJson>(std::move(line.text), limits);
  } catch (const JsonError& error) {
    throw LineError(code::bad_json,
                    fmt::format("line {}, column {}: {}", line.number, error.column, error.what()));
  }
}

// Id of a plain line: a string or a whole number.
void read_plain_id(const OrderedJson& object, LineHead& head) {
  const auto id = object.find("id");
  if (id == object.end() || id->is_null()) return;
  if (id->is_number_integer()) {
    head.id = id->dump();
  } else {
    head.id = FieldValue("id", *id).string();
  }
  head.id_is_line_number = false;
}

void number_by_line(LineHead& head) {
  head.id = std::to_string(head.number);
  head.id_is_line_number = true;
}

/// A member that is there and not null, which is as if it were left out.
bool has(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

Endpoint endpoint_of_body(const OrderedJson& body) {
  if (has(body, "messages")) return Endpoint::chat;
  if (has(body, "prompt")) return Endpoint::completions;
  bad_field("url", "url: is missing, and the body has neither messages nor prompt");
}

// OpenAI's paths, and Azure's without the version.
Endpoint endpoint_of_url(const OrderedJson& url) {
  if (url == "/v1/chat/completions" || url == "/chat/completions") return Endpoint::chat;
  if (url == "/v1/completions" || url == "/completions") return Endpoint::completions;
  FieldValue("url", url).refuse("\"/v1/chat/completions\" or \"/v1/completions\"");
}

OrderedJson read_batch(OrderedJson& object, LineHead& head) {
  const auto member = [&](const char* name) -> OrderedJson& {
    const auto found = object.find(name);
    if (found == object.end()) bad_field(name, fmt::format("{}: is missing", name));
    return *found;
  };
  const auto id = object.find("custom_id");
  if (id != object.end() && id->is_string()) head.id = id->get<std::string>();
  if (FieldValue("custom_id", member("custom_id")).string().empty()) {
    bad_field("custom_id", "custom_id: is empty");
  }
  if (has(object, "method") && object["method"] != "POST") {
    FieldValue("method", object["method"]).refuse("\"POST\"");
  }
  if (is_other_service(object)) bad_field("params", fmt::format("params: is {}", kOtherService));
  const OrderedJson& body = FieldValue("body", member("body")).object();
  const auto url = object.find("url");
  head.lacks_url = url == object.end() || url->is_null();
  head.endpoint = head.lacks_url ? endpoint_of_body(body) : endpoint_of_url(*url);
  head.is_request = true;
  return std::move(object["body"]);
}

bool is_batch(const OrderedJson& object) {
  return object.contains("custom_id") || object.contains("body") || object.contains("url");
}

std::vector<RawPrompt> read_prompts(const OrderedJson& prompt, int64_t vocabulary) {
  const FieldValue value("prompt", prompt);
  if (prompt.is_string()) return {prompt.get<std::string>()};
  if (!prompt.is_array() || prompt.empty()) {
    value.refuse("a string, an array of token ids, or a non-empty array of either");
  }
  if (prompt.front().is_number()) return {value.token_ids(vocabulary)};
  std::vector<RawPrompt> prompts;
  for (const OrderedJson& entry : prompt) {
    if (entry.type() != prompt.front().type() || !(entry.is_string() || entry.is_array())) {
      value.refuse("an array of strings, or of arrays of token ids");
    }
    if (entry.is_string()) {
      prompts.emplace_back(entry.get<std::string>());
    } else {
      prompts.emplace_back(FieldValue("prompt", entry).token_ids(vocabulary));
    }
  }
  return prompts;
}

}  // namespace

bool is_other_service(const OrderedJson& object) {
  return object.contains("custom_id") && object.contains("params") && !object.contains("body");
}

OrderedJson read_envelope(Line& line, Envelope usual, LineHead& head) {
  head.number = line.number;
  // The text decides the envelope for now: a line that cannot be parsed has nothing else.
  head.envelope = line.text.find("\"custom_id\"") != std::string::npos ? Envelope::batch : usual;
  if (head.envelope == Envelope::plain) number_by_line(head);
  OrderedJson json = parse_line(line);

  if (json.is_object() && is_batch(json)) {
    head.envelope = Envelope::batch;
    head.id.reset();
    head.id_is_line_number = false;
    return read_batch(json, head);
  }
  if (json.is_object() || json.is_string()) {
    head.envelope = Envelope::plain;
    number_by_line(head);
  }
  if (json.is_string()) {
    head.is_request = true;
    OrderedJson body = OrderedJson::object();
    body["prompt"] = std::move(json);
    return body;
  }
  if (json.is_array()) {
    bad_field("", fmt::format("line {}: is {}", line.number, kJsonArray));
  }
  if (!json.is_object()) {
    bad_field("", fmt::format("line {}: expected an object or a string, found {}", line.number,
                              excerpt(json)));
  }
  read_plain_id(json, head);
  head.endpoint = has(json, "messages") ? Endpoint::chat : Endpoint::completions;
  head.is_request = true;
  return json;
}

LineRequest read_request(const LineHead& head, OrderedJson body, const RequestFields& defaults,
                         const FieldLimits& limits, const UnknownField& unknown) {
  const auto given = [&](const char* name) { return has(body, name); };
  const int sources = given("prompt") + given("messages") + given("prompt_token_ids");
  if (sources > 1) {
    bad_field("prompt", "prompt, messages, prompt_token_ids: expected one of them, found several");
  }
  if (head.lacks_url) {
    unknown("url", fmt::format("is missing; lines whose body has {} count as {}",
                               head.endpoint == Endpoint::chat ? "messages" : "a prompt",
                               head.endpoint == Endpoint::chat ? "chats" : "completions"));
  }
  LineRequest request;
  request.fields = read_fields(body, head.endpoint, head.envelope, defaults, limits, unknown);
  if (head.endpoint == Endpoint::chat) {
    if (!given("messages")) bad_field("messages", "messages: is missing");
    check_messages(body["messages"], unknown);
    request.messages = std::move(body["messages"]);
    request.media = media_of_messages(request.messages);
    if (given("multi_modal_data")) {
      bad_field("multi_modal_data",
                "multi_modal_data: goes with a prompt; in messages an image is an image_url part");
    }
  } else if (given("prompt")) {
    request.prompts = read_prompts(body["prompt"], limits.vocab_size);
  } else if (given("prompt_token_ids")) {
    TokenIds ids =
        FieldValue("prompt_token_ids", body["prompt_token_ids"]).token_ids(limits.vocab_size);
    if (ids.empty()) bad_field("prompt_token_ids", "prompt_token_ids: is empty");
    request.prompts.emplace_back(std::move(ids));
  } else {
    bad_field("prompt", "the line has none of prompt, messages, prompt_token_ids");
  }
  if (head.endpoint != Endpoint::chat && given("multi_modal_data")) {
    request.media = media_of_data(body["multi_modal_data"]);
    if (request.prompts.size() > 1 && !request.media.empty()) {
      bad_field("multi_modal_data", "multi_modal_data: goes with one prompt, not with several");
    }
  }
  return request;
}

}  // namespace plimsoll::batch
