#include "batch/line_answers.h"

#include <fmt/format.h>

#include <utility>

namespace plimsoll::batch {
namespace {

constexpr size_t kShortId = 9;

}  // namespace

bool looks_for_calls(const LineHead& head, const RequestFields& fields) {
  return head.endpoint == Endpoint::chat && fields.tools && !fields.tools->empty() &&
         fields.tool_choice == RequestFields::ToolChoice::automatic && !fields.constraint;
}

text::AnswerFormats formats_of_line(const LineHead& head, const RequestFields& fields,
                                    const text::AnswerFormats& formats) {
  if (head.endpoint != Endpoint::chat) return {};
  return {looks_for_calls(head, fields) ? formats.tools : nullptr, formats.reasoning};
}

LineAnswers read_answers(const LineHead& head, const RequestFields& fields,
                         const text::AnswerFormats& formats, const std::vector<Prompt>& prompts,
                         const std::vector<engine::RequestOutput>& outputs) {
  const text::AnswerFormats used = formats_of_line(head, fields, formats);
  const bool forced = head.endpoint == Endpoint::chat && fields.forces_call();
  if (used.tools == nullptr && used.reasoning == nullptr && !forced) return {};
  const OrderedJson tools = fields.tools.value_or(OrderedJson::array());
  LineAnswers answers;
  for (const engine::RequestOutput& output : outputs) {
    auto& read = answers.emplace_back();
    for (const engine::Completion& completion : output.completions) {
      read.push_back(text::read_answer(used, completion.text, prompts.front().thinking, tools));
    }
  }
  return answers;
}

void take_calls(const RequestFields& fields, LineAnswers& answers) {
  for (auto& output : answers) {
    for (text::ToolAnswer& answer : output) {
      if (fields.tool_choice == RequestFields::ToolChoice::required) {
        text::ToolAnswer required = text::read_required_calls(answer.content);
        answer.content = std::move(required.content);
        answer.calls = std::move(required.calls);
        answer.has_unread_call = answer.calls.empty();
      } else if (fields.tool_choice == RequestFields::ToolChoice::named) {
        // An answer that was cut within its reasoning has no arguments, which are JSON.
        answer.has_unread_call = answer.content.empty();
        if (answer.has_unread_call) continue;
        answer.calls = {{"", fields.forced_tool, std::exchange(answer.content, "")}};
      }
      if (!fields.parallel_tool_calls && answer.calls.size() > 1) answer.calls.resize(1);
    }
  }
}

std::string call_id(const text::ToolFormat* format, const text::ToolCall& call,
                    const Digest& identity, uint64_t seed, int64_t choice, int64_t index) {
  if (!call.id.empty()) return call.id;
  if (format != nullptr && format->named.name_is_id) {
    return fmt::format("functions.{}:{}", call.name, index);
  }
  const std::string id =
      hex(digest(fmt::format("call_{}:{}:{}", hex(identity), choice, index), seed));
  return format != nullptr && format->short_ids ? id.substr(0, kShortId) : "call_" + id;
}

}  // namespace plimsoll::batch
