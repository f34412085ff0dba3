// The prompts of an input as hashes of their blocks, and the order of lines in which blocks that
// several prompts begin with are computed once.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "batch/prompt_builder.h"

namespace plimsoll::batch {

/// A sequence that the engine will compute: one part of a line's prompt, with its choices.
struct IndexedSequence {
  uint64_t first_hash = 0;
  uint32_t prompt = 0;  // tokens
  uint32_t answer = 0;  // tokens of each choice, as far as they are foreseen
  uint32_t choices = 1;
  bool ends_at_limit = false;  // the answer has so many tokens for certain
  bool scores_prompt = false;  // the prompt's logits are wanted: nothing comes from the cache
};

/// Eight bytes for each block of a prompt, at most kMostHashes: from there on only every second
/// block counts, then every fourth, and so on. Beside them some 30 bytes a line.
class PrefixIndex {
 public:
  static constexpr size_t kMostHashes = size_t{1} << 26;  // 512 MiB

  explicit PrefixIndex(int64_t block_size, size_t most_hashes = kMostHashes);

  /// Adds the next line; null: it asks the engine for nothing.
  void add_line(const BuiltRequest* request);

  [[nodiscard]] size_t lines() const { return first_sequence_.size() - 1; }
  /// Sequences of a line.
  [[nodiscard]] std::span<const IndexedSequence> sequences(size_t line) const {
    return std::span(sequences_)
        .subspan(first_sequence_[line], first_sequence_[line + 1] - first_sequence_[line]);
  }
  /// Tokens that one hash more stands for.
  [[nodiscard]] int64_t span() const { return static_cast<int64_t>(block_size_ * stride_); }
  [[nodiscard]] uint64_t hash(const IndexedSequence& sequence, int64_t at) const {
    return hashes_[sequence.first_hash + static_cast<uint64_t>(at)];
  }
  [[nodiscard]] int64_t hash_count(const IndexedSequence& sequence) const {
    return sequence.prompt / span();
  }
  [[nodiscard]] uint64_t prompt_tokens() const { return prompt_tokens_; }

  /// The lines, by number in the order in which they were added, so that those whose prompts begin
  /// alike follow each other, those with the longest answers first.
  [[nodiscard]] std::vector<uint32_t> prefix_order() const;

 private:
  void halve();
  /// Hashes of a line by which it is put in order: those of its first sequence.
  [[nodiscard]] int64_t depth_of(uint32_t line) const;
  [[nodiscard]] uint64_t hash_of(uint32_t line, int64_t depth) const;
  [[nodiscard]] int64_t common_depth(uint32_t a, uint32_t b) const;
  /// Tokens of an answer, which a step each is for, and of its prompt.
  using Work = std::pair<int64_t, int64_t>;
  /// The most that a sequence of the line asks for.
  [[nodiscard]] Work work_of(uint32_t line) const;

  struct Range {
    size_t begin = 0, end = 0;
  };
  void split(const Range& range, std::vector<uint32_t>& lines, std::vector<Range>& todo) const;

  size_t block_size_;
  size_t most_hashes_;
  size_t stride_ = 1;  // blocks that a hash stands for
  std::deque<uint64_t> hashes_;
  std::vector<IndexedSequence> sequences_;
  std::vector<uint32_t> first_sequence_ = {0};  // of each line, and the end
  uint64_t prompt_tokens_ = 0;
};

}  // namespace plimsoll::batch
