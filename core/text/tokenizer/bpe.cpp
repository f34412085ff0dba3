// Byte pair encoding (Sennrich et al. 2016) with the options of Hugging Face's BPE model.
#include <algorithm>
#include <array>
#include <atomic>
#include <queue>

#include "text/text_error.h"
#include "text/tokenizer/merge_table.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/word_cache.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {

void MergeList::add(std::string_view left, std::string_view right) {
  bytes_ += left;
  const uint64_t cut = bytes_.size();
  bytes_ += right;
  ends_.push_back({cut, bytes_.size()});
}

std::pair<std::string_view, std::string_view> MergeList::at(size_t rank) const {
  const uint64_t begin = rank == 0 ? 0 : ends_[rank - 1].right;
  const std::string_view all = bytes_;
  return {all.substr(begin, ends_[rank].left - begin),
          all.substr(ends_[rank].left, ends_[rank].right - ends_[rank].left)};
}

std::vector<TokenId> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ids;
  for (int byte = 0; byte < 256; ++byte)
    ids.push_back(vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  return ids;
}

namespace {

struct Symbol {
  TokenId id;
  int32_t previous;
  int32_t next;  // -1 at the end
};

struct Candidate {
  uint32_t rank;
  int32_t at;
  TokenId merged;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

class Bpe final : public Model {
 public:
  Bpe(Vocabulary vocabulary, const MergeList& merges, BpeOptions options);
  void tokenize(std::string_view word, std::vector<TokenId>& ids) const override;

 private:
  // Up to here the cheapest pair is found by looking at all of them; beyond, a heap keeps the work
  // at n log n.
  static constexpr size_t kScanLimit = 48;

  void add_merges(const MergeList& merges);
  void tokenize_part(std::string_view word, std::vector<TokenId>& ids) const;
  void spell(std::string_view word, std::vector<TokenId>& symbols) const;
  [[nodiscard]] TokenId character_token(std::string_view character, bool first, bool last) const;
  bool spell_bytes(std::string_view character, std::vector<TokenId>& symbols) const;
  void merge_by_scan(std::vector<TokenId>& symbols) const;
  void merge_by_heap(std::vector<TokenId>& symbols) const;

  BpeOptions options_;
  MergeTable merges_;
  std::vector<TokenId> bytes_;        // "<0xNN>", all or none are used for a character
  std::array<TokenId, 512> small_{};  // characters below U+0200 without prefix and suffix
  TokenId unk_ = -1;
  // No merge joins a text to a "▁" behind it: a long text of SentencePiece's kind falls into words
  // there.
  bool mark_starts_word_ = false;
  uint64_t owner_;
};

constexpr std::string_view kMark = "\u2581";

std::atomic<uint64_t> next_owner = 1;

Bpe::Bpe(Vocabulary vocabulary, const MergeList& merges, BpeOptions options)
    : Model(std::move(vocabulary)), options_(std::move(options)), owner_(next_owner++) {
  add_merges(merges);
  if (options_.byte_fallback) bytes_ = byte_tokens(vocabulary_);
  if (options_.unk_token) unk_ = vocabulary_.find(*options_.unk_token).value_or(-1);
  for (size_t i = 0; i < small_.size(); ++i) {
    std::string text;
    append_character(text, static_cast<char32_t>(i));
    small_[i] = vocabulary_.find(text).value_or(-1);
  }
}

void Bpe::add_merges(const MergeList& merges) {
  merges_.reserve(merges.size());
  mark_starts_word_ = !options_.ignore_merges && vocabulary_.find(kMark) &&
                      options_.continuing_subword_prefix.empty() &&
                      options_.end_of_word_suffix.empty();
  std::string joined;
  const auto id_of = [&](size_t rank, std::string_view token) {
    const auto id = vocabulary_.find(token);
    if (!id)
      throw ModelError(fmt::format("merges[{}]: token '{}' is not in the vocabulary", rank, token));
    return *id;
  };
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = merges.at(rank);
    const TokenId left_id = id_of(rank, left);
    const TokenId right_id = id_of(rank, right);
    if (right.size() < options_.continuing_subword_prefix.size()) {
      throw ModelError(fmt::format(
          "merges[{}]: '{}' is shorter than the prefix of continuing subwords", rank, right));
    }
    joined = left;
    joined += right.substr(options_.continuing_subword_prefix.size());
    if (right.starts_with(kMark) && !left.ends_with(kMark)) mark_starts_word_ = false;
    merges_.put({left_id, right_id, static_cast<uint32_t>(rank), id_of(rank, joined)});
  }
}

TokenId Bpe::character_token(std::string_view character, bool first, bool last) const {
  const bool prefixed = !first && !options_.continuing_subword_prefix.empty();
  const bool suffixed = last && !options_.end_of_word_suffix.empty();
  if (!prefixed && !suffixed) {
    if (character.size() <= 2) {
      size_t at = 0;
      const char32_t c = next_character(character, at);
      if (c < small_.size()) return small_[c];
    }
    return vocabulary_.find(character).value_or(-1);
  }
  std::string spelled = prefixed ? options_.continuing_subword_prefix : std::string();
  spelled += character;
  if (suffixed) spelled += options_.end_of_word_suffix;
  return vocabulary_.find(spelled).value_or(-1);
}

bool Bpe::spell_bytes(std::string_view character, std::vector<TokenId>& symbols) const {
  const size_t start = symbols.size();
  for (const char c : character) {
    const TokenId id = bytes_[static_cast<unsigned char>(c)];
    if (id < 0) {
      symbols.resize(start);
      return false;
    }
    symbols.push_back(id);
  }
  return true;
}

// The word as the tokens of its characters. An unknown character waits, so that the next one may be
// fused with it; the bytes of a character that falls back do not end the wait: the reference puts
// the unknown token behind them.
void Bpe::spell(std::string_view word, std::vector<TokenId>& symbols) const {
  bool unknown = false;
  for (size_t at = 0; at < word.size();) {
    const size_t end = std::min(word.size(), at + utf8_length(word[at]));
    const std::string_view character = word.substr(at, end - at);
    const bool first = at == 0;
    at = end;
    const bool last = at == word.size();
    if (const TokenId id = character_token(character, first, last); id >= 0) {
      if (unknown) symbols.push_back(unk_);
      unknown = false;
      symbols.push_back(id);
      continue;
    }
    if (options_.byte_fallback) {
      std::string spelled = first ? std::string() : options_.continuing_subword_prefix;
      spelled += character;
      if (last) spelled += options_.end_of_word_suffix;
      if (spell_bytes(spelled, symbols)) continue;
    }
    if (!options_.unk_token) continue;
    if (unk_ < 0) {
      refuse_text(
          "the text needs the unknown token '{}', which is not in the tokenizer's vocabulary",
          *options_.unk_token);
    }
    if (unknown && !options_.fuse_unk) symbols.push_back(unk_);
    unknown = true;
  }
  if (unknown) symbols.push_back(unk_);
}

void Bpe::merge_by_scan(std::vector<TokenId>& symbols) const {
  std::array<const MergeTable::Entry*, kScanLimit> pairs{};  // pairs[i]: symbols i and i + 1
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges_.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (pairs[i] && (best == count || pairs[i]->rank < pairs[best]->rank)) best = i;
    }
    if (best == count) break;
    symbols[best] = pairs[best]->merged;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::copy(pairs.begin() + best + 2, pairs.begin() + count, pairs.begin() + best + 1);
    --count;
    if (best > 0) pairs[best - 1] = merges_.find(symbols[best - 1], symbols[best]);
    pairs[best] = best + 1 < count ? merges_.find(symbols[best], symbols[best + 1]) : nullptr;
  }
  symbols.resize(count);
}

void Bpe::merge_by_heap(std::vector<TokenId>& ids) const {
  std::vector<Symbol> symbols(ids.size());
  std::vector<Candidate> start;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<int32_t>(i);
    symbols[i] = {ids[i], at - 1, i + 1 < ids.size() ? at + 1 : -1};
    if (i + 1 == ids.size()) continue;
    if (const auto* merge = merges_.find(ids[i], ids[i + 1]))
      start.push_back({merge->rank, at, merge->merged});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue({},
                                                                               std::move(start));
  const auto offer = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    if (const auto* merge = merges_.find(symbols[left].id, symbols[right].id)) {
      queue.push({merge->rank, left, merge->merged});
    }
  };
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.at];
    if (left.id < 0 || left.next < 0) continue;
    const auto* merge = merges_.find(left.id, symbols[left.next].id);
    if (!merge || merge->merged != top.merged)
      continue;  // one of the two has been merged elsewhere
    Symbol& right = symbols[left.next];
    left.id = top.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[left.next].previous = top.at;
    offer(left.previous, top.at);
    offer(top.at, left.next);
  }
  ids.clear();
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

void Bpe::tokenize(std::string_view word, std::vector<TokenId>& ids) const {
  if (mark_starts_word_ && word.size() > WordCache::kMaxWord) {
    for (size_t at = 0; at < word.size();) {
      size_t end = at;
      while (word.substr(end).starts_with(kMark)) end += kMark.size();
      end = std::min(word.find(kMark, end), word.size());
      tokenize_part(word.substr(at, end - at), ids);
      at = end;
    }
    return;
  }
  tokenize_part(word, ids);
}

void Bpe::tokenize_part(std::string_view word, std::vector<TokenId>& ids) const {
  WordCache& cache = WordCache::of_thread();
  const uint64_t hash = hash_bytes(word);
  if (const auto known = cache.find(owner_, word, hash); !known.empty()) {
    ids.insert(ids.end(), known.begin(), known.end());
    return;
  }
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_.find(word, hash)) {
      ids.push_back(*id);
      cache.store(owner_, word, hash, {&*id, 1});
      return;
    }
  }
  thread_local std::vector<TokenId> symbols;
  symbols.clear();
  spell(word, symbols);
  if (symbols.size() <= kScanLimit) {
    merge_by_scan(symbols);
  } else {
    merge_by_heap(symbols);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  cache.store(owner_, word, hash, symbols);
  if (symbols.capacity() > (size_t{1} << 16))
    symbols = {};  // one huge word is no reason to keep its memory
}

}  // namespace

std::unique_ptr<Model> make_bpe(Vocabulary vocabulary, const MergeList& merges,
                                BpeOptions options) {
  return std::make_unique<Bpe>(std::move(vocabulary), merges, std::move(options));
}

}  // namespace plimsoll::text
