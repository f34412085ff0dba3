#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "text/budget.h"

namespace plimsoll::text {

void AddedTokens::add(std::vector<AddedToken> tokens, const Model& model,
                      const Normalizer* normalizer) {
  // New tokens get ids behind the model's tokens by their number, not by their largest id, as in
  // the reference.
  TokenId next = std::max(static_cast<TokenId>(model.vocabulary().size()), end_id_);
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    std::optional<TokenId> id = find(token.content);
    if (!id) id = model.vocabulary().find(token.content);
    add_at(id ? *id : next++, std::move(token), normalizer);
  }
}

void AddedTokens::add_at(TokenId id, AddedToken token, const Normalizer* normalizer) {
  if (id < 0 || id >= kMaxTokens) {
    throw ModelError(
        fmt::format("token '{}': id {} is not below {}", token.content, id, kMaxTokens));
  }
  if (token.content.size() > kMaxTrieKey) {
    throw ModelError(fmt::format("token {}: its text has {} bytes, more than {}", id,
                                 token.content.size(), kMaxTrieKey));
  }
  Entry entry{token, token.content};
  // The spelling that a normalizer gave an id stays with it, as in the reference.
  const auto before = by_id_.find(id);
  if (before != by_id_.end() && before->second.spelling != before->second.token.content)
    entry.spelling = before->second.spelling;
  if (token.normalized && normalizer) {
    const TextBudget budget(token.content.size());
    NormalizedText text{token.content, true, utf8_length(token.content[0])};
    normalizer->apply(text);
    if (text.text != token.content) entry.spelling = std::move(text.text);
  }
  by_content_[token.content] = id;
  if (token.special) special_.insert(token.content);
  by_id_[id] = std::move(entry);
  end_id_ = std::max(end_id_, id + 1);
}

void AddedTokens::finish() {
  std::vector<std::pair<std::string_view, int32_t>> raw;
  std::vector<std::pair<std::string_view, int32_t>> normalized;
  for (const auto& [id, entry] : by_id_) {
    if (!entry.token.normalized)
      raw.emplace_back(entry.token.content, id);
    else if (!entry.spelling.empty())
      normalized.emplace_back(entry.spelling, id);
  }
  // Tokens with equal text are inserted by descending id, so that the smallest id counts.
  std::ranges::sort(raw, std::greater<>{}, &std::pair<std::string_view, int32_t>::second);
  std::ranges::sort(normalized, std::greater<>{}, &std::pair<std::string_view, int32_t>::second);
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
  std::vector<std::pair<std::string_view, int32_t>> contents;
  for (const std::string& content : special_) contents.emplace_back(content, 0);
  special_contents_ = ByteTrie(std::move(contents));
}

bool overlaps(std::span<const PlainSpan> spans, size_t begin, size_t end) {
  const auto reaches =
      std::ranges::partition_point(spans, [&](const PlainSpan& span) { return span.end <= begin; });
  return reaches != spans.end() && reaches->begin < end;
}

std::vector<PlainSpan> AddedTokens::special_text(std::string_view text) const {
  std::vector<PlainSpan> found;
  for (size_t at = 0; at < text.size();) {
    const size_t length = special_contents_.longest_prefix(text.substr(at)).first;
    if (length > 0 || special_contents_.holds_start(text.substr(at))) {
      found.push_back({at, length > 0 ? at + length : text.size()});
      at = found.back().end;
    } else {
      ++at;
    }
  }
  return found;
}

namespace {

bool ends_with_word(std::string_view text) {
  size_t at = previous_character(text, text.size());
  return is_word(next_character(text, at));
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return is_word(next_character(text, at));
}

size_t spaces_at_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t start = previous_character(text, end);
    size_t at = start;
    if (!is_white_space(next_character(text, at))) break;
    end = start;
  }
  return end;
}

size_t spaces_at_start(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t next = at;
    if (!is_white_space(next_character(text, next))) break;
    at = next;
  }
  return at;
}

}  // namespace

void AddedTokens::split(std::string_view text, Stage stage, std::span<const PlainSpan> plain,
                        std::vector<Section>& sections) const {
  const ByteTrie& trie = stage == Stage::raw ? raw_ : normalized_;
  size_t done = 0;   // everything before is in a section
  size_t blank = 0;  // the end of the white space behind the last token that strips it
  for (size_t at = 0; at < text.size();) {
    if (trie.step(ByteTrie::kRoot, text[at]) == ByteTrie::kNowhere) {
      ++at;
      continue;
    }
    const auto [length, id] = trie.longest_prefix(text.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + length;
    at = end;
    const AddedToken& token = by_id_.at(id).token;
    if (is_special_text(token.content) && overlaps(plain, begin, end)) continue;
    if (token.single_word && ((begin > 0 && ends_with_word(text.substr(0, begin))) ||
                              (end < text.size() && starts_with_word(text.substr(end))))) {
      continue;
    }
    if (token.lstrip)
      begin = done < begin ? done + spaces_at_end(text.substr(done, begin - done)) : done;
    if (token.rstrip) end = blank = end < blank ? blank : end + spaces_at_start(text.substr(end));
    // A token within the white space that the one before took along is gone.
    if (begin >= end) continue;
    if (done < begin) sections.push_back({done, begin, std::nullopt});
    sections.push_back({begin, end, id});
    done = end;
  }
  if (done < text.size()) sections.push_back({done, text.size(), std::nullopt});
}

std::optional<TokenId> AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

const std::string* AddedTokens::spelling(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second.spelling;
}

const AddedToken* AddedTokens::token(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second.token;
}

}  // namespace plimsoll::text
