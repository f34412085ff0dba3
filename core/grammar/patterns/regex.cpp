#include "grammar/patterns/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <map>
#include <mutex>

#include "grammar/patterns/regex_reader.h"
#include "text/unicode/unicode.h"

namespace plimsoll::grammar {
namespace {

using Kind = RegexNode::Kind;

// The rest of a text, where a node begins at the text's start and where it begins later.
struct Rest {
  Dfa at_start;
  Dfa later;
};

// A node without assertions, read from state to state: its first state.
uint32_t build(Nfa& nfa, const RegexNode& node, uint32_t to) {
  WorkLimit::spend(1);
  switch (node.kind) {
    case Kind::set: {
      const uint32_t from = nfa.add();
      nfa.edge(from, normalized(node.set), to);
      return from;
    }
    case Kind::choice: {
      const uint32_t from = nfa.add();
      for (const auto& child : node.children) nfa.join(from, build(nfa, child, to));
      return from;
    }
    case Kind::repeat: {
      const auto& child = node.children[0];
      uint32_t from = to;
      if (node.most == UINT32_MAX) {
        const uint32_t again = nfa.add();
        nfa.join(again, to);
        nfa.join(again, build(nfa, child, again));
        from = again;
      } else {
        for (uint32_t i = node.least; i < node.most; ++i) {
          const uint32_t skip = nfa.add();
          nfa.join(skip, to);
          nfa.join(skip, build(nfa, child, from));
          from = skip;
        }
      }
      for (uint32_t i = 0; i < node.least; ++i) from = build(nfa, child, from);
      return from;
    }
    default: {
      uint32_t from = to;
      for (size_t i = node.children.size(); i-- > 0;) from = build(nfa, node.children[i], from);
      return from;
    }
  }
}

// Parts without assertions before a rest.
Dfa before(std::span<const RegexNode> parts, const Dfa& rest) {
  Nfa nfa;
  const uint32_t end = nfa.add();
  nfa.accepting[end] = true;
  uint32_t from = nfa.copy(rest, end);
  for (size_t i = parts.size(); i-- > 0;) from = build(nfa, parts[i], from);
  return determinize(nfa, from);
}

const Dfa& empty_text() {
  static const Dfa dfa{{{true, {}}}};
  return dfa;
}

Dfa nonempty_texts() {
  return combine(all_texts(), empty_text(), BothWays::difference);
}

Rest before(const RegexNode& node, const Rest& rest);

Rest before_plain(std::span<const RegexNode> parts, const Rest& rest) {
  Rest out{{}, before(parts, rest.later)};
  if (rest.at_start == rest.later) {
    out.at_start = out.later;
    return out;
  }
  const Dfa own = before(parts, empty_text());
  const Dfa some = combine(own, empty_text(), BothWays::difference);
  out.at_start = concatenation_of(some, rest.later);
  if (!own.empty() && own.states[0].accepts) {
    out.at_start = combine(out.at_start, rest.at_start, BothWays::union_);
  }
  return out;
}

Rest before_sequence(const std::vector<RegexNode>& parts, Rest rest) {
  size_t end = parts.size();
  while (end > 0) {
    size_t begin = end;
    while (begin > 0 && !parts[begin - 1].asserts) --begin;
    if (begin < end) rest = before_plain(std::span(parts).subspan(begin, end - begin), rest);
    if (begin > 0) rest = before(parts[begin - 1], rest);
    end = begin > 0 ? begin - 1 : 0;
  }
  return rest;
}

Rest either(const Rest& a, const Rest& b) {
  return {combine(a.at_start, b.at_start, BothWays::union_),
          combine(a.later, b.later, BothWays::union_)};
}

Rest before_repeat(const RegexNode& node, const Rest& rest) {
  if (node.most == UINT32_MAX || node.most > 8) {
    throw RegexError("an assertion that is repeated is not supported");
  }
  Rest out = rest;
  for (uint32_t i = node.least; i < node.most; ++i) {
    out = either(rest, before(node.children[0], out));
  }
  for (uint32_t i = 0; i < node.least; ++i) out = before(node.children[0], out);
  return out;
}

Rest before(const RegexNode& node, const Rest& rest) {
  if (!node.asserts) return before_plain(std::span(&node, 1), rest);
  switch (node.kind) {
    case Kind::begin:
      return {rest.at_start, {}};
    case Kind::end:
      return {combine(rest.at_start, empty_text(), BothWays::intersection),
              combine(rest.later, empty_text(), BothWays::intersection)};
    case Kind::look_ahead: {
      const Rest seen = before(node.children[0], {all_texts(), all_texts()});
      const auto how = node.negative ? BothWays::difference : BothWays::intersection;
      return {combine(rest.at_start, seen.at_start, how), combine(rest.later, seen.later, how)};
    }
    case Kind::choice: {
      Rest out;
      for (const auto& child : node.children) out = either(out, before(child, rest));
      return out;
    }
    case Kind::repeat:
      return before_repeat(node, rest);
    default:
      return before_sequence(node.children, rest);
  }
}

CharSet find_property(std::string_view name) {
  std::string spelled(name);
  for (const char* prefix :
       {"Script=", "sc=", "General_Category=", "gc=", "Script_Extensions=", "scx="}) {
    if (spelled.starts_with(prefix)) spelled.erase(0, std::string_view(prefix).size());
  }
  static const std::map<std::string, std::string, std::less<>> kLongNames = {
      {"Letter", "L"},
      {"Lowercase_Letter", "Ll"},
      {"Uppercase_Letter", "Lu"},
      {"Mark", "M"},
      {"Number", "N"},
      {"Decimal_Number", "Nd"},
      {"Punctuation", "P"},
      {"Symbol", "S"},
      {"Separator", "Z"},
      {"Space_Separator", "Zs"},
      {"Other", "C"},
      {"Control", "Cc"},
      {"digit", "Nd"},
      {"punct", "P"},
      {"Alpha", "Alphabetic"}};
  if (const auto at = kLongNames.find(spelled); at != kLongNames.end()) spelled = at->second;
  for (const char c : spelled) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') spelled.clear();
  }
  const std::string pattern = "\\p{" + spelled + "}+";
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = spelled.empty()
                         ? nullptr
                         : pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                         pattern.size(), PCRE2_UTF, &error, &offset, nullptr);
  if (code == nullptr) throw RegexError(fmt::format("an unknown property \\p{{{}}}", name));
  // Every code point in order; a run of those that have the property is a range.
  std::string all;
  std::vector<size_t> offsets;
  for (const Range& range : all_chars()) {
    for (uint32_t c = range.first; c <= range.last; ++c) text::append_character(all, c);
  }
  CharSet set;
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  for (size_t at = 0; at < all.size();) {
    if (pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), at,
                    at == 0 ? 0 : PCRE2_NO_UTF_CHECK, match, nullptr) < 0) {
      break;
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match);
    size_t first = found[0], last = text::previous_character(all, found[1]);
    set.push_back({text::next_character(all, first), text::next_character(all, last)});
    at = found[1];
  }
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return normalized(std::move(set));
}

}  // namespace

CharSet property_set(std::string_view name) {
  if (name == "Any") return all_chars();
  if (name == "ASCII") return {{0, 127}};
  if (name.size() > 64) throw RegexError("an unknown property");
  static std::mutex mutex;
  static std::map<std::string, CharSet, std::less<>> known;
  const std::lock_guard lock(mutex);
  const auto at = known.find(name);
  if (at != known.end()) return at->second;
  return known.emplace(name, find_property(name)).first->second;
}

Dfa dfa_of_regex(std::string_view pattern, Match match) {
  const RegexNode tree = parse_regex(pattern);
  if (match == Match::whole) return before(tree, {empty_text(), empty_text()}).at_start;
  const Rest found = before(tree, {all_texts(), all_texts()});
  if (found.later.empty()) return found.at_start;
  const Dfa later = concatenation_of(nonempty_texts(), found.later);
  return combine(found.at_start, later, BothWays::union_);
}

}  // namespace plimsoll::grammar
