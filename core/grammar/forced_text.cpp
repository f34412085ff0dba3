#include "grammar/forced_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "grammar/matcher.h"
#include "grammar/xgrammar_parts.h"
#include "text/unicode/unicode.h"

namespace plimsoll::grammar {
namespace {

/// Work that a byte of text is worth which was foreseen and came, in tries of a byte with a small
/// grammar, and bytes of a grammar that make a try as much dearer: with a long list of constants it
/// takes a hundred times as long. Looking ahead ends where it was in vain.
constexpr int64_t kWorkOfByte = 400, kBytesOfWork = 1024;

constexpr int kDeepest = 16;         // deeper brackets have the habit of this depth
constexpr size_t kLongestRun = 128;  // bytes of whitespace that are remembered of a place

bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/// Printable ASCII and whitespace. Where many may follow, two of them come early.
constexpr std::string_view kUsual =
    "ae01\"{}[],:-.#/ \n\t\rbcdfghijklmnopqrstuvwxyz23456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "!$%&'()*+;<=>?@\\^_`|~";

/// The bytes that may come next.
struct NextBytes {
  int spaces = 0;  // how many kinds of whitespace
  char space = 0;  // one of them
  int others = 0;  // how many other bytes; 2: or more
  int tries = 0;
  char other = 0;  // one of them
};

/// Bytes of characters outside ASCII are tried where no other may come: there are many, and where
/// both may come the ASCII is a good guess.
NextBytes next_bytes(xgrammar::GrammarMatcher& matcher) {
  NextBytes next;
  std::string text(1, ' ');
  const auto note = [&](char byte) {
    text.front() = byte;
    ++next.tries;
    if (!matcher.AcceptString(text)) return;
    matcher.Rollback(1);
    (is_space(byte) ? next.space : next.other) = byte;
    ++(is_space(byte) ? next.spaces : next.others);
  };
  for (size_t i = 0; i < kUsual.size() && next.others < 2; ++i) note(kUsual[i]);
  if (next.others > 0 || next.spaces > 0) return next;
  for (int byte = 0x80; byte < 0x100 && next.others < 2; ++byte) note(static_cast<char>(byte));
  return next;
}

/// Drops a character at the end that is not whole.
void cut_to_characters(std::string& text) {
  size_t lead = text.size();
  while (lead > 0 && (static_cast<uint8_t>(text[lead - 1]) & 0xc0) == 0x80) --lead;
  if (lead > 0 && lead - 1 + text::utf8_length(text[lead - 1]) > text.size()) text.resize(lead - 1);
}

}  // namespace

void WhitespaceHabit::read(std::string_view bytes) {
  for (const char byte : bytes) read(byte);
}

void WhitespaceHabit::read(char byte) {
  if (in_string_) {
    in_string_ = escaped_ || byte != '"';
    escaped_ = !escaped_ && byte == '\\';
    return;
  }
  if (is_space(byte)) {
    if (run_.size() < kLongestRun) run_ += byte;
    return;
  }
  if (const Place place = place_before(byte); place.mark != 0) seen_[place] = run_;
  run_.clear();
  in_string_ = byte == '"';
  if (byte == '{' || byte == '[') depth_ = std::min(depth_ + 1, kDeepest);
  if (byte == '}' || byte == ']') depth_ = std::max(depth_ - 1, 0);
  last_ = byte;
}

WhitespaceHabit::Place WhitespaceHabit::place_before(char next) const {
  const auto is_one_of = [](char byte, std::string_view marks) {
    return byte != 0 && marks.find(byte) != std::string_view::npos;
  };
  if (is_one_of(last_, "{[,:")) return {last_, true, depth_};
  if (is_one_of(next, "}],:")) return {next, false, depth_};
  return {};
}

std::string WhitespaceHabit::before(char next) const {
  const Place place = place_before(next);
  std::string likely = place.behind && (last_ == ',' || last_ == ':') ? " " : "";
  if (const auto found = seen_.find(place); found != seen_.end()) {
    likely = found->second;
  } else {
    likely = like_others(place).value_or(likely);
  }
  return likely.starts_with(run_) ? likely.substr(run_.size()) : std::string();
}

std::optional<std::string> WhitespaceHabit::like_others(const Place& place) const {
  if (!place.behind) return std::nullopt;
  // Where the first entry stood on a line of its own, so does the second.
  for (const char bracket : {'{', '['}) {
    const auto first = seen_.find({bracket, true, place.depth});
    if (place.mark == ',' && first != seen_.end() && !first->second.empty()) return first->second;
  }
  for (int depth = place.depth - 1; depth > 0; --depth) {
    const auto outer = seen_.find({place.mark, true, depth});
    if (outer == seen_.end()) continue;
    std::string likely = outer->second;
    const size_t line = likely.rfind('\n');
    if (line == std::string::npos) return likely;
    const size_t step = (likely.size() - line - 1) / static_cast<size_t>(depth);
    return likely.append(step * static_cast<size_t>(place.depth - depth), likely.back());
  }
  return std::nullopt;
}

void Matcher::learn(std::string_view bytes) {
  if (!bytes.empty() && foreseen_.starts_with(bytes)) {
    foreseen_.erase(0, bytes.size());
    work_left_ += static_cast<int64_t>(bytes.size()) * kWorkOfByte;
  } else {
    foreseen_.clear();
  }
}

std::string Matcher::forced_text(size_t most) {
  std::string forced;
  if (!grammar_->parts_->goes_back) return forced;
  const int64_t work_of_try = 1 + grammar_->parts_->text_bytes / kBytesOfWork;
  xgrammar::GrammarMatcher& matcher = state_->matcher;
  std::optional<WhitespaceHabit> habit;
  int steps = 0;
  const auto take = [&](const std::string& text) {
    if (!matcher.AcceptString(text)) return false;
    ++steps;
    forced += text;
    habit->read(text);
    return true;
  };
  while (forced.size() < most && work_left_ > 0 && !ended() && !matcher.IsCompleted()) {
    const NextBytes next = next_bytes(matcher);
    work_left_ -= next.tries * work_of_try;
    if (next.others > 1 || (next.others == 0 && next.spaces != 1)) break;
    if (!habit) habit = habit_;
    const char byte = next.others == 1 ? next.other : next.space;
    const std::string space = next.others == 1 && next.spaces > 0 ? habit->before(byte) : "";
    if (!take(space + byte) && !take({byte})) break;
  }
  if (steps > 0) matcher.Rollback(steps);
  cut_to_characters(forced);
  foreseen_ = forced;
  return forced;
}

}  // namespace plimsoll::grammar
