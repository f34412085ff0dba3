#include <algorithm>
#include <stdexcept>
#include <string>

#include "fuzz/targets.h"
#include "text/answer/answer.h"

namespace plimsoll::fuzz {
namespace {

/// The first byte chooses a row of a table, the others are an answer.
template <typename Format>
const Format& chosen(std::span<const Format> formats, std::string_view& bytes) {
  const size_t index = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(std::min<size_t>(bytes.size(), 1));
  return formats[index % formats.size()];
}

/// The bytes of a text that are neither ASCII nor controls.
std::string without_syntax(std::string_view text) {
  std::string rest;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) rest += c;
    if (!rest.empty() && static_cast<unsigned char>(c) < 0x80) rest += ' ';
  }
  return rest;
}

/// True for JSON, with numbers beyond doubles too: they stay as the model spelled them.
bool is_json(const std::string& text) {
  try {
    const Json read = Json::parse(text);
    return !read.is_discarded();
  } catch (const Json::out_of_range&) {
    return true;
  } catch (const Json::parse_error&) {
    return false;
  }
}

/// Arguments that are written anew are JSON, whatever bytes were in them; others are as the model
/// wrote them.
void check_call(const text::ToolFormat& format, const text::ToolCall& call) {
  if (call.name.empty()) throw std::logic_error("a call without a name");
  const bool raw = format.body == text::CallBody::named || format.messages != nullptr;
  // Json::accept refuses bytes that are not UTF-8, which answers of an engine do not have.
  const bool is_utf8 = Json::accept('"' + without_syntax(call.arguments) + '"');
  if (!raw && is_utf8 && !is_json(call.arguments)) {
    throw std::logic_error("arguments that are no JSON");
  }
}

}  // namespace

void tool_calls(std::string_view bytes) {
  static const OrderedJson tools = OrderedJson::parse(
      R"([{"function":{"name":"f","parameters":{"properties":{"a":{"type":"integer"},)"
      R"("b":{"type":["object","null"]},"c":{"type":"string"}}}}}])");
  const text::ToolFormat& format = chosen(text::tool_formats(), bytes);
  const text::ToolAnswer answer = text::read_tool_calls(format, bytes, tools);
  for (const text::ToolCall& call : answer.calls) check_call(format, call);
  if (format.messages != nullptr || !answer.calls.empty()) return;
  if (answer.content != bytes)
    throw std::logic_error("an answer without calls that is another text");
}

void reasoning(std::string_view bytes) {
  const text::ReasoningFormat& format = chosen(text::reasoning_formats(), bytes);
  for (const text::Thinking thinking :
       {text::Thinking::unsaid, text::Thinking::open, text::Thinking::ended}) {
    const text::ToolAnswer answer =
        text::read_answer({.reasoning = &format}, bytes, thinking, OrderedJson::array());
    if (answer.reasoning.size() + answer.content.size() > bytes.size()) {
      throw std::logic_error("more text than the answer has");
    }
  }
  (void)text::thinking_of_prompt(format, bytes);
}

}  // namespace plimsoll::fuzz
