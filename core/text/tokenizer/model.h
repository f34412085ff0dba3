// The models of tokenizer.json: each turns one pre-tokenised word into token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace plimsoll::text {

/// Longest token that is looked up by walking a trie: bounds the work per character of hostile
/// files.
inline constexpr size_t kMaxTrieKey = 256;

class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;

  /// Appends the ids of a non-empty word. Throws TextError for a text that the
  /// vocabulary cannot spell.
  virtual void tokenize(std::string_view word, std::vector<TokenId>& ids) const = 0;
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

/// An error in a model's parameters; `where` names the entry ("merges[17]").
class ModelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct BpeOptions {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

/// Merges in the order of their rank: each a text and the place where it is cut in two.
class MergeList {
 public:
  void add(std::string_view left, std::string_view right);
  [[nodiscard]] size_t size() const { return ends_.size(); }
  [[nodiscard]] std::pair<std::string_view, std::string_view> at(size_t rank) const;
  void clear() { *this = {}; }

 private:
  struct End {
    uint64_t left;
    uint64_t right;
  };
  std::string bytes_;
  std::vector<End> ends_;
};

/// Makes a BPE model. Throws ModelError for merges that name unknown tokens.
std::unique_ptr<Model> make_bpe(Vocabulary vocabulary, const MergeList& merges, BpeOptions options);
std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, std::string unk_token,
                                       std::string continuing_subword_prefix,
                                       size_t max_input_chars_per_word);
std::unique_ptr<Model> make_word_level(Vocabulary vocabulary, std::string unk_token);
/// Makes a Unigram model; `scores[id]` are log probabilities. Throws ModelError.
std::unique_ptr<Model> make_unigram(std::vector<std::pair<std::string, double>> pieces,
                                    std::optional<size_t> unk_id, bool byte_fallback);

/// The ids of "<0x00>" ... "<0xFF>", -1 where there is none.
std::vector<TokenId> byte_tokens(const Vocabulary& vocabulary);

}  // namespace plimsoll::text
