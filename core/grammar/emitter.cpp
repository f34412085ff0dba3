#include "grammar/emitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/regex.h"

namespace plimsoll::grammar {
namespace {

constexpr uint64_t kMaxCounted = 4000;  // states of an object whose properties are counted

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

}  // namespace

Emitter::Emitter(Sets& sets, const SchemaOptions& options) : sets_(sets), options_(options) {
  if (options.whitespace_pattern) {
    const Dfa space = dfa_of_regex(*options.whitespace_pattern, Match::whole);
    if (space.empty()) throw RegexError("whitespace_pattern matches nothing");
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
  if (sets_.empty(root)) throw TooLarge("no value is valid");
  const std::string start = rule_of(root);
  while (!todo_.empty()) {
    const SetId id = todo_.front();
    todo_.pop_front();
    write_values(id, names_.at(id));
  }
  return "root ::= " + start + "\n" + rules_.text();
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
  rules_.add("num", "\"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [+\\u002d]? [0-9]+)?");
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

void Emitter::write_values(SetId id, const std::string& rule) {
  const Values values = sets_.values(id);
  std::vector<std::string> alternatives;
  if (values.null) alternatives.push_back("\"null\"");
  if (values.yes) alternatives.push_back("\"true\"");
  if (values.no) alternatives.push_back("\"false\"");
  if (!values.numbers.in->empty()) alternatives.push_back(numbers(values.numbers));
  for (const auto& part : values.strings) alternatives.push_back(rules_.json_string(part));
  for (const auto& shape : values.arrays) alternatives.push_back(array(shape));
  for (const auto& shape : values.objects) alternatives.push_back(object(shape));
  std::erase(alternatives, "");
  if (alternatives.empty()) throw TooLarge("no value is valid");
  rules_.add(rule, joined(alternatives, " | "));
}

std::string Emitter::key(const std::string& name) {
  const auto points = code_points_of(name);
  const std::string raw = literal(json_text_of(points)), ascii = literal(ascii_json_of(points));
  return raw == ascii ? raw : fmt::format("({} | {})", raw, ascii);
}

// Entries with keys that are not declared; of those that `wanted` has, where it is given.
std::string Emitter::entries(const ObjectShape& shape, const KeyClass* wanted) {
  std::vector<std::string> names;
  for (const auto& property : shape.properties) names.push_back(property.name);
  const Dfa declared = texts(names);
  std::vector<std::string> alternatives;
  Dfa rest = all_texts();
  const auto add = [&](Dfa keys, SetId value) {
    if (wanted != nullptr) {
      keys = combine(keys, *wanted->keys, BothWays::intersection);
      value = sets_.all_of({value, wanted->value});
    }
    if (keys.empty() || sets_.empty(value)) return;
    const StringPart part{std::make_shared<const Dfa>(std::move(keys)), 0, kNoBound};
    alternatives.push_back(
        fmt::format("{} {} {}", rules_.json_string(part), colon_, rule_of(value)));
  };
  for (const auto& c : shape.classes) {
    add(combine(*c.keys, declared, BothWays::difference), c.value);
    rest = combine(rest, *c.keys, BothWays::difference);
  }
  if (shape.other != kNone) add(combine(rest, declared, BothWays::difference), shape.other);
  return alternatives.empty() ? "" : rules_.choice("e", alternatives);
}

// What follows the declared properties, of which `written` are there; "-" where nothing fits.
std::string Emitter::end_of_object(const ObjectShape& shape, uint64_t written) {
  const uint64_t least = shape.least > written ? shape.least - written : 0;
  const uint64_t most = shape.most == kNoBound ? kNoBound : shape.most - written;
  std::string more = entry_.empty() ? "" : fmt::format("{} {}", comma_, entry_);
  if (some_.empty()) {
    if (entry_.empty() || most == 0) return least == 0 ? "\"\"" : "-";
    if (written > 0) return repeated(more, least, most);
    const std::string tail =
        repeated(more, least > 0 ? least - 1 : 0, most == kNoBound ? most : most - 1);
    const std::string all = tail.empty() ? entry_ : entry_ + " " + tail;
    return least == 0 ? "\"\" | " + all : all;
  }
  const bool counted = least > some_.size() || most != kNoBound;
  if (counted || some_.size() > 3) throw TooLarge("keys that must be there are counted");
  std::vector<size_t> order(some_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<std::string> orders;
  do {
    std::string sequence =
        written > 0 ? repeated(more, 0, kNoBound) : fmt::format("({} {})*", entry_, comma_);
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) sequence += " " + repeated(more, 0, kNoBound);
      sequence += (written > 0 || i > 0 ? " " + comma_ : "") + " " + some_[order[i]];
    }
    orders.push_back(sequence + " " + repeated(more, 0, kNoBound));
  } while (std::ranges::next_permutation(order).found);
  return joined(orders, " | ");
}

std::string Emitter::object(const ObjectShape& shape) {
  entry_ = shape.most == 0 ? "" : entries(shape, nullptr);
  some_.clear();
  for (const auto& wanted : shape.some) {
    some_.push_back(entries(shape, &wanted));
    if (some_.back().empty()) return "";
  }
  std::vector<const Property*> written;
  for (const auto& property : shape.properties) {
    if (!sets_.empty(property.value)) {
      written.push_back(&property);
    } else if (property.required) {
      return "";
    }
  }
  ObjectShape counts;
  counts.least = shape.least;
  counts.most = shape.most;
  uint64_t required = 0;
  for (const auto* property : written) required += property->required ? 1 : 0;
  if (counts.least <= required) counts.least = 0;
  if (entry_.empty() && counts.most >= written.size()) counts.most = kNoBound;
  const uint64_t cap = std::max<uint64_t>(1, counts.most == kNoBound ? counts.least : counts.most);
  if (cap > 1 && cap * (written.size() + 1) > kMaxCounted)
    throw TooLarge("its properties are counted");
  // From the last property to the first: the rule for each count of those written before, or "".
  std::vector<std::string> next;
  for (uint64_t n = 0; n <= std::min<uint64_t>(cap, written.size()); ++n) {
    const std::string end = end_of_object(counts, n);
    if (end != "-") rules_.add(next.emplace_back(rules_.name("o")), end);
    if (end == "-") next.emplace_back();
  }
  for (size_t i = written.size(); i-- > 0;) {
    const std::string member =
        fmt::format("{} {} {}", key(written[i]->name), colon_, rule_of(written[i]->value));
    std::vector<std::string> now;
    for (uint64_t n = 0; n <= std::min<uint64_t>(cap, i); ++n) {
      std::vector<std::string> alternatives;
      const bool full = counts.most != kNoBound && n == counts.most;
      const std::string& after = next[std::min<uint64_t>(cap, n + 1)];
      if (!full && !after.empty()) {
        alternatives.push_back((n > 0 ? comma_ + " " : "") + member + " " + after);
      }
      if (!written[i]->required && !next[n].empty()) alternatives.push_back(next[n]);
      now.push_back(alternatives.empty() ? "" : rules_.choice("o", alternatives));
    }
    next = std::move(now);
  }
  if (next[0].empty()) return "";
  return rules_.choice("obj", {bracketed('{', next[0], '}')});
}

}  // namespace plimsoll::grammar
