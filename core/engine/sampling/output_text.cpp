#include "engine/sampling/output_text.h"

#include <string_view>

namespace plimsoll::engine {

namespace {
constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";
}  // namespace

OutputText::OutputText(const text::Tokenizer* tokenizer, std::span<const TokenId> prompt,
                       const SamplingParams& params, const StopStrings& strings)
    : params_(params), search_(strings) {
  if (tokenizer == nullptr || !params.detokenize) return;
  detokenizer_.emplace(*tokenizer, prompt,
                       params.skip_special_tokens ? text::Specials::skip : text::Specials::keep);
}

const std::string* OutputText::push(TokenId token) {
  ++tokens_;
  if (!detokenizer_) return nullptr;
  text_ += detokenizer_->push(token);
  if (params_.stop.empty()) return nullptr;
  if (const std::string* hit = search()) return hit;
  // A stop string may end in text that a later token could still change (a run of byte tokens, as
  // Llama 2 spells newlines). It counts at once, unless its last character is unfinished.
  const std::string pending = detokenizer_->pending();
  if (pending.empty() || pending.ends_with(kReplacementCharacter)) return nullptr;
  const size_t certain = text_.size();
  const StopSearch before = search_;
  text_ += pending;
  if (const std::string* hit = search()) return hit;
  text_.resize(certain);
  search_ = before;
  return nullptr;
}

const std::string* OutputText::finish() {
  if (!detokenizer_) return nullptr;
  text_ += detokenizer_->finish();
  return params_.stop.empty() ? nullptr : search();
}

// Looks on for stop strings where the last search ended, and cuts the text at the one found.
const std::string* OutputText::search() {
  const std::optional<StopHit> hit =
      search_.feed(std::string_view(text_).substr(search_.position()));
  if (!hit || tokens_ <= params_.min_tokens) return nullptr;
  text_.resize(params_.include_stop_str_in_output ? hit->end : hit->begin);
  return &params_.stop[hit->index];
}

}  // namespace plimsoll::engine
