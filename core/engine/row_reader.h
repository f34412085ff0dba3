// Reads a row of logits for its sequence: the next token, and log probabilities.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "engine/sequence.h"

namespace plimsoll::engine {

/// The logits after one position of a sequence, and the results read from them.
struct ScoredRow {
  Sequence* sequence = nullptr;
  int64_t position = 0;
  std::span<const float> logits;  // of the vocabulary
  Sampled outcome = Sampled::token;
  TokenId token = 0;  // the one that follows: in the prompt, or chosen
  std::optional<PositionLogprobs> logprobs;

  /// True when the following token is in the prompt: only its log probability is wanted.
  [[nodiscard]] bool of_prompt() const { return position + 1 < sequence->length(); }
};

/// Reads rows, changing nothing but the rows' own results: several readers may work at once.
class RowReader {
 public:
  /// Working memory for one row, as in Sampler.
  RowReader(std::span<float> values, std::span<int32_t> ids) : sampler_(values, ids), ids_(ids) {}

  void read(ScoredRow& row);

 private:
  Sampler sampler_;
  std::span<int32_t> ids_;
};

}  // namespace plimsoll::engine
