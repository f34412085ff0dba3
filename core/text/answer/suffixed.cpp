#include "text/answer/suffixed.h"

#include <algorithm>

#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

constexpr size_t kLongestSuffix = 64;

}  // namespace

bool is_suffixed(const AnswerFormats& formats) {
  return (formats.tools != nullptr && formats.tools->suffixed) ||
         (formats.reasoning != nullptr && formats.reasoning->suffixed);
}

std::string tag_suffix(const Tokenizer& tokenizer) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string token = tokenizer.token(id);
    for (const std::string_view tag : {"<tool_calls", "<tool_call", "<think", "<arg_key"}) {
      const size_t size = token.size() - std::min(token.size(), tag.size() + 1);
      if (!token.starts_with(tag) || size == 0 || size > kLongestSuffix || !token.ends_with('>')) {
        continue;
      }
      std::string suffix = token.substr(tag.size(), size);
      if (suffix.starts_with(':') && suffix.find_first_of(" <>") == kNowhere) return suffix;
    }
  }
  return "";
}

SuffixedFormats::SuffixedFormats(const AnswerFormats& formats, std::string_view suffix)
    : formats_(formats) {
  if (formats.tools != nullptr && formats.tools->suffixed) {
    tools_ = *formats.tools;
    for (CallMarkers& markers : tools_.markers) {
      for (std::string_view* tag : {&markers.begin, &markers.end}) add_suffix(*tag, suffix);
    }
    for (std::string_view& tag : tools_.around) add_suffix(tag, suffix);
    CallTags& tags = tools_.tags;
    for (std::string_view* tag :
         {&tags.name_end, &tags.key_open, &tags.key_close, &tags.value_open, &tags.value_close}) {
      add_suffix(*tag, suffix);
    }
    formats_.tools = &tools_;
  }
  if (formats.reasoning != nullptr && formats.reasoning->suffixed) {
    reasoning_ = *formats.reasoning;
    for (std::string_view& tag : reasoning_.starts) add_suffix(tag, suffix);
    for (std::string_view& tag : reasoning_.ends) add_suffix(tag, suffix);
    formats_.reasoning = &reasoning_;
  }
}

void SuffixedFormats::add_suffix(std::string_view& tag, std::string_view suffix) {
  if (tag.empty()) return;
  texts_.push_back(std::string(tag.substr(0, tag.size() - 1)) + std::string(suffix) + ">");
  tag = texts_.back();
}

}  // namespace plimsoll::text
