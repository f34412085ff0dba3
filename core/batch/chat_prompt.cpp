#include "batch/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>
#include <utility>

#include "base/error.h"
#include "base/trim.h"
#include "batch/images/media.h"
#include "batch/images/placeholders.h"
#include "batch/line_error.h"

namespace plimsoll::batch {
namespace {

constexpr size_t kCachedTemplates = 8;
constexpr std::string_view kSpaces = " \t\n\r\f\v";
// transformers marks the place to continue from with this, and looks for it in the rendered text.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";

// Whether the template loops over the parts of a message's content (vLLM's "openai" format): then
// lists go in as they are, else their texts are joined.
bool loops_over_content(const std::string& source) {
  static const std::regex loop(
      R"(\{%-?\s*for\s+\w+\s+in\s+(\w+(\[-?\w+\])?(\.content|\[['"]content['"]\])|content)(?!\w))");
  // Regular expressions of the standard library recurse: look at short stretches.
  for (size_t at = source.find("{%"); at != std::string::npos; at = source.find("{%", at + 2)) {
    const std::string tag = source.substr(at, 160);
    if (std::regex_search(tag, loop, std::regex_constants::match_continuous)) return true;
  }
  return false;
}

std::string part_text(const OrderedJson& part, size_t message) {
  const auto refuse = [&](const std::string& found) {
    throw LineError(code::bad_field,
                    fmt::format("messages[{}].content: expected parts of type \"text\", "
                                "\"image_url\" or \"video_url\", found {}",
                                message, found),
                    "messages");
  };
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) refuse(excerpt(part));
  const std::string type = part.value("type", OrderedJson("text")).is_string()
                               ? part.value("type", std::string("text"))
                               : std::string();
  const char* field = type == "refusal" ? "refusal" : "text";
  if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal") {
    refuse("type " + excerpt(part.value("type", OrderedJson())));
  }
  if (!part.contains(field) || !part[field].is_string()) refuse(excerpt(part));
  return part[field].get<std::string>();
}

// Before a text go the placeholders that it does not have itself, as vLLM puts them.
std::string with_placeholders(const std::string& text, const std::vector<std::string>& wanted) {
  std::map<std::string, size_t> written;
  std::string before;
  for (const std::string& placeholder : wanted) {
    if (!written.contains(placeholder)) written[placeholder] = find_all(text, placeholder).size();
    if (written[placeholder] > 0) {
      --written[placeholder];
    } else {
      before += placeholder + "\n";
    }
  }
  if (text.empty() && !before.empty()) before.pop_back();
  return before + text;
}

// Parts are checked and joined by line ends, as vLLM does for templates that take text.
void normalize_content(OrderedJson& message, size_t index, bool takes_parts,
                       const ChatOptions& options) {
  OrderedJson& content = message["content"];
  if (content.is_null()) {
    content = "";
    return;
  }
  if (!content.is_array()) return;
  OrderedJson parts = OrderedJson::array();
  std::string joined;
  std::vector<std::string> placeholders;
  bool first = true;
  for (const OrderedJson& part : content) {
    if (const auto kind = media_kind(part)) {
      const bool video = *kind == MediaKind::video;
      placeholders.push_back(video ? options.video_placeholder : options.image_placeholder);
      parts.push_back({{"type", video ? "video" : "image"}});
      continue;
    }
    const std::string text = part_text(part, index);
    if (!std::exchange(first, false)) joined += '\n';
    joined += text;
    parts.push_back({{"type", "text"}, {"text", text}});
  }
  content = takes_parts ? std::move(parts) : OrderedJson(with_placeholders(joined, placeholders));
}

// Templates want the arguments of a tool call as an object; OpenAI's API carries them as text.
OrderedJson arguments_of(const OrderedJson& given) {
  if (given.is_null()) return OrderedJson::object();
  if (!given.is_string()) return given;
  const auto text = given.get<std::string>();
  try {
    return text.empty() ? OrderedJson::object() : parse_json<OrderedJson>(text, kOrderedLimits);
  } catch (const JsonError& error) {
    throw LineError(code::bad_field,
                    fmt::format("messages: arguments of a tool call, column {}: {}", error.column,
                                error.what()),
                    "messages");
  }
}

// Removes an empty list of calls, as vLLM does: templates test whether there are calls, not how
// many.
void normalize_calls(OrderedJson& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase(calls);
    return;
  }
  if (!calls->is_array()) return;
  for (OrderedJson& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    OrderedJson& arguments = call["function"]["arguments"];
    arguments = arguments_of(arguments);
  }
}

// Reasoning has three names, of which a template knows one (transformers 5.23 and vLLM do so).
void normalize_reasoning(OrderedJson& message) {
  constexpr std::array kNames{"reasoning_content", "thinking", "reasoning"};
  const auto has = [&](const char* name) {
    return message.contains(name) && !message[name].is_null();
  };
  const auto* const given = std::ranges::find_if(kNames, has);
  if (given == kNames.end()) return;
  const OrderedJson reasoning = message[*given];
  for (const char* name : kNames) {
    if (!has(name)) message[name] = reasoning;
  }
}

[[noreturn]] void template_error(const std::string& message) {
  throw LineError(code::template_error, "chat template: " + message, "messages");
}

// The text that the tag goes behind: the content, or the last part that has text.
std::string& final_text(OrderedJson& messages) {
  OrderedJson& content = messages.back()["content"];
  if (content.is_string()) return content.get_ref<std::string&>();
  for (auto part = content.rbegin(); part != content.rend(); ++part) {
    if (part->contains("text")) return (*part)["text"].get_ref<std::string&>();
  }
  template_error("continue_final_message: the final message has no text to continue");
}

// Cuts the rendered text behind the final message (transformers' rule).
std::string cut_behind_tag(const std::string& rendered, const std::string& final_message) {
  const std::string tag(kContinueTag);
  const size_t at = rendered.rfind(trimmed(tag, kSpaces));
  if (at == std::string::npos ||
      rendered.find(trimmed(final_message, kSpaces)) == std::string::npos) {
    template_error(
        "continue_final_message: the final message does not appear in the rendered chat");
  }
  std::string kept = rendered.substr(0, at);
  if (rendered.compare(at, tag.size(), tag) == 0) return kept;
  const size_t last = kept.find_last_not_of(kSpaces);
  return kept.substr(0, last == std::string::npos ? 0 : last + 1);
}

}  // namespace

void check_template(const std::string& source) {
  try {
    (void)text::ChatTemplate::parse(source);
  } catch (const text::TemplateError& error) {
    fail(ExitCode::usage, "--chat-template: {}", error.what());
  }
}

const ChatRenderer::Compiled& ChatRenderer::compile(const std::string& source) {
  for (auto entry = cache_.begin(); entry != cache_.end(); ++entry) {
    if (entry->source != source) continue;
    cache_.splice(cache_.begin(), cache_, entry);
    return cache_.front();
  }
  try {
    cache_.push_front({source, text::ChatTemplate::parse(source), loops_over_content(source)});
  } catch (const text::TemplateError& error) {
    template_error(error.what());
  }
  if (cache_.size() > kCachedTemplates) cache_.pop_back();
  return cache_.front();
}

const ChatRenderer::Compiled& ChatRenderer::choose(const RequestFields& fields) {
  if (fields.chat_template) {
    const auto named = options_.templates.find(*fields.chat_template);
    return compile(named != options_.templates.end() ? named->second : *fields.chat_template);
  }
  if (options_.chat_template) return compile(*options_.chat_template);
  if (options_.templates.empty()) {
    template_error("the model has none; give one with --chat-template FILE");
  }
  const bool has_tools = fields.tools && !fields.tools->empty();
  try {
    return compile(text::choose_template(options_.templates, "", has_tools));
  } catch (const Error& error) {
    template_error(error.what());
  }
}

std::string ChatRenderer::render(OrderedJson messages, const RequestFields& fields) {
  const Compiled& chosen = choose(fields);
  for (size_t i = 0; i < messages.size(); ++i) {
    normalize_content(messages[i], i, chosen.takes_parts, options_);
    normalize_calls(messages[i]);
    normalize_reasoning(messages[i]);
  }
  std::string final_message;
  if (fields.continue_final_message) {
    std::string& text = final_text(messages);
    final_message = text;
    text += kContinueTag;
  }
  text::ChatInput input;
  input.messages = std::move(messages);
  if (fields.tools && !fields.tools->empty()) input.tools = fields.tools;
  input.documents = fields.documents;
  input.kwargs = fields.chat_template_kwargs;
  input.add_generation_prompt = fields.add_generation_prompt.value_or(true);
  input.special_tokens = options_.special_tokens;
  input.now = options_.now;
  try {
    const std::string rendered = chosen.compiled.render(input);
    return fields.continue_final_message ? cut_behind_tag(rendered, final_message) : rendered;
  } catch (const text::TemplateError& error) {
    template_error(error.what());
  }
}

}  // namespace plimsoll::batch
