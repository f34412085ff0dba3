#include <fmt/format.h>

#include <optional>

#include "grammar/patterns/regex.h"
#include "grammar/patterns/regex_reader.h"
#include "text/unicode/unicode.h"

namespace plimsoll::grammar {
namespace {

using Kind = RegexNode::Kind;

constexpr int kMaxGroups = 200;
constexpr uint32_t kMaxRepeats = 100'000;

const CharSet kDigits = {{'0', '9'}};
const CharSet kWord = normalized({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
const CharSet kSpace = normalized({{9, 13},
                                   {' ', ' '},
                                   {0xA0, 0xA0},
                                   {0x1680, 0x1680},
                                   {0x2000, 0x200A},
                                   {0x2028, 0x2029},
                                   {0x202F, 0x202F},
                                   {0x205F, 0x205F},
                                   {0x3000, 0x3000},
                                   {0xFEFF, 0xFEFF}});
const CharSet kLineEnds = normalized({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});

class Reader {
 public:
  explicit Reader(std::string_view pattern) : text_(code_points_of(pattern)) {}

  RegexNode read() {
    RegexNode node = choice();
    if (at_ < text_.size()) fail("an unmatched )");
    return node;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw RegexError(fmt::format("{} at character {}", what, at_ + 1));
  }
  [[nodiscard]] bool more() const { return at_ < text_.size(); }
  [[nodiscard]] char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0';
  }
  bool take(char32_t c) {
    if (!more() || peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view text) {
    if (text_.compare(at_, text.size(), text) != 0) return false;
    at_ += text.size();
    return true;
  }

  static RegexNode of_set(CharSet set) { return {.kind = Kind::set, .set = std::move(set)}; }
  static RegexNode with_children(Kind kind, std::vector<RegexNode> children) {
    if (children.size() == 1) return std::move(children[0]);
    RegexNode node{.kind = kind, .children = std::move(children)};
    for (const auto& child : node.children) node.asserts |= child.asserts;
    return node;
  }

  RegexNode choice() {
    if (++depth_ > kMaxGroups) fail("more than 200 groups in each other");
    std::vector<RegexNode> branches;
    do branches.push_back(sequence());
    while (take(U'|'));
    --depth_;
    return with_children(Kind::choice, std::move(branches));
  }

  RegexNode sequence() {
    std::vector<RegexNode> parts;
    while (more() && peek() != U'|' && peek() != U')') parts.push_back(repeated(atom()));
    return with_children(Kind::sequence, std::move(parts));
  }

  std::optional<std::pair<uint32_t, uint32_t>> braces() {
    size_t i = at_ + 1;
    const auto number = [&]() -> std::optional<uint32_t> {
      if (i >= text_.size() || text_[i] < U'0' || text_[i] > U'9') return {};
      uint32_t value = 0;
      for (; i < text_.size() && text_[i] >= U'0' && text_[i] <= U'9'; ++i) {
        value = std::min(value * 10 + (text_[i] - U'0'), kMaxRepeats + 1);
      }
      return value;
    };
    const auto least = number();
    if (!least) return {};
    uint32_t most = *least;
    if (i < text_.size() && text_[i] == U',') {
      ++i;
      most = number().value_or(UINT32_MAX);
    }
    if (i >= text_.size() || text_[i] != U'}') return {};
    if (*least > most) fail("a count whose lower bound is above its upper one");
    if (*least > kMaxRepeats || (most != UINT32_MAX && most > kMaxRepeats)) {
      fail("a count above 100,000");
    }
    at_ = i + 1;
    return std::pair{*least, most};
  }

  RegexNode repeated(RegexNode node) {
    for (int times = 0; more(); ++times) {
      std::pair<uint32_t, uint32_t> count{0, UINT32_MAX};
      if (take(U'*')) {
      } else if (take(U'+')) {
        count.first = 1;
      } else if (take(U'?')) {
        count.second = 1;
      } else if (peek() == U'{') {
        const auto found = braces();
        if (!found) break;
        count = *found;
      } else {
        break;
      }
      if (times > 0) fail("nothing to repeat");
      take(U'?');  // how much is taken first does not change what is matched
      const bool asserts = node.asserts;
      std::vector<RegexNode> child;
      child.push_back(std::move(node));
      node = {.kind = Kind::repeat,
              .children = std::move(child),
              .least = count.first,
              .most = count.second,
              .asserts = asserts};
    }
    return node;
  }

  RegexNode atom() {
    const char32_t c = peek();
    if (c == U'*' || c == U'+' || c == U'?') fail("nothing to repeat");
    ++at_;
    switch (c) {
      case U'.':
        return of_set(complement_of(kLineEnds));
      case U'^':
        return {.kind = Kind::begin, .asserts = true};
      case U'$':
        return {.kind = Kind::end, .asserts = true};
      case U'(':
        return group();
      case U'[':
        return of_set(char_class());
      case U'\\':
        return of_set(escape(false));
      default:
        return of_set({{c, c}});
    }
  }

  RegexNode group() {
    bool looks = false, negative = false;
    if (peek() == U'?') {
      if (take(U"?:")) {
      } else if (take(U"?=")) {
        looks = true;
      } else if (take(U"?!")) {
        looks = negative = true;
      } else if (take(U"?<=") || take(U"?<!")) {
        fail("look-behind is not supported:");
      } else if (take(U"?<") || take(U"?P<")) {
        while (more() && peek() != U'>') ++at_;
        if (!take(U'>')) fail("an unfinished name of a group");
      } else {
        fail("an unknown kind of group");
      }
    }
    RegexNode inner = choice();
    if (!take(U')')) fail("an unfinished group");
    if (!looks) return inner;
    std::vector<RegexNode> child;
    child.push_back(std::move(inner));
    return {.kind = Kind::look_ahead,
            .children = std::move(child),
            .negative = negative,
            .asserts = true};
  }

  std::optional<uint32_t> hex(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char32_t c = peek(i);
      const uint32_t digit = c >= U'0' && c <= U'9'   ? c - U'0'
                             : c >= U'a' && c <= U'f' ? c - U'a' + 10
                             : c >= U'A' && c <= U'F' ? c - U'A' + 10
                                                      : 16;
      if (digit == 16) return {};
      value = value * 16 + digit;
    }
    at_ += digits;
    return value;
  }

  uint32_t unicode_escape() {
    if (take(U'{')) {
      uint32_t value = 0;
      while (const auto digit = hex(1)) value = std::min(value * 16 + *digit, kLastCodePoint + 1);
      if (!take(U'}') || value > kLastCodePoint) fail("a malformed \\u{}");
      return value;
    }
    const auto unit = hex(4);
    if (!unit) return 'u';
    if (*unit >= 0xD800 && *unit < 0xDC00 && peek() == U'\\' && peek(1) == U'u') {
      const size_t before = at_;
      at_ += 2;
      const auto low = hex(4);
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        return 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00);
      }
      at_ = before;
    }
    return *unit;
  }

  // Behind a backslash. A class of one code point may bound a range.
  CharSet escape(bool in_class) {
    if (!more()) fail("a backslash at the end");
    const char32_t c = text_[at_++];
    const auto one = [](uint32_t point) { return CharSet{{point, point}}; };
    switch (c) {
      case U'd':
        return kDigits;
      case U'D':
        return complement_of(kDigits);
      case U'w':
        return kWord;
      case U'W':
        return complement_of(kWord);
      case U's':
        return kSpace;
      case U'S':
        return complement_of(kSpace);
      case U'n':
        return one('\n');
      case U'r':
        return one('\r');
      case U't':
        return one('\t');
      case U'v':
        return one('\v');
      case U'f':
        return one('\f');
      case U'0':
        if (peek() >= U'0' && peek() <= U'9') fail("an octal escape");
        return one(0);
      case U'x':
        return one(hex(2).value_or('x'));
      case U'u':
        return one(unicode_escape());
      case U'c':
        if ((peek() >= U'a' && peek() <= U'z') || (peek() >= U'A' && peek() <= U'Z')) {
          return one(text_[at_++] % 32);
        }
        fail("an unknown escape \\c");
      case U'p':
      case U'P':
        return property(c == U'P');
      case U'b':
        if (in_class) return one('\b');
        fail("a word boundary \\b is not supported:");
      case U'B':
        fail("a word boundary \\B is not supported:");
      case U'k':
        fail("a back reference is not supported:");
      default:
        if (c >= U'1' && c <= U'9') fail("a back reference is not supported:");
        if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z')) {
          fail(fmt::format("an unknown escape \\{}", static_cast<char>(c)));
        }
        return one(c);
    }
  }

  CharSet property(bool negated) {
    std::string name;
    if (!take(U'{')) {
      if (!more()) fail("an unfinished \\p");
      text::append_character(name, text_[at_++]);
    } else {
      while (more() && peek() != U'}') text::append_character(name, text_[at_++]);
      if (!take(U'}')) fail("an unfinished \\p{");
    }
    CharSet set = property_set(name);
    return negated ? complement_of(set) : set;
  }

  CharSet char_class() {
    const bool negated = take(U'^');
    CharSet set;
    while (true) {
      if (!more()) fail("an unfinished [");
      if (take(U']')) break;
      CharSet from = class_atom();
      if (peek() == U'-' && peek(1) != U']' && at_ + 1 < text_.size()) {
        ++at_;
        const CharSet to = class_atom();
        const auto single = [](const CharSet& s) {
          return s.size() == 1 && s[0].first == s[0].last;
        };
        if (single(from) && single(to)) {
          if (from[0].first > to[0].first) fail("a range whose ends are out of order");
          set.push_back({from[0].first, to[0].first});
        } else {  // [\w-.]: browsers take all three
          set.insert(set.end(), from.begin(), from.end());
          set.insert(set.end(), to.begin(), to.end());
          set.push_back({'-', '-'});
        }
        continue;
      }
      set.insert(set.end(), from.begin(), from.end());
    }
    set = normalized(std::move(set));
    return negated ? complement_of(set) : set;
  }

  CharSet class_atom() {
    const char32_t c = text_[at_++];
    if (c == U'\\') return escape(true);
    return {{c, c}};
  }

  std::u32string text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  return Reader(pattern).read();
}

}  // namespace plimsoll::grammar
