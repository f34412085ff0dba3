#include "batch/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/nearest_name.h"
#include "batch/fields/field_value.h"
#include "batch/line_error.h"

namespace plimsoll::batch {
namespace {

// Roles of OpenAI's API, and those that models' own templates ask for.
constexpr std::string_view kRoles[] = {"assistant",     "assistant_tool_call",
                                       "chatbot",       "context",
                                       "control",       "critique",
                                       "developer",     "document",
                                       "documents",     "environment",
                                       "function",      "ipython",
                                       "model",         "observation",
                                       "root",          "system",
                                       "tool",          "tool_call",
                                       "tool_response", "tool_responses",
                                       "tool_result",   "tool_results",
                                       "tools",         "user",
                                       "user_context"};

// Keys of OpenAI's and vLLM's messages, and those that models' own templates read.
constexpr std::string_view kKeys[] = {
    "annotations",  "audio",      "citations", "content",        "function_call",
    "name",         "partial",    "prefix",    "reasoning",      "reasoning_content",
    "refusal",      "role",       "task",      "thinking",       "thought",
    "tool_call_id", "tool_calls", "tool_plan", "tool_responses", "tools"};

// Keys that an assistant's message may have in place of a content.
constexpr std::string_view kInPlaceOfContent[] = {
    "audio",   "function_call", "reasoning",  "reasoning_content",
    "refusal", "thinking",      "tool_calls", "tool_responses"};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool needs_content(const OrderedJson& message) {
  if (message["role"] == "user" || message["role"] == "system") return true;
  return message["role"] == "assistant" &&
         std::ranges::none_of(kInPlaceOfContent,
                              [&](std::string_view name) { return message.contains(name); });
}

[[noreturn]] void refuse_without_content(const OrderedJson& message, size_t index) {
  constexpr std::string_view kContent[] = {"content"};
  std::string hint;
  for (const auto& [key, value] : message.items()) {
    if (is_among(kKeys, key) || nearest_name(key, kContent).empty()) continue;
    hint = fmt::format("; did you mean it by {}?", excerpt(OrderedJson(key)));
  }
  throw LineError(code::bad_field, fmt::format("messages[{}].content: is missing{}", index, hint),
                  "messages");
}

void check_content(const OrderedJson& message, size_t index) {
  const auto content = message.find("content");
  if (content == message.end()) {
    if (needs_content(message)) refuse_without_content(message, index);
    return;
  }
  const bool may_be_null = message["role"] != "user";
  if (content->is_string() || content->is_array() || (content->is_null() && may_be_null)) return;
  throw LineError(code::bad_field,
                  fmt::format("messages[{}].content: expected a string or an array of parts, "
                              "found {}",
                              index, excerpt(*content)),
                  "messages");
}

void tell_unknown(const OrderedJson& message, const UnknownField& unknown) {
  for (const auto& [key, value] : message.items()) {
    if (is_among(kKeys, key)) continue;
    unknown("messages[]." + key,
            "is no known key of a message" + did_you_mean(nearest_name(key, kKeys)));
  }
  const auto& role = message["role"].get_ref<const std::string&>();
  if (is_among(kRoles, role)) return;
  unknown("messages[].role " + excerpt(OrderedJson(role)),
          "is no known role" + did_you_mean(nearest_name(role, kRoles)));
}

}  // namespace

void check_messages(const OrderedJson& messages, const UnknownField& unknown) {
  const FieldValue value("messages", messages);
  if (!messages.is_array() || messages.empty()) value.refuse("a non-empty array of messages");
  for (size_t i = 0; i < messages.size(); ++i) {
    const OrderedJson& message = messages[i];
    if (!message.is_object()) value.refuse("an array of objects");
    if (!message.contains("role") || !message["role"].is_string()) {
      throw LineError(code::bad_field, fmt::format("messages[{}].role: expected a string", i),
                      "messages");
    }
    check_content(message, i);
    tell_unknown(message, unknown);
  }
}

}  // namespace plimsoll::batch
