// The answers to a line in their parts: reasoning, content, calls of tools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "batch/digest.h"
#include "batch/prompt_builder.h"
#include "batch/request_line.h"
#include "engine/request.h"
#include "text/answer/answer.h"

namespace plimsoll::batch {

/// One for each part of a prompt, with one for each choice.
using LineAnswers = std::vector<std::vector<text::ToolAnswer>>;

/// True where calls are looked for in a line's answers: it offers tools, forces no call, and asks
/// for no form of the answer.
bool looks_for_calls(const LineHead& head, const RequestFields& fields);

/// The formats that a line's answers are read by.
text::AnswerFormats formats_of_line(const LineHead& head, const RequestFields& fields,
                                    const text::AnswerFormats& formats);

/// The answers to a chat in their parts; none where they stay as they are. Calls that are forced
/// are still content.
LineAnswers read_answers(const LineHead& head, const RequestFields& fields,
                         const text::AnswerFormats& formats, const std::vector<Prompt>& prompts,
                         const std::vector<engine::RequestOutput>& outputs);

/// Makes calls of the contents that a forced call's grammar gave, and leaves out calls beyond the
/// first where parallel_tool_calls is false.
void take_calls(const RequestFields& fields, LineAnswers& answers);

/// The id of a choice's call: the same in every run of a line. Mistral's templates want nine
/// letters and digits, Kimi's the function's name and the call's index.
std::string call_id(const text::ToolFormat* format, const text::ToolCall& call,
                    const Digest& identity, uint64_t seed, int64_t choice, int64_t index);

}  // namespace plimsoll::batch
