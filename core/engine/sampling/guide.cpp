#include "engine/sampling/guide.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "text/text_error.h"

namespace plimsoll::engine {
namespace {

constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

/// Tokens that spell a text which stands behind other text; none where the tokenizer does not write
/// just these bytes.
std::vector<TokenId> tokens_within(const text::Tokenizer& tokenizer, std::string_view text) {
  // Some tokenizers begin every text with a space: a line break before it keeps that apart.
  for (const std::string_view before : {"", "\n"}) {
    const std::vector<TokenId> tokens = tokenizer.encode(
        std::string(before).append(text), text::AddSpecials::no, {&text::kAllPlain, 1});
    std::string_view rest = text;
    auto first = tokens.end();
    while (first != tokens.begin() && !rest.empty()) {
      const std::string bytes = tokenizer.token_bytes(*(first - 1));
      if (!rest.ends_with(bytes)) break;
      rest.remove_suffix(bytes.size());
      --first;
    }
    if (rest.empty() && (first == tokens.begin() || !before.empty())) {
      return {first, tokens.end()};
    }
  }
  return {};
}

}  // namespace

Guide::Guide(const SamplingParams& params, std::vector<TokenId> ends) : params_(params) {
  if (params.grammar) matcher_.emplace(params.grammar, std::move(ends));
  if (!params.thinking) return;
  place_ = Place::before;
  if (params.thinking->open) enter();
}

std::optional<TokenId> Guide::forced() const {
  return marker_ == nullptr ? std::nullopt : std::optional((*marker_)[written_]);
}

grammar::Matcher::Next Guide::fill_mask(std::span<int32_t> words) {
  constexpr uint32_t kBits = 32;
  const grammar::Matcher::Next next = matcher_->fill_mask(words);
  if (place_ == Place::after) return next;
  for (const std::vector<TokenId>& marker : params_.thinking->start_tokens) {
    const auto first = static_cast<uint32_t>(marker.front());
    words[first / kBits] |= static_cast<int32_t>(uint32_t{1} << first % kBits);
  }
  return grammar::Matcher::Next::tokens;
}

std::vector<TokenId> Guide::foresee(const text::Tokenizer& tokenizer, size_t most) {
  if (marker_ != nullptr) {
    return {marker_->begin() + static_cast<ptrdiff_t>(written_), marker_->end()};
  }
  if (!masks() || place_ == Place::before) return {};
  const std::string forced = matcher_->forced_text(most);
  if (forced.empty()) return {};
  try {
    std::vector<TokenId> tokens = tokens_within(tokenizer, forced);
    // A text that goes on may be cut otherwise at its end.
    if (!tokens.empty() && forced.size() >= most) tokens.pop_back();
    return tokens;
  } catch (const text::TextError&) {  // it begins within a character
    return {};
  }
}

void Guide::accept(TokenId token) {
  if (marker_ != nullptr) {
    if (++written_ < marker_->size()) return;
    const bool ends = marker_ == &params_.thinking->end_tokens;
    marker_ = nullptr;
    written_ = 0;
    if (ends) {
      place_ = Place::after;
    } else {
      enter();
    }
  } else if (place_ == Place::within) {
    if (++tokens_ == params_.thinking->budget) write(params_.thinking->end_tokens, 0);
  } else if (place_ == Place::between) {
    return;
  } else if (place_ == Place::before && matcher_) {
    begin(token);
  } else if (matcher_) {
    matcher_->accept(token);
  }
}

void Guide::enter() {
  place_ = Place::within;
  if (tokens_ >= params_.thinking->budget.value_or(kNoBudget))
    write(params_.thinking->end_tokens, 0);
}

void Guide::begin(TokenId token) {
  for (const std::vector<TokenId>& marker : params_.thinking->start_tokens) {
    if (marker.front() != token) continue;
    if (marker.size() == 1) return enter();
    return write(marker, 1);
  }
  place_ = Place::after;
  matcher_->accept(token);
}

void Guide::write(const std::vector<TokenId>& marker, size_t written) {
  marker_ = &marker;
  written_ = written;
}

void Guide::look(std::string_view text) {
  if (place_ == Place::before && matcher_) return;
  while (place_ != Place::after && written_ == 0) {
    const Thinking& thinking = *params_.thinking;
    Texts starts, ends, pauses;
    if (place_ != Place::within) starts = thinking.starts;
    if (place_ != Place::before) ends = thinking.ends;
    if (place_ == Place::within) pauses = thinking.pauses;
    const std::optional<size_t> found = find(text, {starts, ends, pauses});
    if (!found) return;
    marker_ = nullptr;
    if (*found == 0) {
      enter();
    } else {
      place_ = *found == 1 ? Place::after : Place::between;
    }
  }
}

std::optional<size_t> Guide::find(std::string_view text, std::initializer_list<Texts> kinds) {
  size_t first = std::string_view::npos, longest = 0, number = 0;
  std::optional<size_t> kind;
  for (const Texts markers : kinds) {
    for (const std::string& marker : markers) {
      const size_t at = text.find(marker, searched_);
      if (at != std::string_view::npos && at + marker.size() < first) {
        first = at + marker.size();
        kind = number;
      }
      longest = std::max(longest, marker.size());
    }
    ++number;
  }
  if (kind) {
    searched_ = first;
  } else if (text.size() >= longest) {  // a marker may have begun at the text's end
    searched_ = std::max(searched_, text.size() + 1 - longest);
  }
  return kind;
}

}  // namespace plimsoll::engine
