#include "text/answer/answer.h"

#include <utility>

#include "text/answer/call_bodies.h"
#include "text/answer/harmony.h"

namespace plimsoll::text {
namespace {

/// gpt-oss's messages; calls are content where none are asked for.
ToolAnswer read_messages(const AnswerFormats& formats, std::string_view text) {
  ToolAnswer answer = read_harmony(text);
  if (formats.tools != nullptr) return answer;
  for (const ToolCall& call : answer.calls) {
    answer.content += (answer.content.empty() ? "" : "\n") + call.arguments;
  }
  answer.calls.clear();
  return answer;
}

}  // namespace

std::vector<std::string_view> markers_of(const ToolFormat& format) {
  std::vector<std::string_view> texts(format.around.begin(), format.around.end());
  for (const CallMarkers& markers : format.markers) {
    texts.insert(texts.end(), {markers.begin, markers.end});
  }
  const CallTags& tags = format.tags;
  texts.insert(texts.end(),
               {format.named.before, format.named.name_end, tags.call_open, tags.call_close,
                tags.key_open, tags.key_close, tags.value_open, tags.value_close, format.quote});
  if (format.body == CallBody::harmony) texts.push_back(kHarmonyFinal);
  return texts;
}

std::vector<std::string_view> markers_of(const ReasoningFormat& format) {
  std::vector<std::string_view> texts(format.starts.begin(), format.starts.end());
  texts.insert(texts.end(), format.ends.begin(), format.ends.end());
  texts.insert(texts.end(), {format.call_begin, format.answer_begin, format.answer_end});
  return texts;
}

ToolAnswer read_answer(const AnswerFormats& formats, std::string_view text, Thinking thinking,
                       const OrderedJson& tools) {
  const bool harmony = (formats.tools != nullptr && formats.tools->body == CallBody::harmony) ||
                       (formats.reasoning != nullptr && formats.reasoning->harmony);
  if (harmony) return read_messages(formats, text);
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
