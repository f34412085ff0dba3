// Tokens beside the model's vocabulary: special tokens and added tokens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalizer.h"

namespace plimsoll::text {

struct AddedToken {
  std::string content;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = true;
  bool special = false;
};

/// A stretch of text: an added token, or what lies between two.
struct Section {
  size_t begin;
  size_t end;
  std::optional<TokenId> token;
};

/// True when [begin, end) has bytes in one of the spans.
bool overlaps(std::span<const PlainSpan> spans, size_t begin, size_t end);

class AddedTokens {
 public:
  /// Adds tokens, each under the id that it already has, else after the others; empty ones are
  /// skipped. Throws ModelError beyond kMaxTokens.
  void add(std::vector<AddedToken> tokens, const Model& model, const Normalizer* normalizer);
  /// Adds one token under a given id.
  void add_at(TokenId id, AddedToken token, const Normalizer* normalizer);
  /// Builds the tables of `split`. Call it after the last `add`.
  void finish();

  enum class Stage { raw, normalized };
  /// Cuts `text` at the tokens of that stage. A match that overlaps a plain span is not taken for a
  /// special token.
  void split(std::string_view text, Stage stage, std::span<const PlainSpan> plain,
             std::vector<Section>& sections) const;
  /// Ranges of the contents of special tokens in the text, and of one that the text's end cuts off.
  [[nodiscard]] std::vector<PlainSpan> special_text(std::string_view text) const;

  [[nodiscard]] std::optional<TokenId> find(std::string_view content) const;
  /// The text that decoding uses: normalised where the token is matched in normalised text.
  [[nodiscard]] const std::string* spelling(TokenId id) const;
  [[nodiscard]] const AddedToken* token(TokenId id) const;
  /// True when decoding without special tokens leaves this text out.
  [[nodiscard]] bool is_special_text(std::string_view spelling) const {
    return special_.contains(std::string(spelling));
  }
  [[nodiscard]] TokenId end_id() const { return end_id_; }
  [[nodiscard]] size_t size() const { return by_content_.size(); }

 private:
  struct Entry {
    AddedToken token;
    std::string spelling;
  };
  std::unordered_map<std::string, TokenId> by_content_;
  std::unordered_map<TokenId, Entry> by_id_;
  std::unordered_set<std::string> special_;
  ByteTrie raw_;
  ByteTrie normalized_;
  ByteTrie special_contents_;
  TokenId end_id_ = 0;
};

}  // namespace plimsoll::text
