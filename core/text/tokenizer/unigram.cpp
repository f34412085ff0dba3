// Unigram language model (Kudo 2018): the best split of a word by dynamic programming over the
// pieces that start at each character.
#include <algorithm>
#include <limits>

#include "text/text_error.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/model.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least likely piece

class Unigram final : public Model {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<size_t> unk_id,
          bool byte_fallback);
  void tokenize(std::string_view word, std::vector<TokenId>& ids) const override;

 private:
  struct Best {
    double score = 0;
    size_t start = kUnreached;
    TokenId id = 0;
  };
  static constexpr size_t kUnreached = std::numeric_limits<size_t>::max();

  void search(std::string_view word, std::vector<Best>& best) const;
  void append(std::string_view piece, std::vector<TokenId>& ids) const;
  [[nodiscard]] TokenId unknown() const;

  std::vector<double> scores_;
  std::optional<size_t> unk_id_;
  std::vector<TokenId> bytes_;  // empty without byte fallback
  double unknown_score_ = 0;
  ByteTrie trie_;
};

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<size_t> unk_id,
                 bool byte_fallback)
    : Model(std::move(vocabulary)), scores_(std::move(scores)), unk_id_(unk_id) {
  double least = std::numeric_limits<double>::infinity();
  for (const double score : scores_) least = std::min(least, score);
  unknown_score_ = least - kUnknownPenalty;
  if (byte_fallback) bytes_ = byte_tokens(vocabulary_);
  std::vector<std::pair<std::string_view, int32_t>> entries;
  vocabulary_.for_each([&](std::string_view token, TokenId id) {
    if (!token.empty()) entries.emplace_back(token, id);
  });
  trie_ = ByteTrie(std::move(entries));
}

TokenId Unigram::unknown() const {
  if (!unk_id_) {
    refuse_text("the text needs an unknown token, and the tokenizer's Unigram model has no unk_id");
  }
  return static_cast<TokenId>(*unk_id_);
}

// best[i]: the best way to spell the first i bytes. A later way must be better, not equal, to
// replace an earlier one.
void Unigram::search(std::string_view word, std::vector<Best>& best) const {
  best.assign(word.size() + 1, {});
  const auto is_better = [&](size_t end, double score) {
    return best[end].start == kUnreached || score > best[end].score;
  };
  for (size_t start = 0; start < word.size();) {
    const double so_far = best[start].score;
    const size_t character = std::min(utf8_length(word[start]), word.size() - start);
    bool single = false;
    trie_.for_each_prefix(word.substr(start), [&](size_t length, int32_t id) {
      const double score = scores_[static_cast<size_t>(id)] + so_far;
      if (is_better(start + length, score)) best[start + length] = {score, start, id};
      single = single || length == character;
    });
    if (!single && is_better(start + character, unknown_score_ + so_far))
      best[start + character] = {unknown_score_ + so_far, start, unknown()};
    start += character;
  }
}

void Unigram::append(std::string_view piece, std::vector<TokenId>& ids) const {
  if (const auto id = vocabulary_.find(piece)) {
    ids.push_back(*id);
    return;
  }
  const auto byte_id = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
  if (!bytes_.empty() && std::ranges::all_of(piece, [&](char c) { return byte_id(c) >= 0; })) {
    for (const char c : piece) ids.push_back(byte_id(c));
    return;
  }
  ids.push_back(unknown());
}

void Unigram::tokenize(std::string_view word, std::vector<TokenId>& ids) const {
  thread_local std::vector<Best> best;
  thread_local std::vector<std::string_view> pieces;
  search(word, best);
  // Backwards; neighbouring unknown characters become one piece.
  pieces.clear();
  bool fusing = false;
  for (size_t end = word.size(); end > 0; end = best[end].start) {
    const Best& node = best[end];
    const bool unknown_piece = unk_id_ && static_cast<size_t>(node.id) == *unk_id_;
    const std::string_view piece = word.substr(node.start, end - node.start);
    if (unknown_piece && fusing) {
      pieces.back() = {piece.data(), piece.size() + pieces.back().size()};
    } else {
      pieces.push_back(piece);
    }
    fusing = unknown_piece;
  }
  for (size_t i = pieces.size(); i-- > 0;) append(pieces[i], ids);
  if (best.capacity() > (size_t{1} << 16)) best = {};
  if (pieces.capacity() > (size_t{1} << 16)) pieces = {};
}

}  // namespace

std::unique_ptr<Model> make_unigram(std::vector<std::pair<std::string, double>> pieces,
                                    std::optional<size_t> unk_id, bool byte_fallback) {
  if (unk_id && *unk_id >= pieces.size()) {
    throw ModelError(
        fmt::format("unk_id {} is not below the vocabulary's {} pieces", *unk_id, pieces.size()));
  }
  if (pieces.size() > static_cast<size_t>(kMaxTokens)) {
    throw ModelError(fmt::format("vocab has {} pieces, more than {}", pieces.size(), kMaxTokens));
  }
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [text, score] = pieces[i];
    if (text.size() > kMaxTrieKey)
      throw ModelError(fmt::format("vocab[{}]: a piece of {} bytes", i, text.size()));
    vocabulary.add(text, static_cast<TokenId>(i), Vocabulary::OldId::kept);
    scores.push_back(score);
  }
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unk_id, byte_fallback);
}

}  // namespace plimsoll::text
