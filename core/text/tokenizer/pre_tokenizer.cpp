#include "text/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "text/budget.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/splitter.h"
#include "text/unicode/scripts.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void split_by_pattern(PreTokenized& text, const Pattern& pattern, SplitBehavior behavior,
                      SplitOn on) {
  Splitter splitter(text);
  for (const Piece& piece : splitter.old_pieces()) {
    splitter.begin(piece);
    pattern.for_each_match(text.view(piece),
                           [&](size_t begin, size_t end) { splitter.match(begin, end, on); });
    splitter.finish(behavior, on);
  }
}

template <typename IsDelimiter>
void split_by_character(PreTokenized& text, IsDelimiter&& is_delimiter, SplitBehavior behavior) {
  Splitter splitter(text);
  for (const Piece& piece : splitter.old_pieces()) {
    splitter.begin(piece);
    const std::string_view view = text.view(piece);
    for (size_t at = 0; at < view.size();) {
      const size_t begin = at;
      if (is_delimiter(next_character(view, at))) splitter.match(begin, at, SplitOn::matches);
    }
    splitter.finish(behavior, SplitOn::matches);
  }
}

// \w+|[^\w\s]+ as the Rust crate `regex` reads it.
void split_words(PreTokenized& text) {
  enum class Kind { space, word, other };
  const auto kind = [](char32_t c) {
    return is_word(c) ? Kind::word : is_white_space(c) ? Kind::space : Kind::other;
  };
  Splitter splitter(text);
  for (const Piece& piece : splitter.old_pieces()) {
    splitter.begin(piece);
    const std::string_view view = text.view(piece);
    size_t begin = 0;
    Kind last = Kind::space;
    for (size_t at = 0; at < view.size();) {
      const size_t start = at;
      const Kind now = kind(next_character(view, at));
      if (now != last) {
        if (last != Kind::space) splitter.put(begin, start);
        begin = start;
      }
      last = now;
    }
    if (last != Kind::space) splitter.put(begin, view.size());
  }
}

template <typename Apply>
class PreTokenizerOf final : public PreTokenizer {
 public:
  explicit PreTokenizerOf(Apply function) : function_(std::move(function)) {}
  void apply(PreTokenized& text) const override { function_(text); }

 private:
  Apply function_;
};

template <typename Apply>
std::unique_ptr<PreTokenizer> pre_tokenizer(Apply function) {
  return std::make_unique<PreTokenizerOf<Apply>>(std::move(function));
}

// Builds the text anew, piece by piece: `rewrite(piece's view, piece, out)` appends what the piece
// becomes, and sets its head.
template <typename Rewrite>
void rewrite_pieces(PreTokenized& text, Rewrite&& rewrite) {
  std::string out;
  out.reserve(text.text.size() + text.text.size() / 2 + 16);
  for (Piece& piece : text.pieces) {
    const size_t begin = out.size();
    rewrite(text.view(piece), piece, out);
    piece.begin = begin;
    piece.end = out.size();
  }
  TextBudget::check_size(out.size());
  text.text = std::move(out);
}

void add_prefix_space(PreTokenized& text) {
  rewrite_pieces(text, [](std::string_view view, Piece& piece, std::string& out) {
    if (!view.starts_with(' ')) {
      out += ' ';
      if (piece.head > 0) ++piece.head;
    }
    out += view;
  });
}

void spell_bytes(PreTokenized& text) {
  rewrite_pieces(text, [](std::string_view view, Piece& piece, std::string& out) {
    const size_t begin = out.size();
    byte_level::append(out, view.substr(0, piece.head));
    const size_t head = out.size() - begin;
    byte_level::append(out, view.substr(std::min(piece.head, view.size())));
    piece.head = head;
  });
}

void metaspace(PreTokenized& text, const MetaspaceOptions& options, const std::string& mark) {
  rewrite_pieces(text, [&](std::string_view view, Piece& piece, std::string& out) {
    const bool wanted = options.scheme == PrependScheme::always ||
                        (options.scheme == PrependScheme::first && piece.at_origin);
    const size_t begin = out.size();
    const size_t old_head = piece.head;
    if (wanted && !view.starts_with(' ') && !view.starts_with(mark)) {
      out += mark;
      if (old_head > 0) piece.head += mark.size();
    }
    for (size_t at = 0; at < view.size();) {
      const size_t space = std::min(view.find(' ', at), view.size());
      out.append(view, at, space - at);
      if (space < view.size()) out += mark;
      if (space < old_head) piece.head += mark.size() - 1;
      at = space + 1;
    }
    piece.head = std::min(piece.head, out.size() - begin);
  });
  if (!options.split) return;
  split_by_character(
      text, [&](char32_t c) { return c == options.replacement; }, SplitBehavior::merged_with_next);
}

// Japanese and Chinese count as one script; a space, and what belongs to no script, stays with what
// came before.
void split_scripts(PreTokenized& text) {
  Splitter splitter(text);
  for (const Piece& piece : splitter.old_pieces()) {
    splitter.begin(piece);
    const std::string_view view = text.view(piece);
    std::optional<Script> last;
    std::optional<size_t> begin;
    for (size_t at = 0; at < view.size();) {
      const size_t start = at;
      const Script script = segmentation_script(next_character(view, at));
      if (script == Script::any) continue;
      if (last != script) {
        // Before the first script nothing is kept, as in the reference.
        if (begin) splitter.put(*begin, start);
        begin = start;
      }
      last = script;
    }
    if (begin) splitter.put(*begin, view.size());
  }
}

void split_lengths(PreTokenized& text, size_t length) {
  Splitter splitter(text);
  for (const Piece& piece : splitter.old_pieces()) {
    splitter.begin(piece);
    const std::string_view view = text.view(piece);
    for (size_t at = 0; at < view.size();) {
      const size_t begin = at;
      for (size_t i = 0; i < length && at < view.size(); ++i) next_character(view, at);
      splitter.put(begin, at);
    }
  }
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer_sequence(
    std::vector<std::unique_ptr<PreTokenizer>> parts) {
  return pre_tokenizer([parts = std::move(parts)](PreTokenized& text) {
    for (const auto& part : parts) part->apply(text);
  });
}

std::unique_ptr<PreTokenizer> make_byte_level(ByteLevelOptions options) {
  std::optional<Pattern> words;
  if (options.use_regex) words = Pattern::regex(kGpt2Words);
  return pre_tokenizer([options, words = std::move(words)](PreTokenized& text) {
    if (options.add_prefix_space) add_prefix_space(text);
    if (words) split_by_pattern(text, *words, SplitBehavior::isolated, SplitOn::matches);
    spell_bytes(text);
  });
}

std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer() {
  return pre_tokenizer([](PreTokenized& text) {
    split_by_character(text, is_white_space, SplitBehavior::removed);
    split_by_character(text, is_punctuation, SplitBehavior::isolated);
  });
}

std::unique_ptr<PreTokenizer> make_whitespace() {
  return pre_tokenizer(split_words);
}

std::unique_ptr<PreTokenizer> make_whitespace_split() {
  return pre_tokenizer(
      [](PreTokenized& text) { split_by_character(text, is_white_space, SplitBehavior::removed); });
}

std::unique_ptr<PreTokenizer> make_digits(DigitGroups groups) {
  const auto behavior =
      groups == DigitGroups::individual ? SplitBehavior::isolated : SplitBehavior::contiguous;
  return pre_tokenizer(
      [behavior](PreTokenized& text) { split_by_character(text, is_numeric, behavior); });
}

std::unique_ptr<PreTokenizer> make_punctuation(SplitBehavior behavior) {
  return pre_tokenizer(
      [behavior](PreTokenized& text) { split_by_character(text, is_punctuation, behavior); });
}

std::unique_ptr<PreTokenizer> make_split(Pattern pattern, SplitBehavior behavior, SplitOn on) {
  return pre_tokenizer([pattern = std::move(pattern), behavior, on](PreTokenized& text) {
    split_by_pattern(text, pattern, behavior, on);
  });
}

std::unique_ptr<PreTokenizer> make_char_delimiter_split(char32_t delimiter) {
  return pre_tokenizer([delimiter](PreTokenized& text) {
    split_by_character(
        text, [&](char32_t c) { return c == delimiter; }, SplitBehavior::removed);
  });
}

std::unique_ptr<PreTokenizer> make_metaspace(MetaspaceOptions options) {
  std::string mark;
  append_character(mark, options.replacement);
  return pre_tokenizer(
      [options, mark = std::move(mark)](PreTokenized& text) { metaspace(text, options, mark); });
}

std::unique_ptr<PreTokenizer> make_unicode_scripts() {
  return pre_tokenizer(split_scripts);
}

std::unique_ptr<PreTokenizer> make_fixed_length(size_t length) {
  return pre_tokenizer([length](PreTokenized& text) { split_lengths(text, length); });
}

}  // namespace plimsoll::text
