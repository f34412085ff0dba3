// WordPiece (Schuster and Nakajima 2012), longest match first, and WordLevel, whole words only.
#include "text/text_error.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/model.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

TokenId unknown_id(const Vocabulary& vocabulary, const std::string& unk_token) {
  const auto id = vocabulary.find(unk_token);
  if (!id) {
    refuse_text("the text needs the unknown token '{}', which is not in the tokenizer's vocabulary",
                unk_token);
  }
  return *id;
}

class WordPiece final : public Model {
 public:
  WordPiece(Vocabulary vocabulary, std::string unk_token, const std::string& prefix,
            size_t max_characters)
      : Model(std::move(vocabulary)),
        unk_token_(std::move(unk_token)),
        max_characters_(max_characters) {
    std::vector<std::pair<std::string_view, int32_t>> starts;
    std::vector<std::pair<std::string_view, int32_t>> continuations;
    vocabulary_.for_each([&](std::string_view token, TokenId id) {
      if (token.size() > kMaxTrieKey)
        throw ModelError(fmt::format("vocab: a token of {} bytes", token.size()));
      if (!token.empty()) starts.emplace_back(token, id);
      if (token.size() > prefix.size() && token.starts_with(prefix)) {
        continuations.emplace_back(token.substr(prefix.size()), id);
      }
    });
    starts_ = ByteTrie(std::move(starts));
    continuations_ = ByteTrie(std::move(continuations));
  }

  void tokenize(std::string_view word, std::vector<TokenId>& ids) const override {
    size_t characters = 0;
    for (size_t at = 0; at < word.size(); at += utf8_length(word[at])) ++characters;
    const size_t before = ids.size();
    bool known = characters <= max_characters_;
    for (size_t at = 0; known && at < word.size();) {
      const auto [length, id] =
          (at == 0 ? starts_ : continuations_).longest_prefix(word.substr(at));
      known = length > 0;
      if (known) ids.push_back(id);
      at += length;
    }
    if (known) return;
    ids.resize(before);
    ids.push_back(unknown_id(vocabulary_, unk_token_));
  }

 private:
  std::string unk_token_;
  size_t max_characters_;
  ByteTrie starts_;
  ByteTrie continuations_;  // without their prefix
};

class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, std::string unk_token)
      : Model(std::move(vocabulary)), unk_token_(std::move(unk_token)) {}

  void tokenize(std::string_view word, std::vector<TokenId>& ids) const override {
    const auto id = vocabulary_.find(word);
    ids.push_back(id ? *id : unknown_id(vocabulary_, unk_token_));
  }

 private:
  std::string unk_token_;
};

}  // namespace

std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, std::string unk_token,
                                       std::string continuing_subword_prefix,
                                       size_t max_input_chars_per_word) {
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(unk_token),
                                     continuing_subword_prefix, max_input_chars_per_word);
}

std::unique_ptr<Model> make_word_level(Vocabulary vocabulary, std::string unk_token) {
  return std::make_unique<WordLevel>(std::move(vocabulary), std::move(unk_token));
}

}  // namespace plimsoll::text
