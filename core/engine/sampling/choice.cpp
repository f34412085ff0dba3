#include "engine/sampling/choice.h"

#include <algorithm>

#include "engine/request_state.h"

namespace plimsoll::engine {

namespace {

/// All tokens that end an answer.
std::vector<TokenId> ends_of(const SamplingParams& params, std::span<const TokenId> eos) {
  std::vector<TokenId> ends(eos.begin(), eos.end());
  ends.insert(ends.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  return ends;
}

}  // namespace

Choice::Choice(RequestState& request, int64_t index, uint64_t serial, const ChoiceContext& context)
    : request_(request),
      params_(request.request.sampling),
      eos_(context.eos),
      index_(index),
      max_tokens_(context.max_tokens),
      guide_(params_, ends_of(params_, eos_)),
      sampling_(params_, request.request.prompt, context.eos, sequence_.output,
                TokenRandom(context.run_seed, request.request.key, params_.seed, index),
                guide_.holds() ? &guide_ : nullptr),
      text_(context.tokenizer, request.request.prompt, params_, request.stop_strings) {
  sequence_.serial = serial;
  sequence_.choice = this;
  sequence_.prompt = request.request.prompt;
  sequence_.long_rope = context.long_rope;
  if (const Images* images = request.request.images.get()) {
    sequence_.images = images;
    sequence_.image_rows.assign(images->items.size(), -1);
  }
  sequence_.max_length = sequence_.prompt_length() + max_tokens_;
  sequence_.ends_at_limit = params_.ignore_eos && params_.stop.empty() &&
                            params_.stop_token_ids.empty() && !guide_.holds();
}

bool Choice::ended() const {
  return finished_ || request_.failure.has_value();
}

void Choice::accept(TokenId token) {
  sequence_.output.push_back(token);
  sampling_.accept(token);
  const bool is_forced = guide_.forced().has_value();
  const bool is_free = !guide_.masks();
  guide_.accept(token);
  const bool last = !is_forced && ends_with(token, is_free);
  // A token that ends the choice has no part in the text, nor in what stop strings are looked for
  // in.
  if (!last || params_.include_stop_str_in_output) stop_string_ = text_.push(token);
  guide_.look(text_.text());
  const bool whole = guide_.ended();
  if (last || whole || stop_string_ != nullptr) {
    end(FinishReason::stop);
  } else if (sampling_.position() >= max_tokens_) {
    end(FinishReason::length);
  }
}

bool Choice::ends_with(TokenId token, bool is_free) {
  if (is_free ? sampling_.position() < params_.min_tokens : !guide_.ended()) return false;
  const bool heeds_eos = !is_free || params_.grammar || !params_.ignore_eos;
  if (heeds_eos && std::ranges::find(eos_, token) != eos_.end()) return true;
  if (std::ranges::find(params_.stop_token_ids, token) == params_.stop_token_ids.end()) {
    return false;
  }
  stop_token_ = token;
  return true;
}

void Choice::end(FinishReason reason) {
  finished_ = true;
  reason_ = reason;
  if (stop_string_ == nullptr) stop_string_ = text_.finish();
  if (stop_string_ == nullptr) return;
  reason_ = FinishReason::stop;
  stop_token_.reset();
}

Completion Choice::take_completion() {
  Completion completion;
  completion.index = index_;
  completion.text = text_.take();
  completion.token_ids = std::move(sequence_.output);
  completion.finish = reason_;
  if (stop_string_ != nullptr) completion.stop_string = *stop_string_;
  completion.stop_token = stop_token_;
  completion.logprobs = std::move(logprobs_);
  return completion;
}

}  // namespace plimsoll::engine
