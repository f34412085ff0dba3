// sentencepiece's compiled character map: a double-array trie (darts-clone) from UTF-8 to offsets
// of replacements.
#include <cstring>
#include <stdexcept>

#include "text/tokenizer/normalizer.h"

namespace plimsoll::text {
namespace {

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(const std::string& charsmap) {
    uint32_t trie_bytes = 0;
    if (charsmap.size() < sizeof trie_bytes)
      throw std::runtime_error("precompiled_charsmap is too short");
    std::memcpy(&trie_bytes, charsmap.data(), sizeof trie_bytes);
    if (trie_bytes > charsmap.size() - sizeof trie_bytes || trie_bytes % sizeof(uint32_t) != 0) {
      throw std::runtime_error("precompiled_charsmap: the trie is longer than the table");
    }
    units_.resize(trie_bytes / sizeof(uint32_t));
    std::memcpy(units_.data(), charsmap.data() + sizeof trie_bytes, trie_bytes);
    replacements_ = charsmap.substr(sizeof trie_bytes + trie_bytes);
    if (!is_valid_utf8(replacements_))
      throw std::runtime_error("precompiled_charsmap: replacements are not UTF-8");
  }

  void apply(NormalizedText& text) const override {
    std::vector<CharacterChange> changed;
    bool modified = false;
    const auto put = [&](std::string_view part) {
      const auto replacement = look_up(part);
      if (replacement) append_replacement(changed, part, *replacement);
      modified = modified || replacement;
      return replacement.has_value();
    };
    for (std::string_view rest = text.text; !rest.empty();) {
      const std::string_view grapheme = rest.substr(0, first_grapheme(rest));
      rest.remove_prefix(grapheme.size());
      if (grapheme.size() < 6 && put(grapheme)) continue;
      for (size_t at = 0; at < grapheme.size();) {
        const size_t begin = at;
        const char32_t c = next_character(grapheme, at);
        if (!put(grapheme.substr(begin, at - begin))) changed.push_back({c, 0});
      }
    }
    if (modified) transform(text, changed);
  }

 private:
  [[nodiscard]] uint32_t unit(size_t at) const { return at < units_.size() ? units_[at] : 0; }
  static size_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

  // The replacement of the shortest key that `part` starts with, as the reference does it.
  [[nodiscard]] std::optional<std::string_view> look_up(std::string_view part) const {
    size_t node = offset(unit(0));
    for (const char c : part) {
      const auto label = static_cast<unsigned char>(c);
      if (label == 0) break;
      node ^= label;
      const uint32_t at = unit(node);
      if ((at & ((1u << 31) | 0xFF)) != label) return std::nullopt;
      node ^= offset(at);
      if (((at >> 8) & 1) == 0) continue;
      const size_t begin = unit(node) & ((1u << 31) - 1);
      if (begin >= replacements_.size() ||
          (static_cast<unsigned char>(replacements_[begin]) & 0xC0) == 0x80) {
        return std::nullopt;
      }
      const std::string_view rest = std::string_view(replacements_).substr(begin);
      return rest.substr(0, rest.find('\0'));
    }
    return std::nullopt;
  }

  static void append_replacement(std::vector<CharacterChange>& changed, std::string_view old,
                                 std::string_view made) {
    const auto count = [](std::string_view text) {
      int characters = 0;
      for (size_t at = 0; at < text.size(); ++characters) next_character(text, at);
      return characters;
    };
    const int more = count(made) - count(old);
    int left = count(made);
    for (size_t at = 0; at < made.size(); --left) {
      changed.push_back({next_character(made, at), left <= more ? 1 : 0});
    }
    if (more < 0 && !changed.empty()) changed.back().change += more;
  }

  std::vector<uint32_t> units_;
  std::string replacements_;  // ended by NUL, one after the other
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(std::string charsmap) {
  return std::make_unique<Precompiled>(charsmap);
}

}  // namespace plimsoll::text
