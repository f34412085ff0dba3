// The normalizers of tokenizer.json, which change a section of text before it is cut into words.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex/regex.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {

/// A section of the input while it is being changed. `head` is for Metaspace's scheme "first",
/// which treats a piece at the input's start differently.
struct NormalizedText {
  std::string text;
  bool at_origin = false;  // the section starts at the input's first byte
  size_t head = 0;  // the first `head` bytes of `text` come from the section's first character
};

/// One character of a changed text: `change` 0 replaces a character of the old text, 1 is inserted,
/// -n replaces one and drops the n behind it.
struct CharacterChange {
  char32_t character;
  int change;
};

/// Replaces the old text by the changed characters; the first `dropped` old characters are removed.
void transform(NormalizedText& text, const std::vector<CharacterChange>& changed,
               size_t dropped = 0);
void prepend(NormalizedText& text, std::string_view prefix);

/// A pattern from a file: {"String": ...} or {"Regex": ...}.
class Pattern {
 public:
  static Pattern literal(std::string text);
  static Pattern regex(std::string_view pattern) { return Pattern({}, Regex(pattern)); }

  template <typename Found>
  void for_each_match(std::string_view text, Found&& found) const {
    if (text.empty()) return;  // where the reference finds nothing, not even the empty match
    if (regex_) {
      regex_->for_each_match(text, found);
      return;
    }
    for (size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, at + literal_.size())) {
      found(at, at + literal_.size());
    }
  }

 private:
  Pattern(std::string literal, std::optional<Regex> regex)
      : literal_(std::move(literal)), regex_(std::move(regex)) {}
  std::string literal_;
  std::optional<Regex> regex_;
};

void replace(NormalizedText& text, const Pattern& pattern, std::string_view content);

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
};

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents;  // as `lowercase` when absent
  bool lowercase = true;
};

struct StripSides {
  bool left = true;
  bool right = true;
};

std::unique_ptr<Normalizer> make_normalizer_sequence(
    std::vector<std::unique_ptr<Normalizer>> parts);
std::unique_ptr<Normalizer> make_unicode_normalizer(UnicodeForm form);
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_strip(StripSides sides);
std::unique_ptr<Normalizer> make_strip_accents();
std::unique_ptr<Normalizer> make_nmt();
std::unique_ptr<Normalizer> make_replace(Pattern pattern, std::string content);
std::unique_ptr<Normalizer> make_prepend(std::string prefix);
std::unique_ptr<Normalizer> make_bert_normalizer(BertNormalizerOptions options);
std::unique_ptr<Normalizer> make_byte_level_normalizer();
/// `charsmap`: sentencepiece's compiled table, decoded from base64. Throws RegexError-like
/// std::runtime_error when broken.
std::unique_ptr<Normalizer> make_precompiled(std::string charsmap);

}  // namespace plimsoll::text
