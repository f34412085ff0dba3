#include "grammar/object_keys.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace plimsoll::grammar {

bool JsonPlace::read(char byte) {
  if (in_string_) {
    if (byte == '"' && !escaped_) {
      in_string_ = false;
      return std::exchange(in_key_, false);
    }
    escaped_ = byte == '\\' && !escaped_;
    if (in_key_) key_ += byte;
    return false;
  }
  if (byte == '"') {
    in_string_ = true;
    in_key_ = std::exchange(key_next_, false);
    if (in_key_) key_.clear();
  } else if (byte == '{' || byte == '[') {
    brackets_ += byte;
    key_next_ = byte == '{';
  } else if (byte == '}' || byte == ']') {
    if (!brackets_.empty()) brackets_.pop_back();
    key_next_ = false;
  } else if (byte == ',') {
    key_next_ = brackets_.ends_with('{');
  }
  return false;
}

KeyTokens::KeyTokens(std::span<const std::string> forms_of_tokens) : forms(forms_of_tokens) {
  for (size_t i = 0; i < forms.size(); ++i) {
    const std::string& bytes = forms[i];
    const size_t quote = bytes.find('"');
    if (quote == std::string::npos) continue;
    const auto token = static_cast<text::TokenId>(i);
    const bool escapes = bytes.find('\\') < quote;
    if (!escapes) by_start[bytes.substr(0, quote)].push_back(token);
    const auto quotes = std::ranges::count(bytes, '"');
    if (quotes >= 2) two_quotes.push_back(token);
    if (quotes >= 3 || escapes) three_quotes.push_back(token);
  }
}

void ObjectKeys::read(std::string_view bytes) {
  for (const char byte : bytes) {
    if (place_.read(byte) && !keys_.empty()) keys_.back().insert(place_.key());
    keys_.resize(place_.depth());
  }
}

bool ObjectKeys::repeats(std::string_view bytes) const {
  JsonPlace place = place_;
  size_t own = place.depth();  // brackets that are open already
  for (const char byte : bytes) {
    const bool ended = place.read(byte);
    own = std::min(own, place.depth());
    const size_t depth = place.depth();
    if (ended && depth == own && depth > 0 && keys_[depth - 1].contains(place.key())) return true;
  }
  return false;
}

std::vector<text::TokenId> ObjectKeys::repeating() const {
  std::vector<text::TokenId> found;
  if (std::ranges::all_of(keys_, &std::set<std::string>::empty)) return found;
  if (place_.in_key() && !place_.escaped()) {
    const std::string& begun = place_.key();
    const std::set<std::string>& keys = keys_.back();
    for (auto key = keys.lower_bound(begun); key != keys.end() && key->starts_with(begun); ++key) {
      const auto tokens = tokens_->by_start.find(key->substr(begun.size()));
      if (tokens == tokens_->by_start.end()) continue;
      found.insert(found.end(), tokens->second.begin(), tokens->second.end());
    }
  }
  const std::vector<text::TokenId>& whole =
      place_.in_string() ? tokens_->three_quotes : tokens_->two_quotes;
  std::ranges::copy_if(whole, std::back_inserter(found), [&](text::TokenId token) {
    return repeats(tokens_->forms[static_cast<size_t>(token)]);
  });
  return found;
}

void ObjectKeys::forbid_repeats(std::span<int32_t> words) const {
  constexpr uint32_t kBits = 32;
  std::vector<text::TokenId> cleared;
  const auto flip = [&](text::TokenId token) {
    const auto at = static_cast<uint32_t>(token);
    words[at / kBits] ^= static_cast<int32_t>(uint32_t{1} << at % kBits);
  };
  for (const text::TokenId token : repeating()) {
    const auto at = static_cast<uint32_t>(token);
    if ((static_cast<uint32_t>(words[at / kBits]) >> at % kBits & 1) == 0) continue;
    flip(token);
    cleared.push_back(token);
  }
  if (cleared.empty()) return;
  const bool none_left = std::ranges::all_of(words, [](int32_t word) { return word == 0; });
  if (none_left) std::ranges::for_each(cleared, flip);
}

}  // namespace plimsoll::grammar
