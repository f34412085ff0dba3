#include "text/answer/tool_calls.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/replace.h"
#include "base/trim.h"
#include "text/answer/call_bodies.h"
#include "text/answer/messages.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

// Places where calls begin and cannot be read, in one answer. Each may cost a look at all the rest;
// behind so many the rest is text.
constexpr int kMostUnread = 64;

/// Finds the places where calls may begin, from left to right.
class Openings {
 public:
  struct Opening {
    size_t begin = 0;  // of the marker
    CallText body;     // behind it
  };

  Openings(const ToolFormat& format, std::string_view text) : format_(format), text_(text) {}

  /// The first opening at `from` or behind it.
  std::optional<Opening> next(size_t from) {
    std::optional<Opening> first = bare(from);
    for (size_t i = 0; i < format_.markers.size(); ++i) {
      const CallMarkers& markers = format_.markers[i];
      if (markers.begin.empty()) continue;
      size_t& known = known_[i];
      if (known != kNowhere && (known < from || !looked_)) {
        known = text_.find(markers.begin, from);
      }
      if (known == kNowhere || (first && first->begin <= known)) continue;
      first = Opening{known, {text_, known + bytes_before_body(markers), markers.end}};
    }
    looked_ = true;
    return first;
  }

 private:
  /// Bytes of an opening marker that are no part of the calls: a function's own tag is read with
  /// its call.
  [[nodiscard]] size_t bytes_before_body(const CallMarkers& markers) const {
    const std::string_view own = format_.tags.call_open;
    if (!own.empty() && markers.begin.starts_with(own)) return 0;
    return markers.begin.size() - (markers.begin.ends_with('[') ? 1 : 0);
  }
  [[nodiscard]] std::optional<Opening> bare(size_t from) const {
    const bool python = format_.body == CallBody::python;
    size_t at = kNowhere;
    if (format_.bare == BareCalls::anywhere) {
      at = text_.find('{', from);
    } else if (format_.bare == BareCalls::at_start && from == 0) {
      at = text_.find_first_not_of(kBlanks);
      if (at != kNowhere && text_[at] != '[') at = kNowhere;
    }
    if (at == kNowhere) return std::nullopt;
    const bool whole = format_.bare == BareCalls::at_start;
    return Opening{at, {text_, at, python ? format_.markers.front().end : "", whole}};
  }

  const ToolFormat& format_;
  std::string_view text_;
  std::array<size_t, std::tuple_size_v<decltype(ToolFormat::markers)>> known_{};
  bool looked_ = false;
};

CallsEnd read_body(const ToolFormat& format, const CallText& from, const OrderedJson& tools,
                   std::vector<ToolCall>& calls) {
  switch (format.body) {
    case CallBody::json:
      return read_json_calls(format, from, calls);
    case CallBody::named:
      return read_named_call(format, from, calls);
    case CallBody::tagged:
      return read_tagged_calls(format.tags, from, tools, calls);
    case CallBody::nested:
      return read_nested_calls(format.element, from, tools, calls);
    case CallBody::python:
      return read_python_calls(from, calls);
    case CallBody::braced:
      return read_braced_call(format.quote, from, calls);
  }
  return std::nullopt;
}

/// Reads calls between markers, in JSON where the format allows it and they begin so.
CallsEnd read_calls(const ToolFormat& format, const CallText& from, const OrderedJson& tools,
                    std::vector<ToolCall>& calls) {
  const size_t first = behind_blanks(from.text, from.at);
  const bool json = format.or_json && first < from.text.size() && from.text[first] == '{';
  return json ? read_json_calls(format, from, calls) : read_body(format, from, tools, calls);
}

bool reads_all_or_none(const ToolFormat& format) {
  return !format.loose && (format.body == CallBody::json || format.body == CallBody::python);
}

/// Text around calls, without the markers of lists of calls and without blanks between calls.
class Content {
 public:
  explicit Content(const ToolFormat& format) : format_(format) {}

  void add(std::string_view text) {
    std::string kept(text);
    for (const std::string_view marker : format_.around) replace_all(kept, marker, "");
    // Llama 3 writes ";" between calls.
    const bool between = format_.bare == BareCalls::anywhere && !first_;
    const bool nothing = is_blank(kept) || (between && trimmed(kept, kBlanks) == ";");
    first_ = false;
    if (!nothing) text_ += kept;
  }
  std::string take() { return std::move(text_); }

 private:
  const ToolFormat& format_;
  std::string text_;
  bool first_ = true;
};

}  // namespace

ToolAnswer read_marked_calls(const ToolFormat& format, std::string_view text,
                             const OrderedJson& tools) {
  ToolAnswer answer;
  Openings openings(format, text);
  Content content(format);
  size_t kept = 0;  // up to here the text is in the content or in calls
  size_t from = 0;
  int unread = 0;
  bool marked_unread = false;
  while (unread < kMostUnread) {
    const auto opening = openings.next(from);
    if (!opening) break;
    std::vector<ToolCall> calls;
    const CallsEnd end = read_calls(format, opening->body, tools, calls);
    if (end && !calls.empty()) {
      content.add(text.substr(kept, opening->begin - kept));
      std::ranges::move(calls, std::back_inserter(answer.calls));
      kept = from = *end;
      continue;
    }
    ++unread;
    marked_unread |= !opening->body.whole;
    from = std::max(opening->body.at, opening->begin + 1);
  }
  // A bracket at the start without a marker is no sign of a call.
  answer.has_unread_call = !format.loose && marked_unread;
  if (unread > 0 && reads_all_or_none(format)) answer.calls.clear();
  if (answer.calls.empty()) {
    answer.content = std::string(text);
    return answer;
  }
  content.add(text.substr(kept));
  answer.content = content.take();
  return answer;
}

ToolAnswer read_tool_calls(const ToolFormat& format, std::string_view text,
                           const OrderedJson& tools) {
  if (format.messages == nullptr) return read_marked_calls(format, text, tools);
  return read_messages(*format.messages, &format, text, Thinking::unsaid, tools);
}

}  // namespace plimsoll::text
