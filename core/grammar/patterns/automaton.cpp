#include "grammar/patterns/automaton.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

namespace plimsoll::grammar {
namespace {

constexpr size_t kMaxNfaStates = 200'000;

void check_states(size_t states) {
  if (states > kMaxStates) throw TooLarge("an automaton has more than 20,000 states");
}

void push_edge(std::vector<Dfa::Edge>& edges, uint32_t first, uint32_t last, uint32_t to) {
  if (!edges.empty() && edges.back().to == to && edges.back().last + 1 == first) {
    edges.back().last = last;
  } else {
    edges.push_back({first, last, to});
  }
}

// Keeps the states that the start reaches and that reach an accepting state.
Dfa trimmed(const Dfa& dfa) {
  const size_t count = dfa.states.size();
  std::vector<std::vector<uint32_t>> back(count);
  for (uint32_t s = 0; s < count; ++s) {
    for (const auto& edge : dfa.states[s].edges) back[edge.to].push_back(s);
  }
  std::vector<bool> useful(count), reached(count);
  std::vector<uint32_t> todo;
  for (uint32_t s = 0; s < count; ++s) {
    if (dfa.states[s].accepts) {
      useful[s] = true;
      todo.push_back(s);
    }
  }
  while (!todo.empty()) {
    const uint32_t s = todo.back();
    todo.pop_back();
    for (uint32_t from : back[s]) {
      if (!useful[from]) {
        useful[from] = true;
        todo.push_back(from);
      }
    }
  }
  Dfa out;
  if (count == 0 || !useful[0]) return out;
  std::vector<uint32_t> name(count, kNoState), order{0};
  name[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    Dfa::State state{dfa.states[order[i]].accepts, {}};
    for (const auto& edge : dfa.states[order[i]].edges) {
      if (!useful[edge.to]) continue;
      if (name[edge.to] == kNoState) {
        name[edge.to] = static_cast<uint32_t>(order.size());
        order.push_back(edge.to);
      }
      push_edge(state.edges, edge.first, edge.last, name[edge.to]);
    }
    out.states.push_back(std::move(state));
  }
  return out;
}

}  // namespace

bool Dfa::universal() const {
  return states.size() == 1 && states[0].accepts && states[0].edges.size() == 2 &&
         states[0].edges[0] == Edge{0, 0xD7FF, 0} &&
         states[0].edges[1] == Edge{0xE000, kLastCodePoint, 0};
}

bool Dfa::accepts(std::string_view utf8) const {
  if (states.empty()) return false;
  uint32_t at = 0;
  for (const char32_t c : code_points_of(utf8)) {
    const auto& edges = states[at].edges;
    const auto edge = std::ranges::lower_bound(edges, static_cast<uint32_t>(c), {}, &Edge::last);
    if (edge == edges.end() || edge->first > c) return false;
    at = edge->to;
  }
  return states[at].accepts;
}

uint32_t Nfa::add() {
  if (states.size() >= kMaxNfaStates) throw TooLarge("a pattern has too many parts");
  WorkLimit::spend(1);
  states.emplace_back();
  accepting.push_back(false);
  return static_cast<uint32_t>(states.size() - 1);
}

void Nfa::edge(uint32_t from, const CharSet& set, uint32_t to) {
  WorkLimit::spend(static_cast<int64_t>(set.size()));
  for (const Range& range : set) states[from].edges.push_back({range.first, range.last, to});
}

uint32_t Nfa::copy(const Dfa& dfa, uint32_t to) {
  const auto base = static_cast<uint32_t>(states.size());
  if (dfa.empty()) return add();
  for (size_t i = 0; i < dfa.states.size(); ++i) add();
  for (uint32_t s = 0; s < dfa.states.size(); ++s) {
    for (auto edge : dfa.states[s].edges) {
      edge.to += base;
      states[base + s].edges.push_back(edge);
    }
    if (dfa.states[s].accepts) join(base + s, to);
  }
  return base;
}

Dfa minimal(Dfa untrimmed) {
  Dfa dfa = trimmed(untrimmed);
  const size_t count = dfa.states.size();
  if (count < 2) return dfa;
  const auto longest = longest_ways(dfa), shortest = shortest_ways(dfa);
  std::vector<uint32_t> part(count);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> first_parts;
  for (uint32_t s = 0; s < count; ++s) {
    part[s] = first_parts.try_emplace({longest[s], shortest[s]}, first_parts.size()).first->second;
  }
  size_t parts = first_parts.size();
  while (parts < count) {
    std::map<std::vector<uint32_t>, uint32_t> seen;
    std::vector<uint32_t> next(count);
    for (uint32_t s = 0; s < count; ++s) {
      std::vector<uint32_t> mark{part[s]};
      std::vector<Dfa::Edge> edges;
      for (const auto& edge : dfa.states[s].edges) {
        push_edge(edges, edge.first, edge.last, part[edge.to]);
      }
      for (const auto& edge : edges) mark.insert(mark.end(), {edge.first, edge.last, edge.to});
      WorkLimit::spend(static_cast<int64_t>(mark.size()));
      next[s] = seen.try_emplace(std::move(mark), seen.size()).first->second;
    }
    part = std::move(next);
    if (seen.size() == parts) break;
    parts = seen.size();
  }
  if (parts == count) return dfa;
  Dfa out;
  out.states.resize(parts);
  std::vector<bool> done(parts);
  for (uint32_t s = 0; s < count; ++s) {
    if (done[part[s]]) continue;
    done[part[s]] = true;
    out.states[part[s]].accepts = dfa.states[s].accepts;
    for (const auto& edge : dfa.states[s].edges) {
      push_edge(out.states[part[s]].edges, edge.first, edge.last, part[edge.to]);
    }
  }
  if (part[0] != 0) {  // the start is the first
    std::swap(out.states[0], out.states[part[0]]);
    for (auto& state : out.states) {
      for (auto& edge : state.edges) {
        edge.to = edge.to == 0 ? part[0] : edge.to == part[0] ? 0 : edge.to;
      }
    }
  }
  return trimmed(out);
}

Dfa determinize(const Nfa& nfa, uint32_t start) {
  using Set = std::vector<uint32_t>;
  std::vector<uint32_t> seen_in(nfa.states.size(), kNoState);
  uint32_t round = 0;
  const auto close = [&](Set set) {
    ++round;
    Set out;
    while (!set.empty()) {
      const uint32_t s = set.back();
      set.pop_back();
      if (seen_in[s] == round) continue;
      seen_in[s] = round;
      out.push_back(s);
      for (uint32_t to : nfa.states[s].empty_edges) set.push_back(to);
    }
    std::ranges::sort(out);
    WorkLimit::spend(static_cast<int64_t>(out.size()));
    return out;
  };
  Dfa dfa;
  std::map<Set, uint32_t> names;
  std::vector<const Set*> order;
  const auto name_of = [&](Set set) {
    const auto [at, fresh] = names.try_emplace(std::move(set), names.size());
    if (fresh) order.push_back(&at->first);
    return at->second;
  };
  name_of(close({start}));
  for (size_t i = 0; i < order.size(); ++i) {
    check_states(order.size());
    Dfa::State state;
    std::vector<Dfa::Edge> edges;
    std::vector<uint32_t> cuts;
    for (uint32_t s : *order[i]) {
      if (nfa.accepting[s]) state.accepts = true;
      for (const auto& edge : nfa.states[s].edges) {
        edges.push_back(edge);
        cuts.push_back(edge.first);
        cuts.push_back(edge.last + 1);
      }
    }
    std::ranges::sort(edges, {}, &Dfa::Edge::first);
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    WorkLimit::spend(static_cast<int64_t>(edges.size()) * 2);
    size_t next_edge = 0;
    std::vector<Dfa::Edge> active;
    std::map<Set, uint32_t> known;  // closing is the cost: once for each set of targets
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      std::erase_if(active, [&](const auto& edge) { return edge.last < cuts[c]; });
      for (; next_edge < edges.size() && edges[next_edge].first <= cuts[c]; ++next_edge) {
        active.push_back(edges[next_edge]);
      }
      if (active.empty()) continue;
      Set targets;
      for (const auto& edge : active) targets.push_back(edge.to);
      std::ranges::sort(targets);
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      WorkLimit::spend(static_cast<int64_t>(targets.size()));
      auto at = known.find(targets);
      if (at == known.end()) at = known.emplace(targets, name_of(close(targets))).first;
      push_edge(state.edges, cuts[c], cuts[c + 1] - 1, at->second);
    }
    dfa.states.push_back(std::move(state));
  }
  return minimal(std::move(dfa));
}

Dfa combine(const Dfa& a, const Dfa& b, BothWays how) {
  using Pair = std::pair<uint32_t, uint32_t>;
  const auto useless = [&](Pair pair) {
    if (how == BothWays::union_) return pair.first == kNoState && pair.second == kNoState;
    return pair.first == kNoState || (how == BothWays::intersection && pair.second == kNoState);
  };
  Dfa dfa;
  std::map<Pair, uint32_t> names;
  std::vector<Pair> order;
  const auto name_of = [&](Pair pair) {
    const auto [at, fresh] = names.try_emplace(pair, names.size());
    if (fresh) order.push_back(pair);
    return at->second;
  };
  const Pair start{a.empty() ? kNoState : 0, b.empty() ? kNoState : 0};
  if (useless(start)) return {};
  name_of(start);
  const std::vector<Dfa::Edge> none;
  for (size_t i = 0; i < order.size(); ++i) {
    check_states(order.size());
    const auto [p, q] = order[i];
    const bool in_a = p != kNoState && a.states[p].accepts,
               in_b = q != kNoState && b.states[q].accepts;
    Dfa::State state;
    state.accepts = how == BothWays::union_         ? in_a || in_b
                    : how == BothWays::intersection ? in_a && in_b
                                                    : in_a && !in_b;
    const auto& x = p == kNoState ? none : a.states[p].edges;
    const auto& y = q == kNoState ? none : b.states[q].edges;
    WorkLimit::spend(static_cast<int64_t>(x.size() + y.size()) + 2);
    size_t j = 0, k = 0;
    uint32_t at = 0;
    while (j < x.size() || k < y.size()) {
      const bool has_x = j < x.size() && x[j].first <= at, has_y = k < y.size() && y[k].first <= at;
      uint32_t last = kLastCodePoint;
      if (j < x.size()) last = std::min(last, has_x ? x[j].last : x[j].first - 1);
      if (k < y.size()) last = std::min(last, has_y ? y[k].last : y[k].first - 1);
      const Pair to{has_x ? x[j].to : kNoState, has_y ? y[k].to : kNoState};
      if (!useless(to)) push_edge(state.edges, at, last, name_of(to));
      if (has_x && x[j].last == last) ++j;
      if (has_y && y[k].last == last) ++k;
      at = last + 1;
    }
    dfa.states.push_back(std::move(state));
  }
  return minimal(std::move(dfa));
}

Dfa complement_of(const Dfa& dfa) {
  return combine(all_texts(), dfa, BothWays::difference);
}

Dfa concatenation_of(const Dfa& a, const Dfa& b) {
  Nfa nfa;
  const uint32_t end = nfa.add();
  nfa.accepting[end] = true;
  const uint32_t second = nfa.copy(b, end);
  return determinize(nfa, nfa.copy(a, second));
}

Dfa all_texts() {
  return {{{true, {{0, 0xD7FF, 0}, {0xE000, kLastCodePoint, 0}}}}};
}

Dfa text_of_set(const CharSet& set) {
  if (set.empty()) return {};
  Dfa dfa;
  dfa.states.resize(2);
  for (const Range& range : set) dfa.states[0].edges.push_back({range.first, range.last, 1});
  dfa.states[1].accepts = true;
  return dfa;
}

Dfa texts(std::span<const std::string> utf8) {
  Dfa dfa;
  if (utf8.empty()) return dfa;
  std::vector<std::map<uint32_t, uint32_t>> next(1);
  dfa.states.resize(1);
  for (const auto& text : utf8) {
    uint32_t at = 0;
    for (const char32_t c : code_points_of(text)) {
      const auto [to, fresh] = next[at].try_emplace(c, next.size());
      at = to->second;
      if (!fresh) continue;
      next.emplace_back();
      dfa.states.emplace_back();
      if (next.size() > 1'000'000) throw TooLarge("texts of more than 1,000,000 characters");
    }
    dfa.states[at].accepts = true;
  }
  for (size_t s = 0; s < next.size(); ++s) {
    for (const auto& [c, to] : next[s]) push_edge(dfa.states[s].edges, c, c, to);
  }
  return minimal(std::move(dfa));
}

}  // namespace plimsoll::grammar
