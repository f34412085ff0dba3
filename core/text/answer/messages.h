// Answers in messages: gpt-oss (OpenAI's harmony format), Muse, Inkling, Kimi K3. A model writes
// its reasoning, its text and its calls as messages, each with a header that says what it holds.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "text/answer/reasoning.h"
#include "text/answer/tool_calls.h"

namespace plimsoll::text {

/// What a message holds.
enum class MessageKind : uint8_t {
  content,
  reasoning,
  calls,  // calls in the format's CallBody
  call,   // arguments of one call, to the function that the header names
};

/// A text that ends a header, behind which the message's own text begins.
struct MessageOpening {
  std::string_view mark = {};
  MessageKind kind = MessageKind::content;
};

struct MessageFormat {
  /// Texts that begin a header.
  std::array<std::string_view, 2> headers = {};
  std::array<MessageOpening, 4> openings = {};
  /// Texts that end a message; the next header ends it too.
  std::array<std::string_view, 4> ends = {};
  /// The kind by a header's words; null: the opening says it.
  MessageKind (*kind_of)(std::string_view header) = nullptr;
  /// Headers begin with one of `headers`; else an opening alone, or behind "to=NAME", is one too.
  bool needs_header = false;
  /// Text between messages of a kind when they are joined.
  std::string_view joint = {};
};

extern const MessageFormat kHarmonyMessages;
extern const MessageFormat kMuseMessages;
extern const MessageFormat kMuseGlimmerMessages;
extern const MessageFormat kInklingMessages;
extern const MessageFormat kKimiMessages;

/// Reads an answer's messages. Text outside them is content. `tools`, the format of calls, may be
/// null: calls are content then. `thinking` says whether the answer begins within reasoning.
ToolAnswer read_messages(const MessageFormat& format, const ToolFormat* tools,
                         std::string_view text, Thinking thinking,
                         const OrderedJson& described_tools);

}  // namespace plimsoll::text
