#include "engine/sampling/guide.h"

#include <algorithm>
#include <utility>

namespace plimsoll::engine {

Guide::Guide(const SamplingParams& params, std::vector<TokenId> ends) : params_(params) {
  if (params.grammar) matcher_.emplace(params.grammar, std::move(ends));
  if (params.thinking) thinking_ = params.thinking->open ? Place::within : Place::before;
}

std::optional<TokenId> Guide::forced() const {
  if (thinking_ != Place::within) return std::nullopt;
  const Thinking& thinking = *params_.thinking;
  if (!thinking.budget || tokens_ < *thinking.budget) return std::nullopt;
  return thinking.end_tokens[written_];
}

void Guide::accept(TokenId token) {
  if (thinking_ == Place::after) {
    if (matcher_) matcher_->accept(token);
    return;
  }
  if (thinking_ == Place::before) return;
  if (!forced()) {
    ++tokens_;
  } else if (++written_ == params_.thinking->end_tokens.size()) {
    thinking_ = Place::after;
  }
}

void Guide::look(std::string_view text) {
  if (thinking_ == Place::before && find(text, params_.thinking->starts)) {
    thinking_ = Place::within;
  }
  if (thinking_ == Place::within && written_ == 0 && find(text, params_.thinking->ends)) {
    thinking_ = Place::after;
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
