// The pre-tokenizers of tokenizer.json: a normalised section is cut into the words that the model
// sees.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/normalizer.h"

namespace plimsoll::text {

struct Piece {
  size_t begin = 0;  // in PreTokenized::text
  size_t end = 0;
  bool at_origin = false;  // as in NormalizedText, of this piece
  size_t head = 0;
};

/// A text and the pieces that it is cut into; no piece is empty.
struct PreTokenized {
  std::string text;
  std::vector<Piece> pieces;

  [[nodiscard]] std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

/// Treatment of delimiters in a split.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
/// Whether delimiters are the matches of a pattern, or the gaps between matches.
enum class SplitOn { matches, gaps };
enum class PrependScheme { first, never, always };

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PreTokenized& text) const = 0;
};

struct ByteLevelOptions {
  bool add_prefix_space = true;
  bool use_regex = true;
};

struct MetaspaceOptions {
  char32_t replacement = U'\u2581';
  PrependScheme scheme = PrependScheme::always;
  bool split = true;
};

enum class DigitGroups { whole, individual };

std::unique_ptr<PreTokenizer> make_pre_tokenizer_sequence(
    std::vector<std::unique_ptr<PreTokenizer>> parts);
std::unique_ptr<PreTokenizer> make_byte_level(ByteLevelOptions options);
std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer();
std::unique_ptr<PreTokenizer> make_whitespace();
std::unique_ptr<PreTokenizer> make_whitespace_split();
std::unique_ptr<PreTokenizer> make_digits(DigitGroups groups);
std::unique_ptr<PreTokenizer> make_punctuation(SplitBehavior behavior);
std::unique_ptr<PreTokenizer> make_split(Pattern pattern, SplitBehavior behavior, SplitOn on);
std::unique_ptr<PreTokenizer> make_char_delimiter_split(char32_t delimiter);
std::unique_ptr<PreTokenizer> make_metaspace(MetaspaceOptions options);
std::unique_ptr<PreTokenizer> make_unicode_scripts();
/// `length` in characters, above 0.
std::unique_ptr<PreTokenizer> make_fixed_length(size_t length);

}  // namespace plimsoll::text
