// Requests to the engine, and its outputs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/vision/images.h"

namespace plimsoll::grammar {
class CompiledGrammar;
}

namespace plimsoll::engine {

using TokenId = int32_t;

/// Reasoning before an answer proper, by the texts that mark it. The texts are looked for in the
/// answer's text, so special tokens among them need skip_special_tokens off.
struct Thinking {
  std::vector<std::string> starts;
  std::vector<std::string> ends;
  /// Texts that end one message of reasoning. What follows counts again from one of `starts` on.
  std::vector<std::string> pauses;
  bool open = false;                               // the answer begins within reasoning
  std::optional<int64_t> budget;                   // most tokens; then end_tokens are written
  std::vector<std::vector<TokenId>> start_tokens;  // of each of `starts`, at least one token
  std::vector<TokenId> end_tokens;                 // of a text with one of `ends`, at least one
};

/// Sampling fields under vLLM's names; the caller has validated them (ranges in
/// batch/fields/request_fields.h).
struct SamplingParams {
  int64_t n = 1;
  double temperature = 1;  // 0: greedy
  double top_p = 1;
  int64_t top_k = 0;  // 0: all
  double min_p = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<int64_t> seed;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::vector<TokenId>> bad_words;  // token sequences that may not be completed
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  int64_t max_tokens = 16;
  int64_t min_tokens = 0;
  std::optional<int64_t> logprobs;  // this many best tokens beside the chosen one; 0: the chosen
                                    // one only; -1: the whole vocabulary
  std::optional<int64_t> prompt_logprobs;
  std::map<TokenId, double> logit_bias;
  std::vector<TokenId> allowed_token_ids;  // empty: all
  /// The answer follows it from its first token behind reasoning to its end; null: none. There ends
  /// of sequences and stop_token_ids come only where it may end.
  std::shared_ptr<const grammar::CompiledGrammar> grammar = nullptr;
  /// Reasoning that a grammar waits for, or that has a budget; null: neither.
  std::shared_ptr<const Thinking> thinking = nullptr;
  bool skip_special_tokens = true;
  bool detokenize = true;
};

struct Request {
  uint64_t tag = 0;             // comes back with the output
  std::string key;              // random numbers are keyed by it (the line's id)
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  std::shared_ptr<const Images> images = nullptr;  // of the prompt; null: none
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
  int64_t rank = 0;  // 1-based; 1 is the best
};

/// Log probabilities at one position: that of its token first, then the best ones in order of rank
/// (the position's token is not repeated among them).
using PositionLogprobs = std::vector<TokenLogprob>;

enum class FinishReason : uint8_t { stop, length, error };

struct Completion {
  int64_t index = 0;  // 0 .. n-1
  std::string text;
  std::vector<TokenId> token_ids;  // includes the token that ended it
  FinishReason finish = FinishReason::length;
  std::optional<std::string> stop_string;  // the stop string that hit
  /// The member of stop_token_ids that hit; none for end-of-sequence.
  std::optional<TokenId> stop_token;
  std::vector<PositionLogprobs> logprobs;  // one per token when asked
};

struct RequestOutput {
  uint64_t tag = 0;
  std::vector<Completion> completions;  // by index
  /// Entry 0 is none; empty when not asked for.
  std::vector<std::optional<PositionLogprobs>> prompt_logprobs;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  /// Set when the request failed as a whole; the code is one of a closed list ("context_too_long",
  /// "numeric", ...).
  struct Failure {
    std::string code;
    std::string message;
  };
  std::optional<Failure> failure;
};

}  // namespace plimsoll::engine
