#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "engine/sampling/sampler.h"

namespace plimsoll::engine {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

float& at(std::span<float> row, TokenId token) {
  return row[token];
}

void sort_out(std::vector<TokenId>& tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

/// Masks the tokens whose bits are not set (backend::Drawing::masks).
void mask_by(std::span<const int32_t> words, std::span<float> adjusted) {
  constexpr size_t kBits = 32;
  for (size_t word = 0; word < words.size(); ++word) {
    const auto bits = static_cast<uint32_t>(words[word]);
    if (bits == ~uint32_t{0}) continue;
    const size_t first = word * kBits;
    const auto logits = adjusted.subspan(first, std::min(kBits, adjusted.size() - first));
    if (bits == 0) {
      std::ranges::fill(logits, kMasked);
      continue;
    }
    for (size_t bit = 0; bit < logits.size(); ++bit) {
      if ((bits >> bit & 1) == 0) logits[bit] = kMasked;
    }
  }
}

}  // namespace

void ChangeList::add(std::span<const backend::TokenChange> changes) {
  if (used_ + changes.size() <= room_.size()) {
    std::ranges::copy(changes, room_.begin() + static_cast<ptrdiff_t>(used_));
  }
  used_ += changes.size();
}

SamplingState::SamplingState(const SamplingParams& params, std::span<const TokenId> prompt,
                             std::span<const TokenId> eos, const std::vector<TokenId>& output,
                             TokenRandom random, Guide* guide)
    : params_(params),
      eos_(eos),
      output_(output),
      random_(random),
      guide_(guide),
      allowed_(params.allowed_token_ids) {
  sort_out(allowed_);
  if (params.repetition_penalty == 1) return;
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  sort_out(tokens);
  seen_.reserve(tokens.size());
  for (const TokenId token : tokens) seen_.push_back({token, 0});
}

void SamplingState::accept(TokenId token) {
  if (!penalizes()) return;
  auto found = std::ranges::lower_bound(seen_, token, {}, &backend::TokenChange::token);
  if (found == seen_.end() || found->token != token) found = seen_.insert(found, {token, 0});
  ++found->value;
}

bool SamplingState::penalizes() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
         params_.frequency_penalty != 0;
}

template <typename F>
void SamplingState::for_bad_words(const F& f) const {
  for (const std::vector<TokenId>& word : params_.bad_words) {
    if (word.empty() || word.size() - 1 > output_.size()) continue;
    if (std::equal(word.begin(), word.end() - 1,
                   output_.end() - static_cast<ptrdiff_t>(word.size() - 1))) {
      f(word.back());
    }
  }
}

DrawParams SamplingState::draw_params(int64_t position) const {
  DrawParams params{.temperature = params_.temperature,
                    .top_k = params_.top_k,
                    .top_p = params_.top_p,
                    .min_p = params_.min_p};
  if (!params.greedy()) params.uniform = random_.uniform(position);
  return params;
}

bool SamplingState::adjusts(int64_t position) const {
  return guide_ != nullptr || !params_.allowed_token_ids.empty() || !params_.bad_words.empty() ||
         position < params_.min_tokens || !params_.logit_bias.empty() || penalizes();
}

void SamplingState::adjust(std::span<const float> logits, std::span<float> adjusted,
                           std::span<int32_t> room) const {
  if (const auto forced = guide_ != nullptr ? guide_->forced() : std::nullopt) {
    std::ranges::fill(adjusted, kMasked);
    at(adjusted, *forced) = 0;
    return;
  }
  std::ranges::copy(logits, adjusted.begin());
  if (guide_ != nullptr) {
    const std::span<int32_t> words = room.first((adjusted.size() + 31) / 32);
    fill_mask(words);
    mask_by(words, adjusted);
  } else {
    mask(logits, adjusted);
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    at(adjusted, token) += static_cast<float>(bias);
  }
  if (penalizes()) apply_penalties(adjusted);
}

void SamplingState::mask(std::span<const float> logits, std::span<float> adjusted) const {
  if (!allowed_.empty()) {
    std::ranges::fill(adjusted, kMasked);
    for (const TokenId token : allowed_) at(adjusted, token) = logits[token];
  }
  for_bad_words([&](TokenId token) { at(adjusted, token) = kMasked; });
  if (position() >= params_.min_tokens) return;
  for (const TokenId token : eos_) at(adjusted, token) = kMasked;
  for (const TokenId token : params_.stop_token_ids) at(adjusted, token) = kMasked;
}

void SamplingState::list_changes(LastToken last, ChangeList& to) const {
  const bool lists = guide_ == nullptr;
  if (lists) {
    for (const TokenId token : allowed_) to.add({token, 0});
  }
  to.end(backend::ChangeSection::allowed);
  if (lists) list_masked(last, to);
  to.end(backend::ChangeSection::masked);
  for (const auto& [token, bias] : params_.logit_bias) {
    to.add({token, std::bit_cast<int32_t>(static_cast<float>(bias))});
  }
  to.end(backend::ChangeSection::biased);
  to.add(seen_);
  to.end(backend::ChangeSection::seen);
}

void SamplingState::list_masked(LastToken last, ChangeList& to) const {
  constexpr int32_t kAlways = -1;
  const size_t pending = last == LastToken::pending ? 1 : 0;
  for (const std::vector<TokenId>& word : params_.bad_words) {
    if (word.empty() || word.size() - 1 > output_.size() + pending) continue;
    const bool asks = pending > 0 && word.size() > 1;  // the token that the device knows
    const size_t known = word.size() - (asks ? 2 : 1);
    if (!std::equal(word.begin(), word.begin() + static_cast<ptrdiff_t>(known),
                    output_.end() - static_cast<ptrdiff_t>(known))) {
      continue;
    }
    to.add({word.back(), asks ? word[known] : kAlways});
  }
  if (position() + static_cast<int64_t>(pending) >= params_.min_tokens) return;
  for (const TokenId token : eos_) to.add({token, kAlways});
  for (const TokenId token : params_.stop_token_ids) to.add({token, kAlways});
}

void SamplingState::fill_mask(std::span<int32_t> words) const {
  constexpr int32_t kAll = -1;
  constexpr uint32_t kBits = 32;
  const auto bit_of = [](TokenId token) {
    return static_cast<int32_t>(uint32_t{1} << static_cast<uint32_t>(token) % kBits);
  };
  const auto word_of = [&](TokenId token) -> int32_t& {
    return words[static_cast<uint32_t>(token) / kBits];
  };
  const auto clear = [&](TokenId token) { word_of(token) &= ~bit_of(token); };
  if (const auto forced = guide_->forced()) {
    std::ranges::fill(words, 0);
    word_of(*forced) = bit_of(*forced);
    return;
  }
  std::ranges::fill(words, allowed_.empty() ? kAll : 0);
  for (const TokenId token : allowed_) word_of(token) |= bit_of(token);
  auto next = grammar::Matcher::Next::tokens;
  if (guide_->masks()) {
    std::vector<int32_t> of_grammar(guide_->mask_words());
    next = guide_->fill_mask(of_grammar);
    of_grammar.resize(words.size());
    std::ranges::transform(words, of_grammar, words.begin(), std::bit_and<>());
  }
  for_bad_words(clear);
  if (position() >= params_.min_tokens || next == grammar::Matcher::Next::ends_alone) return;
  std::ranges::for_each(eos_, clear);
  std::ranges::for_each(params_.stop_token_ids, clear);
}

void SamplingState::apply_penalties(std::span<float> adjusted) const {
  const auto repetition = static_cast<float>(params_.repetition_penalty);
  const auto frequency = static_cast<float>(params_.frequency_penalty);
  const auto presence = static_cast<float>(params_.presence_penalty);
  for (const auto& [token, count] : seen_) {
    float& logit = at(adjusted, token);
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (count == 0) continue;
    logit -= frequency * static_cast<float>(count);
    logit -= presence;
  }
}

}  // namespace plimsoll::engine
