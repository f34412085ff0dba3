// The answers of gpt-oss: messages in channels (OpenAI's harmony format).
#pragma once

#include <string_view>

#include "text/answer/tool_calls.h"

namespace plimsoll::text {

/// Text behind which gpt-oss writes the answer proper.
inline constexpr std::string_view kHarmonyFinal = "<|channel|>final<|message|>";

/// Reads an answer's messages: the channel "analysis" and calls of built-in tools are reasoning,
/// messages to functions.NAME are calls, all others are content. Messages of a kind are joined by
/// line ends.
ToolAnswer read_harmony(std::string_view text);

}  // namespace plimsoll::text
