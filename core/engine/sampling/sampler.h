// Chooses the next token from a row of logits, in vLLM's order (v1/sample/sampler.py):
//
//   0. while a reasoning's end is forced, its next token is all that is left; no other step changes
//   it
//   1. tokens outside the grammar or allowed_token_ids are masked: their logit is minus infinity
//   2. bad_words: a last token that would complete one is masked
//   3. min_tokens: until then end-of-sequence and stop_token_ids are masked, unless the grammar has
//      nothing else
//   4. logit_bias is added
//   5. penalties: repetition (tokens of prompt and output: positive logits divided by it, others
//      multiplied), frequency (times the count in the output), presence (once if in the output)
//   6. temperature below 1e-5: the largest value, of equals the lowest id; done
//   7. divided by the temperature
//   8. min_p: tokens less likely than min_p times the likeliest go
//   9. top_k, then top_p over what is left; of equals the lower ids stay
//  10. one random number picks from the rest, in the order of ids, by inverting the cumulative
//      distribution
//
// Log probabilities are those of the raw logits, before step 1 (vLLM's raw_logprobs).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/request.h"
#include "engine/sampling/guide.h"
#include "engine/sampling/random.h"
#include "engine/sampling/softmax.h"

namespace plimsoll::engine {

/// Parameters of steps 6 to 10.
struct DrawParams {
  double temperature = 1;
  int64_t top_k = 0;  // 0: all
  double top_p = 1;
  double min_p = 0;
  double uniform = 0;  // the random number; 0 when it is not needed

  [[nodiscard]] bool greedy() const { return temperature < 1e-5; }
};

/// Changes to a row's logits as a device makes them (backend::Drawing), written as far as there is
/// room.
class ChangeList {
 public:
  explicit ChangeList(std::span<backend::TokenChange> room) : room_(room) {}

  void add(backend::TokenChange change) {
    if (used_ < room_.size()) room_[used_] = change;
    ++used_;
  }
  void add(std::span<const backend::TokenChange> changes);
  /// Ends a section: the changes since the last call belong to it.
  void end(backend::ChangeSection section) { ends_[static_cast<size_t>(section)] = used_; }

  [[nodiscard]] bool fits() const { return used_ <= room_.size(); }
  [[nodiscard]] size_t size() const { return used_; }
  /// Ends of the sections: the number of changes up to each one's last.
  [[nodiscard]] const std::array<size_t, backend::kChangeSections>& ends() const { return ends_; }

 private:
  std::span<backend::TokenChange> room_;
  size_t used_ = 0;
  std::array<size_t, backend::kChangeSections> ends_{};
};

/// Whether the token before the one to be drawn is in the output, or only a device knows it.
enum class LastToken : uint8_t { known, pending };

/// Sampling parameters and state of one choice.
class SamplingState {
 public:
  /// `params`, `eos`, `output` (the tokens chosen so far) and `guide` (null: nothing is held)
  /// must outlive it; token ids in `params` and `eos` lie within the vocabulary.
  SamplingState(const SamplingParams& params, std::span<const TokenId> prompt,
                std::span<const TokenId> eos, const std::vector<TokenId>& output,
                TokenRandom random, Guide* guide = nullptr);

  [[nodiscard]] const SamplingParams& params() const { return params_; }
  /// Number of the next token, from 0.
  [[nodiscard]] int64_t position() const { return static_cast<int64_t>(output_.size()); }
  [[nodiscard]] DrawParams draw_params(int64_t position) const;
  /// Notes a token that is being added to the output.
  void accept(TokenId token);

  /// True when steps 1 to 5 change anything at a position.
  [[nodiscard]] bool adjusts(int64_t position) const;
  /// Steps 1 to 5, for the next token. `room` [vocab] is working memory for a grammar's mask.
  void adjust(std::span<const float> logits, std::span<float> adjusted,
              std::span<int32_t> room = {}) const;
  /// True when a guide holds the answer: a device then needs a mask for each token.
  [[nodiscard]] bool is_guided() const { return guide_ != nullptr; }
  /// Lists the changes of steps 1 to 5 for a device, in all sections; of steps 4 and 5 where a mask
  /// has the others.
  void list_changes(LastToken last, ChangeList& to) const;
  /// Steps 0 to 3 of the next token as a mask, with one bit for each token of the vocabulary
  /// (backend::Drawing::masks). Only with a guide.
  void fill_mask(std::span<int32_t> words) const;
  [[nodiscard]] bool penalizes() const;

 private:
  void list_masked(LastToken last, ChangeList& to) const;
  /// Steps 1 to 3 where no guide holds the answer.
  void mask(std::span<const float> logits, std::span<float> adjusted) const;
  /// Calls f(token) for each token that would complete one of bad_words.
  template <typename F>
  void for_bad_words(const F& f) const;
  void apply_penalties(std::span<float> adjusted) const;

  const SamplingParams& params_;
  std::span<const TokenId> eos_;
  const std::vector<TokenId>& output_;
  TokenRandom random_;
  Guide* guide_;
  std::vector<TokenId> allowed_;            // ascending; empty: all
  std::vector<backend::TokenChange> seen_;  // by token; empty without penalties
};

/// Outcome of sampling a row.
enum class Sampled : uint8_t { token, not_finite, nothing_allowed };

struct SampleResult {
  Sampled outcome = Sampled::token;
  TokenId token = 0;
};

/// Draws tokens, over working memory for one row.
class Sampler {
 public:
  /// Both spans hold one entry per token of the vocabulary.
  Sampler(std::span<float> values, std::span<int32_t> ids) : values_(values), ids_(ids) {}

  [[nodiscard]] SampleResult sample(std::span<const float> logits, const SamplingState& state);
  /// Steps 6 to 10 alone.
  [[nodiscard]] SampleResult sample(std::span<const float> logits, const DrawParams& params);
  /// Runs steps 6 to 10 for logits after steps 1 to 5: some may be masked.
  [[nodiscard]] SampleResult sample_adjusted(std::span<const float> logits,
                                             const DrawParams& params);

 private:
  [[nodiscard]] TokenId choose(std::span<const float> row, const RowScan& scan,
                               const DrawParams& params);
  [[nodiscard]] TokenId draw_from_top(std::span<const float> row, float maximum,
                                      const DrawParams& params);
  /// Zeroes the weights beyond those whose sum reaches `wanted`; returns the sum of those kept.
  double keep_nucleus(std::span<float> weights, double wanted);
  /// The token at which the running sum of weights passes `target`.
  [[nodiscard]] static TokenId draw_from(std::span<const float> weights, double target);

  std::span<float> values_;  // adjusted logits, then weights
  std::span<int32_t> ids_;   // candidates, the likeliest first
};

}  // namespace plimsoll::engine
