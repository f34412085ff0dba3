#include "text/answer/answer.h"

#include <utility>

#include "text/answer/call_bodies.h"
#include "text/answer/messages.h"

namespace plimsoll::text {
namespace {

void add_marks(std::vector<std::string_view>& texts, const MessageFormat* messages) {
  if (messages == nullptr) return;
  texts.insert(texts.end(), messages->headers.begin(), messages->headers.end());
  texts.insert(texts.end(), messages->ends.begin(), messages->ends.end());
  for (const MessageOpening& opening : messages->openings) texts.push_back(opening.mark);
}

}  // namespace

std::vector<std::string_view> markers_of(const ToolFormat& format) {
  std::vector<std::string_view> texts(format.around.begin(), format.around.end());
  for (const CallMarkers& markers : format.markers) {
    texts.insert(texts.end(), {markers.begin, markers.end});
  }
  const CallTags& tags = format.tags;
  texts.insert(texts.end(), {format.named.before, format.named.name_end, tags.call_open,
                             tags.call_close, tags.key_open, tags.key_close, tags.value_open,
                             tags.value_close, tags.name_end, format.quote, format.element});
  add_marks(texts, format.messages);
  return texts;
}

std::vector<std::string_view> markers_of(const ReasoningFormat& format) {
  std::vector<std::string_view> texts(format.starts.begin(), format.starts.end());
  texts.insert(texts.end(), format.ends.begin(), format.ends.end());
  texts.insert(texts.end(), {format.call_begin, format.answer_begin, format.answer_end});
  add_marks(texts, format.messages);
  return texts;
}

ToolAnswer read_answer(const AnswerFormats& formats, std::string_view text, Thinking thinking,
                       const OrderedJson& tools) {
  const MessageFormat* messages = formats.tools != nullptr ? formats.tools->messages : nullptr;
  if (messages == nullptr && formats.reasoning != nullptr) messages = formats.reasoning->messages;
  if (messages != nullptr) return read_messages(*messages, formats.tools, text, thinking, tools);
  SplitAnswer split{"", std::string(text)};
  if (formats.reasoning != nullptr) split = split_reasoning(*formats.reasoning, text, thinking);
  ToolAnswer answer;
  if (formats.tools != nullptr) {
    answer = read_tool_calls(*formats.tools, split.content, tools);
  } else {
    answer.content = std::move(split.content);
  }
  answer.reasoning = std::move(split.reasoning);
  return answer;
}

ToolAnswer read_required_calls(std::string_view content) {
  static constexpr ToolFormat kRequired = {
      .names = {"required"}, .markers = {}, .keys = {.arguments = {"parameters", "arguments"}}};
  ToolAnswer answer;
  const CallText whole{.text = content, .whole = true};
  if (!read_json_calls(kRequired, whole, answer.calls)) answer.calls.clear();
  if (answer.calls.empty()) answer.content = std::string(content);
  return answer;
}

}  // namespace plimsoll::text
