#include "text/tokenizer/normalizer.h"

#include <algorithm>

#include "text/budget.h"
#include "text/tokenizer/byte_level.h"

namespace plimsoll::text {

Pattern Pattern::literal(std::string text) {
  // Matches of the empty text lie between all characters, which is the regular expression's
  // business.
  if (text.empty()) return Pattern({}, Regex(""));
  return Pattern(std::move(text), std::nullopt);
}

void transform(NormalizedText& text, const std::vector<CharacterChange>& changed, size_t dropped) {
  const std::string_view old = text.text;
  size_t at = 0;  // of the next old character
  const auto skip = [&] { at += at < old.size() ? utf8_length(old[at]) : 0; };
  for (size_t i = 0; i < dropped; ++i) skip();
  std::string out;
  out.reserve(old.size());
  size_t head = 0;
  bool in_head = true;
  for (const auto& [character, change] : changed) {
    // An inserted character belongs where the one before it came from.
    const bool from_first = change > 0 ? at <= text.head || at == 0 : at < text.head;
    if (change <= 0) {
      for (int i = change; i <= 0; ++i) skip();
    }
    append_character(out, character);
    in_head = in_head && from_first;
    if (in_head) head = out.size();
  }
  TextBudget::check_size(out.size());
  text.text = std::move(out);
  text.head = head;
}

void prepend(NormalizedText& text, std::string_view prefix) {
  if (text.text.empty()) return;
  TextBudget::check_size(text.text.size() + prefix.size());
  if (text.head > 0) text.head += prefix.size();
  text.text.insert(0, prefix);
}

void replace(NormalizedText& text, const Pattern& pattern, std::string_view content) {
  const std::string_view old = text.text;
  std::string out;
  size_t last = 0;
  size_t head = 0;
  bool changed = false;
  const auto copy = [&](size_t end) {
    if (last < text.head) head = out.size() + std::min(end, text.head) - last;
    out.append(old, last, end - last);
    last = end;
  };
  pattern.for_each_match(old, [&](size_t begin, size_t end) {
    if (!changed) out.reserve(old.size() + old.size() / 4 + content.size());
    changed = true;
    copy(begin);
    TextBudget::check_size(out.size() + content.size());
    out += content;  // it belongs where the match's last byte came from
    if (end <= text.head) head = out.size();
    last = end;
  });
  if (!changed) return;
  copy(old.size());
  text.text = std::move(out);
  text.head = head;
}

namespace {

template <typename Apply>
class NormalizerOf final : public Normalizer {
 public:
  explicit NormalizerOf(Apply function) : function_(std::move(function)) {}
  void apply(NormalizedText& text) const override { function_(text); }

 private:
  Apply function_;
};

template <typename Apply>
std::unique_ptr<Normalizer> normalizer(Apply function) {
  return std::make_unique<NormalizerOf<Apply>>(std::move(function));
}

template <typename Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  for (size_t at = 0; at < text.size();) visit(next_character(text, at));
}

// Keeps the characters that `keep` wants, changed by `map`.
template <typename Keep, typename Map>
void filter(NormalizedText& text, Keep&& keep, Map&& map) {
  std::vector<CharacterChange> changed;
  size_t dropped = 0;
  for_each_character(text.text, [&](char32_t c) {
    if (keep(c)) {
      changed.push_back({map(c), 0});
    } else if (changed.empty()) {
      ++dropped;
    } else {
      --changed.back().change;
    }
  });
  transform(text, changed, dropped);
}

char32_t same(char32_t c) {
  return c;
}

void lowercase(NormalizedText& text) {
  std::vector<CharacterChange> changed;
  char32_t buffer[2];
  for_each_character(text.text, [&](char32_t c) {
    int change = 0;
    for (const char32_t lower : lower_case(c, buffer)) changed.push_back({lower, change++});
  });
  transform(text, changed);
}

// Converts to a Unicode normalisation form. A form may move bytes between characters; then the
// first character's share is what it becomes alone.
void to_unicode_form(NormalizedText& text, UnicodeForm form) {
  std::string changed = to_form(text.text, form);
  if (changed == text.text) return;
  const std::string head = to_form(std::string_view(text.text).substr(0, text.head), form);
  text.head = std::min(head.size(), changed.size());
  while (text.head > 0 && text.head < changed.size() &&
         (static_cast<unsigned char>(changed[text.head]) & 0xC0) == 0x80) {
    ++text.head;  // composed with what follows
  }
  TextBudget::check_size(changed.size());
  text.text = std::move(changed);
}

void strip(NormalizedText& text, StripSides sides) {
  std::string_view kept = text.text;
  size_t dropped = 0;
  for (size_t at = 0; sides.left && at < kept.size(); dropped = at) {
    if (!is_white_space(next_character(kept, at))) break;
  }
  kept.remove_prefix(dropped);
  while (sides.right && !kept.empty()) {
    const size_t last = previous_character(kept, kept.size());
    size_t at = last;
    if (!is_white_space(next_character(kept, at))) break;
    kept.remove_suffix(kept.size() - last);
  }
  text.head = std::min(text.head > dropped ? text.head - dropped : 0, kept.size());
  text.text = std::string(kept);
}

bool survives_nmt(char32_t c) {
  return !((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
           c == 0x8F || c == 0x9F);
}

char32_t nmt_space(char32_t c) {
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return space ? U' ' : c;
}

bool is_clean(char32_t c) {
  return c != 0 && c != 0xFFFD && (c == '\t' || c == '\n' || c == '\r' || !is_other(c));
}

void set_chinese_apart(NormalizedText& text) {
  std::vector<CharacterChange> changed;
  for_each_character(text.text, [&](char32_t c) {
    if (is_chinese(c)) {
      changed.insert(changed.end(), {{U' ', 0}, {c, 1}, {U' ', 1}});
    } else {
      changed.push_back({c, 0});
    }
  });
  transform(text, changed);
}

void bert(NormalizedText& text, const BertNormalizerOptions& options) {
  if (options.clean_text) {
    filter(text, is_clean, [](char32_t c) { return is_white_space(c) ? U' ' : c; });
  }
  if (options.handle_chinese_chars) set_chinese_apart(text);
  if (options.strip_accents.value_or(options.lowercase)) {
    to_unicode_form(text, UnicodeForm::nfd);
    filter(
        text, [](char32_t c) { return !is_nonspacing_mark(c); }, same);
  }
  if (options.lowercase) lowercase(text);
}

void spell_bytes(NormalizedText& text) {
  TextBudget::check_size(text.text.size() * 2);
  std::string out;
  out.reserve(text.text.size() * 2);
  byte_level::append(out, std::string_view(text.text).substr(0, text.head));
  const size_t head = out.size();
  byte_level::append(out, std::string_view(text.text).substr(text.head));
  text.text = std::move(out);
  text.head = head;
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer_sequence(
    std::vector<std::unique_ptr<Normalizer>> parts) {
  return normalizer([parts = std::move(parts)](NormalizedText& text) {
    for (const auto& part : parts) part->apply(text);
  });
}

std::unique_ptr<Normalizer> make_unicode_normalizer(UnicodeForm form) {
  return normalizer([form](NormalizedText& text) { to_unicode_form(text, form); });
}

std::unique_ptr<Normalizer> make_lowercase() {
  return normalizer(lowercase);
}

std::unique_ptr<Normalizer> make_strip(StripSides sides) {
  return normalizer([sides](NormalizedText& text) { strip(text, sides); });
}

std::unique_ptr<Normalizer> make_strip_accents() {
  return normalizer([](NormalizedText& text) {
    filter(
        text, [](char32_t c) { return !is_combining_mark(c); }, same);
  });
}

std::unique_ptr<Normalizer> make_nmt() {
  return normalizer([](NormalizedText& text) { filter(text, survives_nmt, nmt_space); });
}

std::unique_ptr<Normalizer> make_replace(Pattern pattern, std::string content) {
  return normalizer([pattern = std::move(pattern), content = std::move(content)](
                        NormalizedText& text) { replace(text, pattern, content); });
}

std::unique_ptr<Normalizer> make_prepend(std::string prefix) {
  return normalizer([prefix = std::move(prefix)](NormalizedText& text) { prepend(text, prefix); });
}

std::unique_ptr<Normalizer> make_bert_normalizer(BertNormalizerOptions options) {
  return normalizer([options](NormalizedText& text) { bert(text, options); });
}

std::unique_ptr<Normalizer> make_byte_level_normalizer() {
  return normalizer(spell_bytes);
}

}  // namespace plimsoll::text
