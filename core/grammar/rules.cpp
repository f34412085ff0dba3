#include "grammar/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/unicode/unicode.h"

namespace plimsoll::grammar {
namespace {

constexpr size_t kMaxText = size_t{8} << 20;
constexpr size_t kMaxRules = 10'000;      // xgrammar's time grows with their square
constexpr size_t kMaxListed = 2000;       // strings written one by one
constexpr size_t kMaxEscapedRanges = 40;  // of a class whose \u forms are taken too

// Characters of a block of a string whose length is bounded. Few tokens are longer.
constexpr uint64_t kBlock = 16;
// With a larger minLength the first blocks are longer: masks at their ends take time, but rules
// stay few.
constexpr uint64_t kFar = 64 * kBlock;

const char kQuote[] = R"("\"")";
const char kHex[] = "[0-9A-Fa-f]";

std::string short_escape(uint32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return "";
  }
}

std::string json_of(std::u32string_view text, bool ascii) {
  std::string out = "\"";
  for (const char32_t c : text) {
    if (const std::string escape = short_escape(c); !escape.empty()) {
      out += escape;
    } else if (c < 0x20 || (ascii && c > 0x7E && c < 0x10000)) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else if (ascii && c >= 0x10000) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                         0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
      text::append_character(out, c);
    }
  }
  return out + '"';
}

std::string class_char(uint32_t c) {
  if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
    return std::string(1, static_cast<char>(c));
  }
  if (c < 0x10000) return fmt::format("\\u{:04x}", c);
  return fmt::format("\\U{:08x}", c);
}

std::string hex_digit(uint32_t first, uint32_t last) {
  std::string out = "[";
  for (uint32_t d = first; d <= last; ++d) {
    out += fmt::format("{:x}", d);
    if (d > 9) out += fmt::format("{:X}", d);
  }
  return out + "]";
}

// Four hex digits, or the last `digits` of them, from `first` to `last`: alternatives.
void hex_ranges(uint32_t first, uint32_t last, int digits, const std::string& head,
                std::vector<std::string>& out) {
  if (digits == 0) {
    out.push_back(head);
    return;
  }
  const uint32_t unit = 1u << (4 * (digits - 1));
  uint32_t low = first / unit;
  const uint32_t high = last / unit;
  if (low == high) {
    hex_ranges(first % unit, last % unit, digits - 1, head + hex_digit(low, low) + " ", out);
    return;
  }
  if (first % unit != 0) {
    hex_ranges(first % unit, unit - 1, digits - 1, head + hex_digit(low, low) + " ", out);
    ++low;
  }
  const uint32_t full = (last + 1) % unit == 0 ? high + 1 : high;
  if (low < full) {
    std::string tail;
    for (int i = 1; i < digits; ++i) tail += std::string(kHex) + " ";
    out.push_back(head + hex_digit(low, full - 1) + " " + tail);
  }
  if (full == high) {
    hex_ranges(0, last % unit, digits - 1, head + hex_digit(high, high) + " ", out);
  }
}

}  // namespace

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

std::string json_text_of(std::u32string_view text) {
  return json_of(text, false);
}
std::string ascii_json_of(std::u32string_view text) {
  return json_of(text, true);
}

std::string literal(std::string_view utf8) {
  std::string out = "\"";
  for (const char c : utf8) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string char_class(const CharSet& set) {
  std::string out = "[";
  for (const Range& range : set) {
    out += class_char(range.first);
    if (range.last > range.first) out += "-" + class_char(range.last);
  }
  return out + "]";
}

std::string Rules::name(std::string_view kind) {
  const auto at = numbers_.try_emplace(std::string(kind), 0).first;
  return fmt::format("{}{}", kind, at->second++);
}

void Rules::add(const std::string& name, const std::string& body) {
  WorkLimit::spend(20 + static_cast<int64_t>(body.size()) / 4);
  if (text_.size() + body.size() > kMaxText) throw TooLarge("its grammar is larger than 8 MB");
  if (++rules_ > kMaxRules) throw TooLarge("its grammar has more than 10,000 rules");
  text_ += name + " ::= " + body + "\n";
}

std::string Rules::choice(std::string_view kind, const std::vector<std::string>& alternatives) {
  std::string rule = name(kind);
  add(rule, joined(alternatives, " | "));
  return rule;
}

std::string Rules::any_string() {
  if (any_string_.empty()) {
    any_string_ = "str";
    // Escapes of surrogates come in pairs alone.
    add("esc",
        "[\\u0022\\u002f\\u005cbfnrt] | \"u\" ([0-9A-Ca-cEeFf] [0-9A-Fa-f] [0-9A-Fa-f] [0-9A-Fa-f] "
        "| "
        "[Dd] [0-7] [0-9A-Fa-f] [0-9A-Fa-f] | [Dd] [89ABab] [0-9A-Fa-f] [0-9A-Fa-f] \"\\\\u\" [Dd] "
        "[C-Fc-f] [0-9A-Fa-f] [0-9A-Fa-f])");
    add("str", "\"\\\"\" strt");
    add("strt",
        "\"\\\"\" | [\\u0020-\\u0021\\u0023-\\u005b\\u005d-\\uD7FF\\uE000-\\U0010FFFF] strt | "
        "\"\\\\\" esc strt");
  }
  return any_string_;
}

std::string Rules::character_and(const std::string& next) {
  // In one class nearly all tokens would be accepted. xgrammar then keeps those that are not, and
  // tries all that other states are uncertain of.
  const std::string others =
      choice("h", {fmt::format("[\\u0020-\\u0021\\u0023-\\u0040\\u005b\\u005d-\\u0060\\u007b-"
                               "\\uD7FF\\uE000-\\U0010FFFF] {}",
                               next),
                   fmt::format("\"\\\\\" esc {}", next)});
  return fmt::format("[A-Za-z] {} | {}", next, others);
}

std::string Rules::exactly(uint64_t count) {
  const auto [at, fresh] = exact_.try_emplace(count);
  if (!fresh) return at->second;
  std::string rule = at->second = name("n");
  if (count == 1) {
    add(rule, character_and(""));
  } else if (count <= 2 * kBlock) {
    add(rule, character_and(exactly(count - 1)));
  } else {
    const std::string half = exactly(count / 2);
    add(rule, half + " " + half);
  }
  return rule;
}

std::string Rules::rest(uint64_t least, uint64_t most) {
  if (least == 0 && most == kNoBound) return "strt";
  const auto [at, fresh] = rests_.try_emplace({least, most});
  if (!fresh) return at->second;
  std::string rule = at->second = name("r");
  const auto behind = [&](uint64_t read) {
    return rest(least - std::min(least, read), most == kNoBound ? most : most - read);
  };
  std::vector<std::string> alternatives;
  if (least <= 2 * kBlock && (most <= 2 * kBlock || most == kNoBound)) {
    if (least == 0) alternatives.emplace_back(kQuote);
    if (most > 0) alternatives.push_back(character_and(behind(1)));
  } else {
    uint64_t step = kBlock;
    if (least > kFar) {
      while (4 * step <= least) step *= 2;
    } else if (least > 2 * kBlock) {
      alternatives.push_back(exactly(2 * kBlock) + " " + behind(2 * kBlock));
    } else {
      while (least == 0 && 2 * step + kBlock < most) step *= 2;
      alternatives.push_back(rest(least, step + kBlock));
    }
    alternatives.push_back(exactly(step) + " " + behind(step));
  }
  add(rule, joined(alternatives, " | "));
  return rule;
}

Rules::JsonChars& Rules::json_chars(const CharSet& set) {
  static const CharSet kRaw = normalized({{0x20, '!'}, {'#', '['}, {']', kLastCodePoint}});
  std::vector<uint32_t> key;
  for (const Range& range : set) key.insert(key.end(), {range.first, range.last});
  if (const auto known = char_rules_.find(key); known != char_rules_.end()) return known->second;
  JsonChars found;
  const CharSet raw = intersection_of(set, kRaw);
  if (!raw.empty()) found.raw = char_class(raw);
  std::vector<std::string> alternatives;
  const auto has = [&](uint32_t c) { return !intersection_of(set, {{c, c}}).empty(); };
  for (const uint32_t c : {U'"', U'\\', U'\b', U'\f', U'\n', U'\r', U'\t'}) {
    if (has(c)) alternatives.push_back(literal(short_escape(c)));
  }
  if (has('/')) alternatives.push_back(literal("\\/"));
  const CharSet escaped = intersection_of(set, {{0, 0x1F}, {0x7F, 0xFFFF}});
  if (escaped.size() <= kMaxEscapedRanges) {
    std::vector<std::string> forms;
    for (const Range& range : escaped) hex_ranges(range.first, range.last, 4, "", forms);
    if (intersection_of(set, {{0x10000, kLastCodePoint}}) == CharSet{{0x10000, kLastCodePoint}}) {
      forms.push_back(fmt::format("[Dd] [89ABab] {0} {0} \"\\\\u\" [Dd] [C-Fc-f] {0} {0}", kHex));
    }
    if (!forms.empty()) {
      alternatives.push_back(fmt::format("\"\\\\u\" {}", choice("u", forms)));
    }
  }
  if (alternatives.size() == 1) found.escaped = alternatives[0];
  if (alternatives.size() > 1) found.escaped = choice("c", alternatives);
  return char_rules_.emplace(std::move(key), std::move(found)).first->second;
}

std::string Rules::json_char(const CharSet& set) {
  JsonChars& forms = json_chars(set);
  if (forms.raw.empty() || forms.escaped.empty()) return forms.raw + forms.escaped;
  if (forms.any.empty()) forms.any = choice("c", {forms.raw, forms.escaped});
  return forms.any;
}

std::string Rules::states(const Dfa& dfa, bool json) {
  std::vector<std::string> names(dfa.states.size());
  std::vector<int> entries(dfa.states.size());
  // Edges by target: one class each.
  std::vector<std::map<uint32_t, CharSet>> targets(dfa.states.size());
  for (size_t s = 0; s < dfa.states.size(); ++s) {
    for (const auto& edge : dfa.states[s].edges) {
      targets[s][edge.to].push_back({edge.first, edge.last});
    }
    for (const auto& [to, set] : targets[s]) ++entries[to];
  }
  entries[0] = 2;
  const std::string end = json ? "\"\\\"\"" : "\"\"";
  // A state that one edge leads to and one edge leaves is written where it is met.
  const auto passed = [&](size_t s) {
    return entries[s] == 1 && targets[s].size() + (dfa.states[s].accepts ? 1 : 0) == 1;
  };
  for (size_t s = 0; s < dfa.states.size(); ++s) {
    if (!passed(s)) names[s] = name("d");
  }
  for (size_t s = 0; s < dfa.states.size(); ++s) {
    if (names[s].empty()) continue;
    std::vector<std::string> alternatives;
    if (dfa.states[s].accepts) alternatives.push_back(end);
    for (const auto& [first, first_set] : targets[s]) {
      // Where the next state has a rule, as in a loop, the class stands in this state's own: in a
      // rule for the character it would end with each, and xgrammar would try nearly all tokens
      // anew at each mask.
      if (json && !names[first].empty()) {
        const JsonChars& forms = json_chars(first_set);
        for (const std::string& form : {forms.raw, forms.escaped}) {
          if (!form.empty()) alternatives.push_back(form + " " + names[first]);
        }
        continue;
      }
      const auto one = [&](const CharSet& set) { return json ? json_char(set) : char_class(set); };
      std::string sequence = one(first_set);
      uint32_t to = first;
      while (names[to].empty()) {
        if (targets[to].empty()) break;
        const auto& [next, set] = *targets[to].begin();
        sequence += " " + one(set);
        to = next;
      }
      if (!names[to].empty()) {
        sequence += " " + names[to];
      } else if (json) {
        sequence += " " + end;
      }
      alternatives.push_back(std::move(sequence));
    }
    add(names[s], joined(alternatives, " | "));
  }
  return names[0];
}

std::string Rules::plain(const Dfa& dfa) {
  return states(dfa, false);
}

std::string Rules::json_string(const StringPart& part) {
  if (part.texts->universal() && part.least == 0 && part.most == kNoBound) return any_string();
  for (const auto& [known, rule] : strings_) {
    if (known.least == part.least && known.most == part.most && *known.texts == *part.texts) {
      return rule;
    }
  }
  std::string rule;
  if (part.texts->universal()) {
    any_string();
    rule = name("s");
    if (std::max(part.least, part.most == kNoBound ? 0 : part.most) > 1'000'000) {
      throw TooLarge("a length is above 1,000,000");
    }
    add(rule, kQuote + (" " + rest(part.least, part.most)));
  } else {
    const Dfa dfa = limit_length(*part.texts, part.least, part.most);
    if (dfa.empty()) return "";
    std::vector<std::string> literals;
    for (const auto& text : list_texts(dfa, kMaxListed)) {
      literals.push_back(literal(json_text_of(text)));
      const std::string ascii = literal(ascii_json_of(text));
      if (ascii != literals.back()) literals.push_back(ascii);
    }
    if (!literals.empty()) {
      rule = choice("s", literals);
    } else {
      const std::string start = states(dfa, true);
      rule = name("s");
      add(rule, kQuote + (" " + start));
    }
  }
  strings_.push_back({part, rule});
  return rule;
}

}  // namespace plimsoll::grammar
