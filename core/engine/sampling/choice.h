// One of the n answers to a request: its tokens, its text, and when it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "engine/sampling/guide.h"
#include "engine/sampling/output_text.h"
#include "engine/sampling/sampler.h"
#include "engine/sequence.h"

namespace plimsoll::engine {

struct RequestState;

/// Facts of the engine that a choice needs.
struct ChoiceContext {
  const text::Tokenizer* tokenizer = nullptr;
  std::span<const TokenId> eos;
  uint64_t run_seed = 0;
  bool long_rope = false;
  int64_t max_tokens = 0;  // of the request, cut to the room in the context
};

/// A choice ends, as in vLLM, with a token that ends sequences (unless ignore_eos), with one of
/// stop_token_ids, with a stop string in the text, or at max_tokens. The text leaves out the token
/// that ended it unless include_stop_str_in_output; token_ids never do. An answer with a grammar
/// ends with its grammar, whatever ignore_eos says, or with a token that ends it within reasoning.
class Choice {
 public:
  /// `request` must outlive it and stay where it is.
  Choice(RequestState& request, int64_t index, uint64_t serial, const ChoiceContext& context);
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

  [[nodiscard]] RequestState& request() { return request_; }
  [[nodiscard]] Sequence& sequence() { return sequence_; }
  [[nodiscard]] const SamplingState& sampling() const { return sampling_; }
  [[nodiscard]] bool finished() const { return finished_; }
  /// True when no token follows: it is finished, or its request has failed.
  [[nodiscard]] bool ended() const;

  /// Adds a token to the answer, and ends the answer if that token does.
  void accept(TokenId token);
  void add_logprobs(PositionLogprobs logprobs) { logprobs_.push_back(std::move(logprobs)); }
  /// As Guide::foresee.
  [[nodiscard]] std::vector<TokenId> foresee(const text::Tokenizer& tokenizer, size_t most) {
    return guide_.foresee(tokenizer, most);
  }
  /// The answer, moved out of the choice.
  [[nodiscard]] Completion take_completion();

 private:
  /// True where a token ends the answer; `is_free`: no grammar held it.
  [[nodiscard]] bool ends_with(TokenId token, bool is_free);
  void end(FinishReason reason);

  RequestState& request_;
  const SamplingParams& params_;
  std::span<const TokenId> eos_;
  int64_t index_;
  int64_t max_tokens_;
  Guide guide_;
  Sequence sequence_;
  SamplingState sampling_;
  OutputText text_;
  std::vector<PositionLogprobs> logprobs_;
  bool finished_ = false;
  FinishReason reason_ = FinishReason::length;
  const std::string* stop_string_ = nullptr;
  std::optional<TokenId> stop_token_;
};

}  // namespace plimsoll::engine
