#include "text/content_marks.h"

#include "text/text_error.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

// Set aside for a program's own use.
constexpr char32_t kFirstNoncharacter = 0xFDD0;
constexpr char32_t kLastNoncharacter = 0xFDEF;

}  // namespace

ContentMarks::ContentMarks(const OrderedJson& messages) {
  const std::string used = messages.dump();
  for (char32_t code = kFirstNoncharacter; code <= kLastNoncharacter; ++code) {
    std::string mark;
    append_character(mark, code);
    if (used.find(mark) != std::string::npos) continue;
    (open_.empty() ? open_ : close_) = std::move(mark);
    if (!close_.empty()) return;
  }
  refuse_text("the conversation holds all of Unicode's noncharacters, U+FDD0 to U+FDEF");
}

size_t ContentMarks::mark(const Tokenizer& tokenizer, OrderedJson& messages) const {
  size_t marked = 0;
  for (OrderedJson& message : messages) {
    if (!message.is_object() || !message.contains("content")) continue;
    const auto role = message.find("role");
    if (role == message.end() || (*role != "user" && *role != "tool")) continue;
    OrderedJson& content = message["content"];
    if (!content.is_array()) {
      marked += mark_text(tokenizer, content);
      continue;
    }
    for (OrderedJson& part : content)
      marked +=
          mark_text(tokenizer, part.is_object() && part.contains("text") ? part["text"] : part);
  }
  return marked;
}

size_t ContentMarks::mark_text(const Tokenizer& tokenizer, OrderedJson& text) const {
  if (!text.is_string()) return 0;
  const std::string plain = text.get<std::string>();
  const std::vector<PlainSpan> specials = tokenizer.special_text(plain);
  std::string marked;
  size_t done = 0;
  for (const auto& [begin, end] : specials) {
    marked.append(plain, done, begin - done);
    marked += open_;
    marked.append(plain, begin, end - begin);
    marked += close_;
    done = end;
  }
  text = marked.append(plain, done);
  return specials.size();
}

MarkedText ContentMarks::take_out(std::string_view rendered) const {
  MarkedText out;
  std::optional<size_t> begin;  // of the marked text that is open; a template may have cut its end
  for (size_t at = 0; at < rendered.size();) {
    const std::string_view rest = rendered.substr(at);
    if (rest.starts_with(open_)) {
      begin = out.text.size();
      at += open_.size();
    } else if (rest.starts_with(close_)) {
      if (begin && *begin < out.text.size()) out.plain.push_back({*begin, out.text.size()});
      begin.reset();
      at += close_.size();
    } else {
      out.text += rendered[at++];
    }
  }
  return out;
}

}  // namespace plimsoll::text
