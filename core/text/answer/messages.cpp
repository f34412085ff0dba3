#include "text/answer/messages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/trim.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

constexpr std::string_view kMark = "<|";  // every mark begins so
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kTo = "to=";

/// The word behind `key` in a header: up to a space or a marker.
std::string_view word_after(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == kNowhere) return {};
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, rest.find_first_of(" \n<"));
}

MessageKind harmony_kind(std::string_view header) {
  const std::string_view recipient = word_after(header, kTo);
  if (recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size()) {
    return MessageKind::call;
  }
  const bool analysis = word_after(header, "<|channel|>") == "analysis";
  return recipient.empty() && !analysis ? MessageKind::content : MessageKind::reasoning;
}

MessageKind muse_kind(std::string_view header) {
  const std::string_view recipient = word_after(header, kTo);
  if (recipient == "user" || recipient == "commentary") return MessageKind::content;
  // What vLLM drops ("developer") is kept with the reasoning.
  const bool own = recipient.empty() || recipient == "self" || recipient == "developer";
  return own ? MessageKind::reasoning : MessageKind::calls;
}

MessageKind glimmer_kind(std::string_view header) {
  const std::string_view recipient = word_after(header, kTo);
  if (recipient == "self") return MessageKind::reasoning;
  return recipient.empty() || recipient == "user" ? MessageKind::content : MessageKind::calls;
}

constexpr MessageFormat muse_messages(MessageKind (*kind_of)(std::string_view)) {
  return {.headers = {"<|start|>"},
          .openings = {{{.mark = "<|message|>"}}},
          .ends = {"<|eom|>", "<|eot|>"},
          .kind_of = kind_of};
}

/// Adds a message's text behind the joint.
void add(std::string& to, std::string_view joint, std::string_view text) {
  if (text.empty()) return;
  if (!to.empty()) to += joint;
  to += text;
}

/// Arguments as JSON where they are JSON, else as they stand.
std::string arguments_of(std::string_view text) {
  return json_of(text).value_or(std::string(trimmed(text, kBlanks)));
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_decimal(c) || c == '_' ||
         c == '.' || c == '-';
}

class MessageReader {
 public:
  MessageReader(const MessageFormat& format, const ToolFormat* tools, std::string_view text,
                const OrderedJson& described)
      : format_(format), tools_(tools), text_(text), described_(described) {}

  ToolAnswer read(Thinking thinking) {
    if (thinking == Thinking::open && !begins_with_message()) {
      read_text(MessageKind::reasoning, {}, 0);
    }
    while (at_ < text_.size() && read_message()) {
    }
    return std::move(answer_);
  }

 private:
  enum class MarkKind : uint8_t { header, opening, end };
  struct Mark {
    MarkKind kind;
    size_t at, size;
    MessageKind message = {};  // of an opening
  };

  /// A mark that stands at `at`.
  [[nodiscard]] std::optional<Mark> mark_at(size_t at) const {
    const std::string_view rest = text_.substr(at);
    const auto is_next = [&](std::string_view mark) {
      return !mark.empty() && rest.starts_with(mark);
    };
    for (const MessageOpening& opening : format_.openings) {
      if (is_next(opening.mark))
        return Mark{MarkKind::opening, at, opening.mark.size(), opening.kind};
    }
    for (const std::string_view mark : format_.headers) {
      if (is_next(mark)) return Mark{MarkKind::header, at, mark.size()};
    }
    for (const std::string_view mark : format_.ends) {
      if (is_next(mark)) return Mark{MarkKind::end, at, mark.size()};
    }
    return std::nullopt;
  }
  /// The first mark at `from` or behind it for which `wanted` is true.
  template <typename Wanted>
  [[nodiscard]] std::optional<Mark> next_mark(size_t from, Wanted wanted) const {
    for (size_t at = text_.find(kMark, from); at != kNowhere; at = text_.find(kMark, at + 1)) {
      const std::optional<Mark> mark = mark_at(at);
      if (mark && wanted(mark->kind)) return mark;
    }
    return std::nullopt;
  }

  /// Where the header begins that an opening ends, at `least` or behind it: at "to=NAME" before the
  /// opening, and the blanks before that, or at the opening itself.
  [[nodiscard]] size_t bare_header(size_t opening, size_t least) const {
    size_t name = opening;
    while (name > least && opening - name < kLongestName && is_name_character(text_[name - 1])) {
      --name;
    }
    if (name < least + kTo.size() || text_.substr(name - kTo.size(), kTo.size()) != kTo) {
      return opening;
    }
    size_t begin = name - kTo.size();
    while (begin > least && (text_[begin - 1] == ' ' || text_[begin - 1] == '\t')) --begin;
    return begin;
  }

  [[nodiscard]] bool begins_with_message() const {
    const std::optional<Mark> mark = mark_at(behind_blanks(text_, 0));
    return mark && mark->kind != MarkKind::end;
  }

  bool read_message() {
    const auto is_header = [](MarkKind kind) { return kind == MarkKind::header; };
    const auto is_opening = [](MarkKind kind) { return kind == MarkKind::opening; };
    std::optional<Mark> header, opening;
    if (format_.needs_header) {
      header = next_mark(at_, is_header);
      if (header) opening = next_mark(header->at, is_opening);
    } else {
      opening = next_mark(at_, is_opening);
      if (opening) header = next_mark(at_, [&](MarkKind kind) { return kind != MarkKind::end; });
    }
    if (!opening) {
      // No message follows: the rest is text, a header that was cut too.
      add(answer_.content, format_.joint, text_.substr(at_));
      return false;
    }
    const size_t begin =
        header->kind == MarkKind::header ? header->at : bare_header(opening->at, at_);
    const std::string_view before = text_.substr(at_, begin - at_);
    if (!is_blank(before)) add(answer_.content, format_.joint, before);
    const std::string_view words = text_.substr(begin, opening->at - begin);
    read_text(format_.kind_of != nullptr ? format_.kind_of(words) : opening->message, words,
              opening->at + opening->size);
    return true;
  }

  /// Takes a message whose own text begins at `body`, and goes behind its end.
  void read_text(MessageKind kind, std::string_view header, size_t body) {
    const std::optional<Mark> stop = next_mark(
        body, [&](MarkKind mark) { return mark != MarkKind::opening || !format_.needs_header; });
    size_t end = stop ? stop->at : text_.size();
    if (stop && stop->kind == MarkKind::opening) end = bare_header(stop->at, body);
    take(kind, header, text_.substr(body, end - body));
    at_ = end;
    while (at_ < text_.size()) {
      const std::optional<Mark> mark = mark_at(at_);
      if (!mark || mark->kind != MarkKind::end) break;
      at_ += mark->size;
    }
  }

  void take(MessageKind kind, std::string_view header, std::string_view body) {
    switch (kind) {
      case MessageKind::reasoning:
        return add(answer_.reasoning, format_.joint, body);
      case MessageKind::content:
        return add(answer_.content, format_.joint, body);
      case MessageKind::call:
        if (tools_ == nullptr) return add(answer_.content, "\n", arguments_of(body));
        answer_.calls.push_back({"", std::string(word_after(header, kTo).substr(kFunctions.size())),
                                 arguments_of(body)});
        return;
      case MessageKind::calls:
        return take_calls(body);
    }
  }

  void take_calls(std::string_view body) {
    if (tools_ == nullptr) return add(answer_.content, format_.joint, body);
    ToolAnswer read = read_marked_calls(*tools_, body, described_);
    answer_.has_unread_call |= read.has_unread_call || read.calls.empty();
    std::ranges::move(read.calls, std::back_inserter(answer_.calls));
    if (!is_blank(read.content)) add(answer_.content, format_.joint, read.content);
  }

  const MessageFormat& format_;
  const ToolFormat* tools_;
  std::string_view text_;
  const OrderedJson& described_;
  size_t at_ = 0;
  ToolAnswer answer_;
};

}  // namespace

const MessageFormat kHarmonyMessages = {.headers = {"<|start|>", "<|channel|>"},
                                        .openings = {{{.mark = "<|message|>"}}},
                                        .ends = {"<|end|>", "<|return|>", "<|call|>"},
                                        .kind_of = harmony_kind,
                                        .needs_header = true,
                                        .joint = "\n"};
const MessageFormat kMuseMessages = muse_messages(muse_kind);
const MessageFormat kMuseGlimmerMessages = muse_messages(glimmer_kind);
const MessageFormat kInklingMessages = {
    .headers = {"<|message_model|>"},
    .openings = {{{"<|content_text|>", MessageKind::content},
                  {"<|content_thinking|>", MessageKind::reasoning},
                  {"<|content_invoke_tool_json|>", MessageKind::calls},
                  {"<|content_invoke_tool_text|>", MessageKind::content}}},
    .ends = {"<|end_message|>", "<|content_model_end_sampling|>"}};
const MessageFormat kKimiMessages = {
    .openings = {{{"<|open|>response<|sep|>", MessageKind::content},
                  {"<|open|>think<|sep|>", MessageKind::reasoning},
                  {"<|open|>tools<|sep|>", MessageKind::calls}}},
    .ends = {"<|close|>response<|sep|>", "<|close|>think<|sep|>", "<|close|>tools<|sep|>",
             "<|close|>message<|sep|>"}};

ToolAnswer read_messages(const MessageFormat& format, const ToolFormat* tools,
                         std::string_view text, Thinking thinking,
                         const OrderedJson& described_tools) {
  return MessageReader(format, tools, text, described_tools).read(thinking);
}

}  // namespace plimsoll::text
