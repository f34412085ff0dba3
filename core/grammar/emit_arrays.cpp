#include <fmt/format.h>

#include <algorithm>

#include "grammar/emitter.h"

namespace plimsoll::grammar {
namespace {

constexpr size_t kMaxItemStates = 2000;  // of an array whose items are counted
constexpr size_t kMaxUniqueValues = 10;  // of items that may come once

}  // namespace

std::string Emitter::array(const ArrayShape& shape) {
  if (!shape.unique_at.empty() && shape.most > 1) return unique_array(shape);
  return shape.contains.empty() ? plain_array(shape) : counted_array(shape);
}

std::string Emitter::plain_array(const ArrayShape& shape) {
  // Items that no value fits end the array before them.
  uint64_t most = shape.most;
  for (size_t i = 0; i < shape.prefix.size() && i < most; ++i) {
    if (sets_.empty(shape.prefix[i])) most = i;
  }
  const size_t prefix = std::min<uint64_t>(shape.prefix.size(), most);
  if (sets_.empty(shape.rest)) most = std::min<uint64_t>(most, shape.prefix.size());
  if (shape.least > most) return "";
  std::string tail;  // behind `prefix` items, at least one
  if (most > prefix) {
    const std::string item = rule_of(shape.rest);
    const uint64_t first = prefix == 0 ? 1 : 0;
    tail = repeated(comma_ + " " + item,
                    shape.least > prefix + first ? shape.least - prefix - first : 0,
                    most == kNoBound ? most : most - prefix - first);
    if (first == 1) tail = tail.empty() ? item : item + " " + tail;
  }
  for (size_t i = prefix; i-- > 0;) {
    std::string after = tail;
    if (i + 1 < prefix) after = rules_.choice("a", {(comma_ + " ") + tail});
    if (i + 1 < prefix && shape.least <= i + 1) after = fmt::format("({})?", after);
    tail = rule_of(shape.prefix[i]) + (after.empty() ? "" : " " + after);
  }
  std::vector<std::string> alternatives;
  if (shape.least == 0) alternatives.push_back(bracketed('[', "", ']'));
  if (most > 0) alternatives.push_back(bracketed('[', tail, ']'));
  return rules_.choice("arr", alternatives);
}

// States: the number of items, up to where it no longer matters, and how many each of `contains`
// has met, up to its bound.
std::string Emitter::counted_array(const ArrayShape& shape) {
  uint64_t last = std::max<uint64_t>(shape.prefix.size(), shape.least);
  for (const auto& c : shape.contains) last = std::max(last, c.from);
  if (shape.most != kNoBound) last = shape.most;
  last = std::max<uint64_t>(last, 1);
  if (last > kMaxItemStates || shape.contains.size() > 8) throw TooLarge("its items are counted");
  using State = std::vector<uint64_t>;
  std::map<State, std::string> names;
  std::vector<State> order;
  const auto name_of = [&](const State& state) {
    const auto [at, fresh] = names.try_emplace(state);
    if (fresh) {
      if (order.size() >= kMaxItemStates) throw TooLarge("its items are counted");
      at->second = rules_.name("k");
      order.push_back(state);
    }
    return at->second;
  };
  const auto cap = [](const Contains& c) { return c.most == kNoBound ? c.least : c.most + 1; };
  const std::string start = name_of(State(shape.contains.size() + 1));
  for (size_t k = 0; k < order.size(); ++k) {
    const State state = order[k];
    const uint64_t n = state[0];
    std::vector<std::string> alternatives;
    bool ends = n >= shape.least;
    for (size_t c = 0; c < shape.contains.size(); ++c) {
      ends = ends && state[c + 1] >= shape.contains[c].least;
    }
    if (ends) alternatives.push_back("\"\"");
    if (n < shape.most) {
      const SetId item = n < shape.prefix.size() ? shape.prefix[n] : shape.rest;
      for (uint32_t met = 0; met < (1u << shape.contains.size()); ++met) {
        State to = state;
        to[0] = std::min(n + 1, last);
        std::vector<SetId> parts{item};
        bool possible = true;
        for (size_t c = 0; c < shape.contains.size(); ++c) {
          const Contains& contains = shape.contains[c];
          if ((met >> c & 1) != 0) {
            possible = possible && n >= contains.from && state[c + 1] < cap(contains);
            ++to[c + 1];
            possible = possible && to[c + 1] <= contains.most;
            parts.push_back(contains.item);
          } else if (contains.most != kNoBound && n >= contains.from) {
            parts.push_back(sets_.none_of(contains.item));
          }
        }
        if (!possible) continue;
        const SetId value = sets_.all_of(parts);
        if (sets_.empty(value)) continue;
        alternatives.push_back(
            fmt::format("{}{} {}", n > 0 ? comma_ + " " : "", rule_of(value), name_of(to)));
      }
    }
    if (!alternatives.empty()) rules_.add(names.at(state), joined(alternatives, " | "));
  }
  return rules_.choice("arr", {bracketed('[', start, ']')});
}

// Items of a few values, each once, in any order.
std::string Emitter::unique_array(const ArrayShape& shape) {
  const auto refused = [&](const char* why) {
    if (options_.strict) {
      refuse(
          "uniqueItems", shape.unique_at == "/" ? "" : shape.unique_at,
          fmt::format("is enforced only where all items have one schema {}; \"strict\": false in "
                      "response_format leaves it to the check of the finished answer",
                      why));
    }
    ArrayShape free = shape;
    free.unique_at.clear();
    return array(free);
  };
  if (!shape.prefix.empty() || !shape.contains.empty()) return refused("and no contains");
  const Values values = sets_.values(shape.rest);
  std::vector<std::string> items;
  if (values.null) items.push_back("\"null\"");
  if (values.yes) items.push_back("\"true\"");
  if (values.no) items.push_back("\"false\"");
  bool finite = values.arrays.empty() && values.objects.empty();
  if (!values.numbers.in->empty()) {
    const auto found = list_numbers(values.numbers, kMaxUniqueValues);
    finite = finite && !found.empty();
    for (const auto& one : found) items.push_back(numbers(one));
  }
  std::vector<std::u32string> strings;
  for (const auto& part : values.strings) {
    const Dfa dfa = limit_length(*part.texts, part.least, part.most);
    const auto found = list_texts(dfa, kMaxUniqueValues);
    finite = finite && (dfa.empty() || !found.empty());
    strings.insert(strings.end(), found.begin(), found.end());
  }
  std::ranges::sort(strings);
  strings.erase(std::unique(strings.begin(), strings.end()), strings.end());
  for (const auto& text : strings) items.push_back(literal(json_text_of(text)));
  if (!finite || items.size() > kMaxUniqueValues) {
    return refused("of up to 10 constants");
  }
  // A rule for each set of values that are still free.
  const uint32_t all = (1u << items.size()) - 1;
  std::vector<std::string> names(all + 1);
  for (auto& name : names) name = rules_.name("q");
  for (uint32_t left = 0; left <= all; ++left) {
    const auto written =
        static_cast<uint64_t>(items.size()) - static_cast<uint64_t>(std::popcount(left));
    std::vector<std::string> alternatives;
    if (written >= shape.least) alternatives.push_back("\"\"");
    for (size_t i = 0; i < items.size() && written < shape.most; ++i) {
      if ((left >> i & 1) == 0) continue;
      alternatives.push_back(fmt::format("{}{} {}", written > 0 ? comma_ + " " : "", items[i],
                                         names[left & ~(1u << i)]));
    }
    if (!alternatives.empty()) rules_.add(names[left], joined(alternatives, " | "));
  }
  return rules_.choice("arr", {bracketed('[', names[all], ']')});
}

}  // namespace plimsoll::grammar
