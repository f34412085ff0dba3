#include "engine/sampling/guide.h"

#include <algorithm>
#include <utility>

namespace plimsoll::engine {

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
  } else if (place_ == Place::before && matcher_) {
    begin(token);
  } else if (matcher_) {
    matcher_->accept(token);
  }
}

void Guide::enter() {
  place_ = Place::within;
  if (params_.thinking->budget == 0) write(params_.thinking->end_tokens, 0);
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
  if (place_ == Place::before && !matcher_ && find(text, params_.thinking->starts)) enter();
  if (place_ == Place::within && written_ == 0 && find(text, params_.thinking->ends)) {
    place_ = Place::after;
    marker_ = nullptr;
  }
}

bool Guide::find(std::string_view text, std::span<const std::string> markers) {
  size_t first = std::string_view::npos;
  size_t longest = 0;
  for (const std::string& marker : markers) {
    const size_t at = text.find(marker, searched_);
    if (at != std::string_view::npos) first = std::min(first, at + marker.size());
    longest = std::max(longest, marker.size());
  }
  if (first != std::string_view::npos) {
    searched_ = first;
    return true;
  }
  // A marker may have begun at the text's end.
  if (text.size() >= longest) searched_ = std::max(searched_, text.size() + 1 - longest);
  return false;
}

}  // namespace plimsoll::engine
