#include "engine/request_state.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

namespace plimsoll::engine {

RequestState::RequestState(Request asked, uint64_t serial, const ChoiceContext& context)
    : request(std::move(asked)),
      stop_strings(request.sampling.stop),
      unfinished(request.sampling.n) {
  for (int64_t index = 0; index < request.sampling.n; ++index) {
    const uint64_t own = serial + static_cast<uint64_t>(index);
    choices.push_back(std::make_unique<Choice>(*this, index, own, context));
  }
  if (!request.sampling.prompt_logprobs) return;
  prompt_logprobs.reserve(request.prompt.size());
  prompt_logprobs.emplace_back();
  if (request.prompt.size() > 1) leader().sequence().score_from = 0;
}

void RequestState::add_prompt_logprobs(PositionLogprobs logprobs) {
  prompt_logprobs.push_back(std::move(logprobs));
  Sequence& sequence = leader().sequence();
  ++sequence.score_from;
  if (sequence.score_from + 1 == sequence.prompt_length()) sequence.score_from = -1;
}

void RequestState::fail(std::string code, std::string message) {
  failure = {std::move(code), std::move(message)};
}

RequestOutput RequestState::take_output() {
  RequestOutput output;
  output.tag = request.tag;
  output.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  output.cached_tokens = cached_tokens;
  output.failure = std::move(failure);
  if (output.failure) return output;
  for (const auto& choice : choices) output.completions.push_back(choice->take_completion());
  output.prompt_logprobs = std::move(prompt_logprobs);
  return output;
}

namespace {

using Failure = RequestOutput::Failure;

std::optional<Failure> find_foreign_token(std::string_view field, std::span<const TokenId> tokens,
                                          int64_t vocab_size) {
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab_size) continue;
    return Failure{"bad_field",
                   fmt::format("{}: token id {} is outside the vocabulary of {} tokens", field,
                               token, vocab_size)};
  }
  return std::nullopt;
}

std::optional<Failure> find_foreign_token(const Request& request, int64_t vocab_size) {
  const SamplingParams& sampling = request.sampling;
  auto fault = find_foreign_token("prompt", request.prompt, vocab_size);
  if (!fault) fault = find_foreign_token("stop_token_ids", sampling.stop_token_ids, vocab_size);
  if (!fault) {
    fault = find_foreign_token("allowed_token_ids", sampling.allowed_token_ids, vocab_size);
  }
  for (const auto& word : sampling.bad_words) {
    if (!fault) fault = find_foreign_token("bad_words", word, vocab_size);
  }
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (!fault) fault = find_foreign_token("logit_bias", {&token, 1}, vocab_size);
  }
  return fault;
}

}  // namespace

std::optional<Failure> find_fault(const Request& request, int64_t vocab_size,
                                  int64_t max_model_len) {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) return Failure{"bad_field", "the prompt has no tokens"};
  if (request.sampling.max_tokens < 1) {
    return Failure{"bad_field", fmt::format("max_tokens is {}; it must be at least 1",
                                            request.sampling.max_tokens)};
  }
  if (request.sampling.n < 1) {
    return Failure{"bad_field", fmt::format("n is {}; it must be at least 1", request.sampling.n)};
  }
  if (length >= max_model_len) {
    return Failure{"context_too_long",
                   fmt::format("the prompt has {} tokens; the context of {} tokens must leave room "
                               "for one more (--max-model-len, --long-prompt)",
                               length, max_model_len)};
  }
  return find_foreign_token(request, vocab_size);
}

}  // namespace plimsoll::engine
