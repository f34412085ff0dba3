#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "grammar/patterns/automaton.h"

namespace plimsoll::grammar {
std::vector<uint32_t> longest_ways(const Dfa& dfa) {
  const size_t count = dfa.states.size();
  std::vector<std::vector<uint32_t>> back(count);
  std::vector<uint32_t> open(count), way(count, kNoState);
  for (uint32_t s = 0; s < count; ++s) {
    open[s] = static_cast<uint32_t>(dfa.states[s].edges.size());
    for (const auto& edge : dfa.states[s].edges) back[edge.to].push_back(s);
  }
  std::vector<uint32_t> todo;
  for (uint32_t s = 0; s < count; ++s) {
    if (open[s] == 0) todo.push_back(s);
  }
  while (!todo.empty()) {
    const uint32_t s = todo.back();
    todo.pop_back();
    uint32_t longest = 0;
    for (const auto& edge : dfa.states[s].edges) longest = std::max(longest, way[edge.to] + 1);
    way[s] = longest;
    for (uint32_t from : back[s]) {
      if (--open[from] == 0) todo.push_back(from);
    }
  }
  return way;
}

std::vector<uint32_t> shortest_ways(const Dfa& dfa) {
  const size_t count = dfa.states.size();
  std::vector<std::vector<uint32_t>> back(count);
  for (uint32_t s = 0; s < count; ++s) {
    for (const auto& edge : dfa.states[s].edges) back[edge.to].push_back(s);
  }
  std::vector<uint32_t> way(count, kNoState);
  std::deque<uint32_t> todo;
  for (uint32_t s = 0; s < count; ++s) {
    if (dfa.states[s].accepts) {
      way[s] = 0;
      todo.push_back(s);
    }
  }
  while (!todo.empty()) {
    const uint32_t s = todo.front();
    todo.pop_front();
    for (uint32_t from : back[s]) {
      if (way[from] != kNoState) continue;
      way[from] = way[s] + 1;
      todo.push_back(from);
    }
  }
  return way;
}

bool has_length(const Dfa& dfa, uint64_t least, uint64_t most) {
  if (dfa.empty() || least > most) return false;
  if (dfa.universal()) return true;
  std::vector<bool> now(dfa.states.size());
  now[0] = true;
  const uint64_t end = std::min<uint64_t>(most, least + dfa.states.size());
  for (uint64_t length = 0; length <= end; ++length) {
    std::vector<bool> next(now.size());
    bool any = false;
    WorkLimit::spend(static_cast<int64_t>(now.size()));
    for (size_t s = 0; s < now.size(); ++s) {
      if (!now[s]) continue;
      if (length >= least && dfa.states[s].accepts) return true;
      for (const auto& edge : dfa.states[s].edges) next[edge.to] = any = true;
    }
    if (!any) return false;
    now = std::move(next);
  }
  return false;
}

Dfa limit_length(const Dfa& dfa, uint64_t least, uint64_t most) {
  const auto shortest = shortest_ways(dfa);
  const auto longest = longest_ways(dfa);
  if (dfa.empty()) return dfa;
  if (shortest[0] >= least &&
      (most == UINT64_MAX || (longest[0] != kNoState && longest[0] <= most))) {
    return dfa;
  }
  const uint64_t steps = most == UINT64_MAX ? least : most;
  if (steps >= kMaxStates) throw TooLarge("a length beside a pattern is more than 20,000");
  Dfa counter;
  for (uint64_t i = 0; i <= steps; ++i) {
    Dfa::State state{i >= least, {}};
    const bool last = i == steps;
    if (!last || most == UINT64_MAX) {
      const auto to = static_cast<uint32_t>(last ? i : i + 1);
      state.edges = {{0, 0xD7FF, to}, {0xE000, kLastCodePoint, to}};
    }
    counter.states.push_back(std::move(state));
  }
  try {
    return combine(dfa, counter, BothWays::intersection);
  } catch (const TooLarge& error) {
    throw TooLarge(fmt::format("a length of {} beside it: {}", steps, error.what()));
  }
}

std::vector<std::u32string> list_texts(const Dfa& dfa, size_t most) {
  std::vector<std::u32string> found;
  if (dfa.empty() || longest_ways(dfa)[0] == kNoState) return found;
  struct Open {
    uint32_t state;
    std::u32string text;
  };
  std::vector<Open> todo{{0, U""}};
  while (!todo.empty()) {
    Open open = std::move(todo.back());
    todo.pop_back();
    WorkLimit::spend(static_cast<int64_t>(open.text.size()) + 1);
    const auto& state = dfa.states[open.state];
    if (state.accepts) found.push_back(open.text);
    if (found.size() + todo.size() + state.edges.size() > most) return {};
    for (auto edge = state.edges.rbegin(); edge != state.edges.rend(); ++edge) {
      if (edge->last - edge->first > 31) return {};
      for (uint32_t c = edge->last + 1; c-- > edge->first;) {
        todo.push_back({edge->to, open.text + static_cast<char32_t>(c)});
      }
    }
  }
  return found;
}

}  // namespace plimsoll::grammar
