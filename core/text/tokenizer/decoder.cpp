#include "text/tokenizer/decoder.h"

#include <algorithm>
#include <array>

#include "base/replace.h"
#include "text/tokenizer/byte_level.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

// English tokenisation artefacts, as the WordPiece decoder has them.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kArtefacts = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kArtefacts) replace_all(text, from, to);
}

std::string strip(std::string_view token, const StripDecode& step) {
  size_t cut = 0;
  for (size_t i = 0; i < step.start && cut < token.size(); ++i) {
    size_t at = cut;
    if (next_character(token, at) != step.content) break;
    cut = at;
  }
  size_t end = token.size();
  for (size_t i = 0; i < step.stop && end > cut; ++i) {
    const size_t last = previous_character(token, end);
    size_t at = last;
    if (next_character(token, at) != step.content) break;
    end = last;
  }
  return std::string(token.substr(cut, end - cut));
}

std::string replaced(std::string_view token, const ReplaceDecode& step) {
  std::string out;
  size_t last = 0;
  step.pattern.for_each_match(token, [&](size_t begin, size_t end) {
    out.append(token, last, begin - last);
    out += step.content;
    last = end;
  });
  return out.append(token, last);
}

std::string without_marks(std::string_view token, char32_t mark, std::string_view instead) {
  std::string spelled;
  append_character(spelled, mark);
  std::string out(token);
  replace_all(out, spelled, instead);
  return out;
}

// Moves the complete characters of `bytes` to the returned text, broken ones as U+FFFD. What more
// bytes could still complete stays.
std::string take_complete(std::string& bytes) {
  std::string out;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Unit unit = first_utf8_unit(rest);
    if (unit.open) break;
    out += unit.valid ? rest.substr(0, unit.length) : kReplacementCharacter;
    rest.remove_prefix(unit.length);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return out;
}

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const int letter = c | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
  };
  const int high = digit(token[3]);
  const int low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void Decoder::add(Step step) {
  const bool fused = std::ranges::any_of(steps_, [](const Placed& placed) {
    return std::holds_alternative<FuseDecode>(placed.step) ||
           std::holds_alternative<ByteLevelDecode>(placed.step);
  });
  steps_.push_back({std::move(step), fused});
}

std::string Decoder::token_bytes(std::string_view token) const {
  std::string text(token);
  for (const Placed& placed : steps_) {
    const bool done = std::visit(
        Overloaded{
            [&](const ByteLevelDecode&) {
              std::string bytes;
              if (byte_level::append_bytes(bytes, text)) text = std::move(bytes);
              return true;
            },
            [&](const ByteFallbackDecode&) {
              const int byte = byte_of_token(text);
              if (byte >= 0) text.assign(1, static_cast<char>(byte));
              return byte >= 0;
            },
            [&](const SentencePieceDecode&) {
              const int byte = byte_of_token(text);
              text = byte >= 0 ? std::string(1, static_cast<char>(byte))
                               : without_marks(text, U'\u2581', " ");
              return byte >= 0;
            },
            [&](const MetaspaceDecode& step) {
              return text = without_marks(text, step.replacement, " "), false;
            },
            [&](const WordPieceDecode& step) {
              const bool goes_on = text.starts_with(step.prefix);
              text.replace(0, goes_on ? step.prefix.size() : 0, goes_on ? "" : " ");
              return false;
            },
            [&](const BpeDecode& step) { return replace_all(text, step.suffix, " "), false; },
            [&](const CtcDecode& step) {
              return replace_all(text, step.word_delimiter_token, " "), false;
            },
            [&](const ReplaceDecode& step) { return text = replaced(text, step), false; },
            [](const auto&) { return false; }},
        placed.step);
    if (done) break;
  }
  return text;
}

// Runs one step of a decoder on a token, and at the end of the text. `next` passes a token to the
// next step.
struct StepRunner {
  DecodeStream& stream;
  size_t step;
  std::string& out;

  [[nodiscard]] DecodeStream::State& state() const { return stream.states_[step]; }
  void next(std::string_view token) const { stream.push(step + 1, token, out); }

  void push(const ByteLevelDecode&, std::string_view token) const {
    std::string& held = state().held;
    if (!byte_level::append_bytes(held, token)) held += token;
    const std::string text = take_complete(held);
    if (!text.empty()) next(text);
  }
  void push(const ByteFallbackDecode& fallback, std::string_view token) const {
    const int byte = byte_of_token(token);
    if (byte >= 0) {
      state().held += static_cast<char>(byte);
      return;
    }
    finish(fallback);
    next(token);
  }
  void push(const FuseDecode&, std::string_view token) const { next(token); }
  void push(const StripDecode& strip_step, std::string_view token) const {
    next(strip(token, strip_step));
  }
  void push(const MetaspaceDecode& step_kind, std::string_view token) const {
    const bool drop = !state().started && step_kind.drop_in_first;
    state().started = true;
    next(without_marks(token, step_kind.replacement, drop ? "" : " "));
  }
  void push(const WordPieceDecode& pieces, std::string_view token) const {
    std::string text(token);
    if (state().started) {
      if (token.starts_with(pieces.prefix))
        text.erase(0, pieces.prefix.size());
      else
        text.insert(0, 1, ' ');
    }
    state().started = true;
    if (pieces.cleanup) clean_up(text);
    next(text);
  }
  // The last token's suffix is dropped, the others' become spaces: the newest token waits.
  void push(const BpeDecode& bpe, std::string_view token) const {
    if (state().started) {
      std::string text = std::move(state().held);
      replace_all(text, bpe.suffix, " ");
      next(text);
    }
    state().started = true;
    state().held = token;
  }
  void push(const CtcDecode& ctc, std::string_view token) const {
    if (state().started && state().held == token) return;
    state().started = true;
    state().held = token;
    std::string text(token);
    replace_all(text, ctc.pad_token, "");
    if (ctc.cleanup) {
      clean_up(text);
      replace_all(text, ctc.word_delimiter_token, " ");
    }
    if (!text.empty()) next(text);
  }
  void push(const ReplaceDecode& replace_step, std::string_view token) const {
    next(replaced(token, replace_step));
  }
  void push(const SpacedDecode&, std::string_view token) const {
    if (state().started) next(" ");
    state().started = true;
    next(token);
  }
  void push(const SentencePieceDecode& pieces, std::string_view token) const {
    const int byte = byte_of_token(token);
    if (byte >= 0) {
      state().held += static_cast<char>(byte);
      state().started = true;
      next_bytes();
      return;
    }
    finish(pieces);
    const std::string text(token);
    if (pieces.controls.contains(text)) return;
    if (text == pieces.unknown) {
      state().started = true;
      next(" \u2047 ");
      return;
    }
    constexpr std::string_view kMark = "\u2581";
    std::string_view rest = token;
    if (!state().started && pieces.drop_first_space && rest.starts_with(kMark)) {
      rest.remove_prefix(kMark.size());
      // The next piece is still at the start where extra spaces are removed.
      state().started = !pieces.drop_all_leading_spaces;
    }
    if (!rest.empty()) state().started = true;
    next(without_marks(rest, U'\u2581', " "));
  }
  // Unlike elsewhere, a broken character is as many U+FFFD as it has bytes.
  void next_bytes() const {
    std::string& held = state().held;
    std::string text;
    while (!held.empty()) {
      const Utf8Unit unit = first_utf8_unit(held);
      if (unit.open) break;
      text += unit.valid ? std::string_view(held).substr(0, unit.length) : kReplacementCharacter;
      held.erase(0, unit.valid ? unit.length : 1);
    }
    if (!text.empty()) next(text);
  }

  // The first `start` characters at most are cut, and as many at the end may have to be: they wait.
  void push_fused(const StripDecode& strip_step, std::string_view chunk) const {
    std::string& held = state().held;
    held += chunk;
    std::string_view rest = held;
    while (!state().started && !rest.empty()) {
      size_t at = 0;
      const bool cut =
          state().count < strip_step.start && next_character(rest, at) == strip_step.content;
      state().started = !cut;
      if (cut) {
        rest.remove_prefix(at);
        ++state().count;
      }
    }
    size_t end = rest.size();
    for (size_t i = 0; i < strip_step.stop && end > 0; ++i) {
      const size_t last = previous_character(rest, end);
      size_t at = last;
      if (next_character(rest, at) != strip_step.content) break;
      end = last;
    }
    if (end > 0) next(rest.substr(0, end));
    held.erase(0, held.size() - rest.size() + end);
  }
  void push_fused(const MetaspaceDecode& step_kind, std::string_view chunk) const {
    next(without_marks(chunk, step_kind.replacement, step_kind.drop_in_first ? "" : " "));
  }
  void push_fused(const FuseDecode&, std::string_view chunk) const { next(chunk); }
  // The others must see their one token whole.
  void push_fused(const auto&, std::string_view chunk) const { state().held += chunk; }

  void finish(const ByteLevelDecode&) const {
    const bool unfinished = !state().held.empty();
    state().held.clear();
    if (unfinished) next(kReplacementCharacter);
  }
  void finish(const SentencePieceDecode&) const {
    const size_t bytes = state().held.size();
    state().held.clear();
    for (size_t i = 0; i < bytes; ++i) next(kReplacementCharacter);
  }
  // A run of bytes is text as a whole or not at all.
  void finish(const ByteFallbackDecode&) const {
    const std::string held = std::move(state().held);
    state().held.clear();
    if (held.empty()) return;
    if (is_valid_utf8(held)) {
      next(held);
    } else {
      for (size_t i = 0; i < held.size(); ++i) next(kReplacementCharacter);
    }
  }
  void finish(const BpeDecode& bpe) const {
    std::string held = std::move(state().held);
    state().held.clear();
    replace_all(held, bpe.suffix, "");
    if (!held.empty()) next(held);
  }
  void finish(const auto&) const {}

  void finish_fused(const StripDecode&) const {}  // what is held is what is cut
  void finish_fused(const MetaspaceDecode&) const {}
  void finish_fused(const FuseDecode&) const {}
  void finish_fused(const auto& kind) const {
    const std::string whole = std::move(state().held);
    state().held.clear();
    push(kind, whole);
    finish(kind);
  }
};

void DecodeStream::push(size_t step, std::string_view token, std::string& out) {
  if (step == states_.size()) {
    out += token;
    return;
  }
  const Decoder::Placed& placed = decoder_->steps_[step];
  const StepRunner runner{*this, step, out};
  std::visit(
      [&](const auto& kind) {
        placed.fused ? runner.push_fused(kind, token) : runner.push(kind, token);
      },
      placed.step);
}

void DecodeStream::push_added(std::string_view token, std::string& out) {
  const bool sentencepiece = !states_.empty() && std::holds_alternative<SentencePieceDecode>(
                                                     decoder_->steps_.front().step);
  if (!sentencepiece) {
    push(token, out);
    return;
  }
  finish(out);
  states_.front() = {};  // what follows starts with a dummy space again
  out += token;
}

void DecodeStream::finish(size_t step, std::string& out) {
  for (; step < states_.size(); ++step) {
    const Decoder::Placed& placed = decoder_->steps_[step];
    const StepRunner runner{*this, step, out};
    std::visit(
        [&](const auto& kind) { placed.fused ? runner.finish_fused(kind) : runner.finish(kind); },
        placed.step);
  }
}

}  // namespace plimsoll::text
