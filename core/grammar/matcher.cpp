#include "grammar/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "grammar/xgrammar_parts.h"

namespace plimsoll::grammar {
namespace {

std::vector<text::TokenId> each_once(std::vector<text::TokenId> tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const CompiledGrammar> grammar, std::vector<text::TokenId> ends)
    : grammar_(std::move(grammar)), ends_(each_once(std::move(ends))) {
  const auto stops =
      ends_.empty() ? std::nullopt : std::optional<std::vector<int>>(std::in_place, ends_);
  state_ = std::make_unique<State>(
      State{xgrammar::GrammarMatcher(grammar_->parts_->compiled, stops, ends_.empty())});
  if (grammar_->parts_->key_tokens) keys_.emplace(grammar_->parts_->key_tokens);
}
Matcher::~Matcher() = default;

void Matcher::accept(text::TokenId token) {
  if (state_->matcher.AcceptToken(token)) {
    const std::string_view bytes = grammar_->parts_->bytes_of(token);
    habit_.read(bytes);
    if (keys_) keys_->read(bytes);
    learn(bytes);
    return;
  }
  throw OutsideMask(
      fmt::format("the grammar does not take token {}, which its mask may have allowed: xgrammar's "
                  "masks and its parser differ where classes are repeated hundreds of times; write "
                  "such a part in another way",
                  token));
}

bool Matcher::ended() const {
  return state_->matcher.IsTerminated();
}

size_t Matcher::mask_words() const {
  const int size = grammar_->parts_->compiled.GetTokenizerInfo().GetVocabSize();
  return static_cast<size_t>(xgrammar::GetBitmaskSize(size));
}

Matcher::Next Matcher::fill_mask(std::span<int32_t> words) {
  auto length = static_cast<int64_t>(words.size());
  DLTensor mask{.data = words.data(),
                .device = {kDLCPU, 0},
                .ndim = 1,
                .dtype = xgrammar::GetBitmaskDLType(),
                .shape = &length,
                .strides = nullptr,
                .byte_offset = 0};
  state_->matcher.FillNextTokenBitmask(&mask);
  if (keys_) keys_->forbid_repeats(words);
  if (ends_.empty() || !state_->matcher.IsCompleted()) return Next::tokens;
  size_t allowed = 0;
  for (const int32_t word : words) {
    allowed += static_cast<size_t>(std::popcount(static_cast<uint32_t>(word)));
  }
  return allowed == ends_.size() ? Next::ends_alone : Next::tokens;
}

}  // namespace plimsoll::grammar
