#include "grammar/emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "grammar/patterns/regex.h"

namespace plimsoll::grammar {
namespace {

constexpr size_t kMaxFree = 4;          // required keys without an order
constexpr size_t kMaxOnce = 6;          // keys without an order that come once at most
constexpr uint64_t kMaxCounted = 4000;  // states of an object whose properties are counted

}  // namespace

Emitter::Emitter(Sets& sets, const SchemaOptions& options) : sets_(sets), options_(options) {
  if (options.whitespace_pattern) {
    const Dfa space = dfa_of_regex(*options.whitespace_pattern, Match::whole);
    if (space.empty()) throw RegexError("matches nothing");
    if (!combine(space, dfa_of_regex("[ \\t\\n\\r]*", Match::whole), BothWays::difference)
             .empty()) {
      throw RegexError("admits other characters than JSON's whitespace (space, \\t, \\n, \\r)");
    }
    space_ = rules_.plain(space);
  } else if (options.any_whitespace) {
    rules_.add("ws", "[\\u0020\\n\\t\\r]*");
    space_ = "ws";
  }
  if (space_.empty()) {
    comma_ = "\", \"";
    colon_ = "\": \"";
  } else {
    rules_.add("com", fmt::format("{0} \",\" {0}", space_));
    rules_.add("col", fmt::format("{0} \":\" {0}", space_));
    comma_ = "com";
    colon_ = "col";
  }
}

std::string Emitter::grammar_of(SetId root) {
  at_work_ = root;
  const std::string start = rule_of(root);
  while (!todo_.empty()) {
    const SetId id = at_work_ = todo_.front();
    todo_.pop_front();
    write_values(id, names_.at(id));
  }
  at_work_ = root;
  std::string grammar = without_dead_ends("root ::= " + start + "\n" + rules_.text());
  if (grammar.empty()) throw TooLarge("no value is valid");
  return grammar;
}

std::string Emitter::rule_of(SetId id) {
  if (id == kAny) return any_value();
  const auto [at, fresh] = names_.try_emplace(id);
  if (fresh) {
    at->second = rules_.name("v");
    todo_.push_back(id);
  }
  return at->second;
}

std::string Emitter::bracketed(char open, const std::string& inside, char close) const {
  const auto quoted = [](char c) { return fmt::format("\"{}\"", c); };
  std::vector<std::string> parts{quoted(open), space_, inside, inside.empty() ? "" : space_,
                                 quoted(close)};
  std::erase_if(parts, [](const auto& part) { return part.empty(); });
  return joined(parts, " ");
}

std::string Emitter::repeated(const std::string& what, uint64_t least, uint64_t most) const {
  if (most == 0) return "";
  if (std::max(least, most == kNoBound ? 0 : most) > 1'000'000) {
    throw TooLarge("a count is above 1,000,000");
  }
  if (least == 0 && most == kNoBound) return fmt::format("({})*", what);
  if (least == 1 && most == 1) return what;
  return fmt::format("({}){{{},{}}}", what, least, most == kNoBound ? "" : std::to_string(most));
}

std::string Emitter::any_value() {
  if (!any_.empty()) return any_;
  any_ = "any";
  const std::string str = rules_.any_string();
  // Doubles hold exponents of up to 299 behind nine digits. Digits alone are not bounded.
  rules_.add("exp", "[eE] [+\\u002d]? \"0\"* ([0-9]{1,2} | [12] [0-9]{2})");
  rules_.add("frac", "\".\" [0-9]+");
  rules_.add("num", "\"-\"? ((\"0\" | [1-9] [0-9]*) frac? | (\"0\" | [1-9] [0-9]{0,8}) frac? exp)");
  rules_.add("anymem", fmt::format("{} {} any", str, colon_));
  rules_.add("anyobj", bracketed('{', "", '}') + " | " +
                           bracketed('{', fmt::format("anymem ({} anymem)*", comma_), '}'));
  rules_.add("anyarr", bracketed('[', "", ']') + " | " +
                           bracketed('[', fmt::format("any ({} any)*", comma_), ']'));
  rules_.add("any", "\"null\" | \"true\" | \"false\" | num | " + str + " | anyarr | anyobj");
  return any_;
}

std::string Emitter::numbers(const NumberSet& set) {
  if (*set.in == *all_numbers().in) {
    any_value();
    return "num";
  }
  for (const auto& [known, rule] : numbers_) {
    if (*known.in == *set.in) return rule;
  }
  numbers_.emplace_back(set, rules_.plain(*set.in));
  return numbers_.back().second;
}

std::string Emitter::text(const StringPart& part) {
  try {
    return rules_.json_string(part);
  } catch (const TooLarge&) {
    if (options_.strict) throw;
    return rules_.json_string({part.texts, 0, kNoBound});  // the validator looks at the length
  }
}

void Emitter::write_values(SetId id, const std::string& rule) {
  const Values values = sets_.values(id);
  std::vector<std::string> alternatives;
  if (values.null) alternatives.push_back("\"null\"");
  if (values.yes) alternatives.push_back("\"true\"");
  if (values.no) alternatives.push_back("\"false\"");
  if (!values.numbers.in->empty()) alternatives.push_back(numbers(values.numbers));
  for (const auto& part : values.strings) alternatives.push_back(text(part));
  for (const auto& shape : values.arrays) alternatives.push_back(array(shape));
  for (const auto& shape : values.objects) alternatives.push_back(object(shape));
  std::erase(alternatives, "");
  if (!alternatives.empty()) rules_.add(rule, joined(alternatives, " | "));
}

std::string Emitter::key(const std::string& name) {
  const auto points = code_points_of(name);
  const std::string raw = literal(json_text_of(points)), ascii = literal(ascii_json_of(points));
  return raw == ascii ? raw : fmt::format("({} | {})", raw, ascii);
}

std::string Emitter::member(const Property& property) {
  return fmt::format("{} {} {}", key(property.name), colon_, rule_of(property.value));
}

// The keys that are not declared, by the values they have.
std::vector<KeyClass> Emitter::undeclared(const ObjectShape& shape) {
  std::vector<std::string> names;
  for (const auto& property : shape.properties) names.push_back(property.name);
  const Dfa declared = texts(names);
  std::vector<KeyClass> found;
  Dfa rest = all_texts();
  const auto add = [&](const Dfa& keys, SetId value) {
    Dfa others = combine(keys, declared, BothWays::difference);
    if (!others.empty() && !sets_.empty(value)) found.push_back({share(std::move(others)), value});
  };
  for (const auto& c : shape.classes) {
    add(*c.keys, c.value);
    rest = combine(rest, *c.keys, BothWays::difference);
  }
  add(rest, shape.other);
  return found;
}

// Entries with undeclared keys; of those that `wanted` has, where it is given.
std::string Emitter::entries(const std::vector<KeyClass>& others, const KeyClass* wanted) {
  std::vector<std::string> alternatives;
  for (auto [keys, value] : others) {
    if (wanted != nullptr) {
      keys = share(combine(*keys, *wanted->keys, BothWays::intersection));
      value = sets_.all_of({value, wanted->value});
    }
    if (keys->empty() || sets_.empty(value)) continue;
    alternatives.push_back(
        fmt::format("{} {} {}", rules_.json_string({keys, 0, kNoBound}), colon_, rule_of(value)));
  }
  return alternatives.empty() ? "" : rules_.choice("e", alternatives);
}

// Makes properties of the undeclared keys of classes that have a few alone, so that none comes
// twice.
void Emitter::declare_few(std::vector<KeyClass>& others, ObjectShape& shape) {
  if (!shape.some.empty()) return;
  const uint64_t count = std::max<uint64_t>(1, shape.most == kNoBound ? shape.least : shape.most);
  const uint64_t states = (uint64_t{1} << kMaxOnce) + shape.properties.size();
  if (count >= kMaxCounted / states) return;
  size_t once = 0;
  for (const auto& property : shape.properties) {
    once += property.required && !property.listed ? 1 : 0;
  }
  std::erase_if(others, [&](const KeyClass& c) {
    const auto keys = list_texts(*c.keys, kMaxOnce);
    if (keys.empty() || once + keys.size() > kMaxOnce) return false;
    once += keys.size();
    for (const auto& key : keys) {
      shape.properties.push_back({utf8_of(key), c.value, false, false});
    }
    return true;
  });
}

// Rules for what follows the declared properties where `n` entries are there, for each n up to
// `cap`: more entries, and at least one of each of `some_`. Empty where nothing fits.
std::vector<std::string> Emitter::ends_of_object(const ObjectShape& shape, uint64_t cap) {
  const uint32_t all = (1u << some_.size()) - 1;
  uint32_t needed = 0;
  for (size_t k = 0; k < some_.size(); ++k) needed |= some_[k].needed ? 1u << k : 0;
  // By n, and by the set of those of `some_` that are there.
  std::vector<std::vector<std::string>> names(cap + 1, std::vector<std::string>(all + 1));
  for (uint64_t n = cap + 1; n-- > 0;) {
    for (uint32_t met = all + 1; met-- > 0;) {
      if (n < std::min<uint64_t>(cap, static_cast<uint64_t>(std::popcount(met)))) continue;
      std::vector<std::string> alternatives;
      std::string& name = names[n][met];
      name = rules_.name("o");
      if (n >= shape.least && (met & needed) == needed) alternatives.push_back("\"\"");
      const uint64_t to = std::min(cap, n + 1);
      const auto entry = [&](const std::string& rule, uint32_t then) {
        if (rule.empty() || names[to][then].empty()) return;
        alternatives.push_back((n > 0 ? comma_ + " " : "") + rule + " " + names[to][then]);
      };
      if (n < shape.most) {
        for (size_t k = 0; k < some_.size(); ++k) {
          if ((met >> k & 1) == 0) entry(some_[k].rule, met | 1u << k);
        }
        entry(entry_, met);
      }
      if (alternatives.empty()) {
        name.clear();
      } else {
        rules_.add(name, joined(alternatives, " | "));
      }
    }
  }
  std::vector<std::string> ends;
  for (auto& by_met : names) ends.push_back(std::move(by_met[0]));
  return ends;
}

std::string Emitter::object(const ObjectShape& given) {
  ObjectShape shape = given;
  const size_t declared = shape.properties.size();
  std::vector<KeyClass> others;
  if (shape.most > 0) others = undeclared(shape);
  declare_few(others, shape);
  entry_ = entries(others, nullptr);
  some_.clear();
  for (const auto& wanted : shape.some) {
    some_.push_back({entries(others, &wanted), true});
    if (some_.back().rule.empty()) return "";
  }
  std::vector<const Property*> written;
  for (size_t i = 0; i < shape.properties.size(); ++i) {
    const Property& property = shape.properties[i];
    const bool free =
        i >= declared || (property.required && !property.listed && some_.size() < kMaxFree);
    if (sets_.empty(property.value)) {
      if (property.required) return "";
    } else if (free) {  // among the undeclared keys, in any order
      some_.push_back({rules_.choice("e", {member(property)}), property.required});
    } else {
      written.push_back(&property);
    }
  }
  ObjectShape counts;
  counts.least = shape.least;
  counts.most = shape.most;
  uint64_t required = 0;
  for (const auto& some : some_) required += some.needed ? 1 : 0;
  for (const auto* property : written) required += property->required ? 1 : 0;
  if (counts.least <= required) counts.least = 0;
  if (entry_.empty() && counts.most >= written.size() + some_.size()) counts.most = kNoBound;
  const uint64_t cap = std::max<uint64_t>(1, counts.most == kNoBound ? counts.least : counts.most);
  const uint64_t states =
      (cap + 1) * (written.size() + (uint64_t{1} << std::min<size_t>(some_.size(), 20)));
  if (cap > kMaxCounted || (cap > 1 && states > kMaxCounted) || some_.size() > kMaxOnce) {
    throw TooLarge("its properties are counted: too many states");
  }
  // From the last property to the first: the rule for each count of those written before, or "".
  std::vector<std::string> next = ends_of_object(counts, cap);
  // What the object may begin with. One rule holds all, because xgrammar's time grows with rules.
  std::vector<std::string> begins;
  if (!next[0].empty()) begins.push_back(next[0]);
  for (size_t i = written.size(); i-- > 0;) {
    const std::string one = member(*written[i]);
    if (written[i]->required) begins.clear();
    if (counts.most > 0 && !next[1].empty()) begins.push_back(one + " " + next[1]);
    std::vector<std::string> now{""};
    for (uint64_t n = 1; n <= std::min<uint64_t>(cap, i); ++n) {
      std::vector<std::string> alternatives;
      const bool full = counts.most != kNoBound && n == counts.most;
      const std::string& after = next[std::min<uint64_t>(cap, n + 1)];
      if (!full && !after.empty()) {
        alternatives.push_back(fmt::format("{} {} {}", comma_, one, after));
      }
      if (!written[i]->required && !next[n].empty()) alternatives.push_back(next[n]);
      now.push_back(alternatives.empty() ? "" : rules_.choice("o", alternatives));
    }
    next = std::move(now);
  }
  if (begins.empty()) return "";
  std::ranges::reverse(begins);  // in the order of properties
  return rules_.choice("obj", {bracketed('{', rules_.choice("o", begins), '}')});
}

}  // namespace plimsoll::grammar
