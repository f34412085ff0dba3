// The keys that an answer in JSON has written, so that no object gets one twice: a grammar cannot
// say that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace plimsoll::grammar {

/// The place behind the bytes of a JSON text that were read.
class JsonPlace {
 public:
  /// Takes the next byte. True when it ends a key.
  bool read(char byte);
  [[nodiscard]] bool in_string() const { return in_string_; }
  [[nodiscard]] bool in_key() const { return in_key_; }
  /// True behind a backslash in a string.
  [[nodiscard]] bool escaped() const { return escaped_; }
  /// The key that is being written, or was last, as it is spelled.
  [[nodiscard]] const std::string& key() const { return key_; }
  /// Objects and arrays that are open.
  [[nodiscard]] size_t depth() const { return brackets_.size(); }

 private:
  std::string brackets_;  // those open
  std::string key_;
  bool key_next_ = false;  // the next string is a key
  bool in_string_ = false;
  bool in_key_ = false;
  bool escaped_ = false;
};

/// The tokens of a vocabulary that can end a key: those with a quote.
struct KeyTokens {
  /// `forms`: the bytes of each token.
  explicit KeyTokens(std::span<const std::string> forms);

  std::span<const std::string> forms;  // must outlive this
  /// By the bytes before the first quote, where none of them is a backslash.
  std::unordered_map<std::string, std::vector<text::TokenId>> by_start;
  std::vector<text::TokenId> two_quotes;    // or more: a whole key, outside a string
  std::vector<text::TokenId> three_quotes;  // or more, or a backslash before the first
};

/// The keys of the objects of an answer that are open.
class ObjectKeys {
 public:
  explicit ObjectKeys(std::shared_ptr<const KeyTokens> tokens) : tokens_(std::move(tokens)) {}

  /// Takes the next bytes of the answer.
  void read(std::string_view bytes);
  /// Clears the bits (Matcher::fill_mask) of tokens that would end a key which its object has,
  /// spelled alike. All stay where no other token may come.
  void forbid_repeats(std::span<int32_t> words) const;

 private:
  /// True where the bytes, read next, would end a key that its object has.
  [[nodiscard]] bool repeats(std::string_view bytes) const;
  [[nodiscard]] std::vector<text::TokenId> repeating() const;

  std::shared_ptr<const KeyTokens> tokens_;
  JsonPlace place_;
  std::vector<std::set<std::string>> keys_;  // of each open bracket, an array's are none
};

}  // namespace plimsoll::grammar
