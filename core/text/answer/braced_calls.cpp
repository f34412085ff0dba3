// Calls of Gemma: call:NAME{key:<|"|>text<|"|>,number:1,list:[...]}.
#include <utility>

#include "base/lower_case.h"
#include "base/trim.h"
#include "text/answer/call_bodies.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

class BracedReader {
 public:
  BracedReader(std::string_view quote, const CallText& from)
      : quote_(quote), reader_(from.text, from.at), from_(from) {}

  CallsEnd read(std::vector<ToolCall>& calls) {
    reader_.skip_space();
    if (!reader_.skip("call:")) return std::nullopt;
    ToolCall call;
    call.name = std::string(trimmed(up_to("{"), kBlanks));
    if (call.name.empty() || !object(call.arguments, 0)) return std::nullopt;
    reader_.skip_space();
    if (!reader_.skip(from_.end)) return std::nullopt;
    calls.push_back(std::move(call));
    return reader_.at();
  }

 private:
  /// Text up to a character, near by; empty where it does not come.
  std::string_view up_to(std::string_view stops) {
    const std::string_view near = from_.text.substr(reader_.at(), kLongestName);
    const size_t end = near.find_first_of(stops);
    if (end == kNowhere || !reader_.skip(near.substr(0, end))) return {};
    return near.substr(0, end);
  }

  /// Writes items between brackets; item() reads one.
  template <typename Item>
  bool items(std::string_view open, std::string_view close, std::string& out, int depth,
             Item item) {
    if (depth == kMostLevels || !reader_.skip(open)) return false;
    out += open;
    for (bool first = true;; first = false) {
      skip_separators();
      if (reader_.skip(close)) break;
      if (!first) out += ", ";
      if (!item()) return false;
    }
    out += close;
    return true;
  }

  bool object(std::string& out, int depth) {
    return items("{", "}", out, depth, [&] {
      std::string key;
      if (!quoted(key)) key = json_quoted(trimmed(up_to(":"), kBlanks));
      reader_.skip_space();
      if (key == "\"\"" || !reader_.skip(":")) return false;
      out += key + ": ";
      return value(out, depth + 1);
    });
  }

  bool array(std::string& out, int depth) {
    return items("[", "]", out, depth, [&] { return value(out, depth + 1); });
  }

  bool value(std::string& out, int depth) {
    reader_.skip_space();
    if (reader_.peek() == '{') return object(out, depth);
    if (reader_.peek() == '[') return array(out, depth);
    return quoted(out) || bare(out);
  }

  bool quoted(std::string& out) {
    if (!reader_.skip(quote_)) return false;
    const size_t end = from_.text.find(quote_, reader_.at());
    if (end == kNowhere) return false;
    const std::string_view text = from_.text.substr(reader_.at(), end - reader_.at());
    out += json_quoted(text);
    return reader_.skip(text) && reader_.skip(quote_);
  }

  /// A value without quotes: a number, a word of JSON, or else a text.
  bool bare(std::string& out) {
    const std::string_view text = trimmed(up_to(",}]"), kBlanks);
    if (text.empty()) return false;
    const std::string word = plimsoll::lower_case(std::string(text));
    JsonReader number(text, 0);
    if (word == "none" || word == "nil") {
      out += "null";
    } else if (const auto json = number.value(); json && number.at_end()) {
      out += *json;
    } else {
      out += json_quoted(text);
    }
    return true;
  }

  void skip_separators() {
    reader_.skip_space();
    while (reader_.skip(",")) reader_.skip_space();
  }

  std::string_view quote_;
  JsonReader reader_;
  const CallText& from_;
};

}  // namespace

CallsEnd read_braced_call(std::string_view quote, const CallText& from,
                          std::vector<ToolCall>& calls) {
  return BracedReader(quote, from).read(calls);
}

}  // namespace plimsoll::text
