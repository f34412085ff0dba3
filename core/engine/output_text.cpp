#include "engine/output_text.h"

namespace plimsoll::engine {

OutputText::OutputText(const text::Tokenizer* tokenizer, std::span<const TokenId> prompt,
                       const SamplingParams& params, const StopStrings& strings)
    : params_(params), search_(strings) {
  if (tokenizer == nullptr || !params.detokenize) return;
  detokenizer_.emplace(*tokenizer, prompt,
                       params.skip_special_tokens ? text::Specials::skip : text::Specials::keep);
}

const std::string* OutputText::push(TokenId token) {
  ++tokens_;
  return detokenizer_ ? append(detokenizer_->push(token)) : nullptr;
}

const std::string* OutputText::finish() {
  return detokenizer_ ? append(detokenizer_->finish()) : nullptr;
}

const std::string* OutputText::append(const std::string& piece) {
  text_ += piece;
  if (params_.stop.empty()) return nullptr;
  const std::optional<StopHit> hit = search_.feed(piece);
  if (!hit || tokens_ <= params_.min_tokens) return nullptr;
  text_.resize(params_.include_stop_str_in_output ? hit->end : hit->begin);
  return &params_.stop[hit->index];
}

}  // namespace plimsoll::engine
