#include <algorithm>

#include "text/tokenizer.h"
#include "text/tokenizer/pipeline.h"

namespace plimsoll::text {
namespace {

// Tokens before a text that matter to its decoding: no decoder looks further back than one token,
// but a run of byte tokens may spell one character in four, and skipped special tokens take places.
constexpr size_t kContext = 16;

}  // namespace

struct Detokenizer::State {
  const Pipeline& tokenizer;
  Specials specials;
  DecodeStream stream;
  std::string seen;  // text of the prompt that was held back when the first new id came

  void push(TokenId id, std::string& out) { tokenizer.decode(id, specials, stream, out); }
  // Takes the prompt's share off the first text that comes out.
  void drop_seen(std::string& out) {
    if (seen.empty() || out.empty()) return;
    if (out.starts_with(seen)) {
      out.erase(0, seen.size());
      seen.clear();
    } else if (seen.starts_with(out)) {
      seen.erase(0, out.size());
      out.clear();
    } else {
      seen.clear();
    }
  }
};

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                         Specials specials)
    : state_(std::make_unique<State>(
          State{*tokenizer.impl_, specials, DecodeStream(tokenizer.impl_->decoder), {}})) {
  if (prompt.empty()) return;
  std::string shown;
  for (const TokenId id : prompt.subspan(prompt.size() - std::min(prompt.size(), kContext)))
    state_->push(id, shown);
  DecodeStream ended = state_->stream;
  ended.finish(state_->seen);
  // Half a character at the prompt's end comes out whole with the ids that complete it.
  while (state_->seen.ends_with(kReplacementCharacter)) {
    state_->seen.resize(state_->seen.size() - kReplacementCharacter.size());
  }
}

Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

std::string Detokenizer::push(TokenId id) {
  std::string out;
  state_->push(id, out);
  state_->drop_seen(out);
  return out;
}

std::string Detokenizer::pending() const {
  State ended = *state_;
  std::string out;
  ended.stream.finish(out);
  ended.drop_seen(out);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  state_->stream.finish(out);
  state_->drop_seen(out);
  return out;
}

}  // namespace plimsoll::text
