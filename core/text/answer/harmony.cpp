#include "text/answer/harmony.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/trim.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kEnds[] = {"<|end|>", "<|return|>", "<|call|>"};

/// The word behind `key` in a header: up to a space or a marker.
std::string_view word_after(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == kNowhere) return {};
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, rest.find_first_of(" \n<"));
}

/// Adds a message's text behind a line end.
void add(std::string& to, std::string_view text) {
  if (text.empty()) return;
  if (!to.empty()) to += '\n';
  to += text;
}

/// Arguments as JSON where they are JSON, else as they stand.
std::string arguments_of(std::string_view text) {
  return json_of(text).value_or(std::string(trimmed(text, kBlanks)));
}

class HarmonyReader {
 public:
  explicit HarmonyReader(std::string_view text) : rest_(text) {}

  ToolAnswer read() {
    while (!rest_.empty() && read_message()) {
    }
    return std::move(answer_);
  }

 private:
  bool read_message() {
    const size_t begin = next_mark(Marks::headers);
    const size_t message = begin == kNowhere ? kNowhere : rest_.find(kMessage, begin);
    if (message == kNowhere) {
      // No message follows: the rest is text, a header that was cut too.
      add(answer_.content, rest_);
      return false;
    }
    if (!is_blank(rest_.substr(0, begin))) add(answer_.content, rest_.substr(0, begin));
    const std::string_view header = rest_.substr(begin, message - begin);
    rest_.remove_prefix(message + kMessage.size());
    const size_t end = next_mark(Marks::all);
    take(header, rest_.substr(0, end));
    rest_.remove_prefix(std::min(end, rest_.size()));
    for (const std::string_view mark : kEnds) {
      if (rest_.starts_with(mark)) rest_.remove_prefix(mark.size());
    }
    return true;
  }

  enum class Marks : uint8_t { headers, all };
  /// The place of the next mark that begins a header, or of one that ends a message's text too;
  /// kNowhere: none.
  [[nodiscard]] size_t next_mark(Marks marks) const {
    for (size_t at = rest_.find("<|"); at != kNowhere; at = rest_.find("<|", at + 1)) {
      const std::string_view mark = rest_.substr(at);
      if (mark.starts_with(kStart) || mark.starts_with(kChannel)) return at;
      if (marks == Marks::all &&
          std::ranges::any_of(kEnds, [&](std::string_view end) { return mark.starts_with(end); })) {
        return at;
      }
    }
    return kNowhere;
  }

  void take(std::string_view header, std::string_view body) {
    const std::string_view recipient = word_after(header, "to=");
    if (recipient.starts_with(kFunctions) && recipient.size() > kFunctions.size()) {
      answer_.calls.push_back(
          {"", std::string(recipient.substr(kFunctions.size())), arguments_of(body)});
    } else if (!recipient.empty() || word_after(header, kChannel) == "analysis") {
      add(answer_.reasoning, body);
    } else {
      add(answer_.content, body);
    }
  }

  std::string_view rest_;
  ToolAnswer answer_;
};

}  // namespace

ToolAnswer read_harmony(std::string_view text) {
  return HarmonyReader(text).read();
}

}  // namespace plimsoll::text
