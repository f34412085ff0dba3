// Finite automata over Unicode code points: sets of texts that can be united, intersected and
// turned around exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::grammar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr uint32_t kNoState = UINT32_MAX;
inline constexpr size_t kMaxStates = 20'000;  // of an automaton

/// Code points from `first` to `last`.
struct Range {
  uint32_t first;
  uint32_t last;
  bool operator==(const Range&) const = default;
};
/// A set of code points: ranges in order that neither touch nor overlap. No set has surrogates.
using CharSet = std::vector<Range>;

CharSet normalized(CharSet ranges);
CharSet all_chars();
CharSet complement_of(const CharSet& set);
CharSet intersection_of(const CharSet& a, const CharSet& b);

/// A bound of README.md was exceeded while something was compiled.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The work that one compilation may do on this thread, in units of about a tenth of a microsecond.
/// Scopes nest: the outermost counts.
class WorkLimit {
 public:
  explicit WorkLimit(int64_t units);
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;
  /// Counts work. Throws TooLarge where nothing is left.
  static void spend(int64_t units);

 private:
  bool outermost_;
};

/// What is worked out once for all compilations counts for none of them.
class FreeWork {
 public:
  FreeWork();
  ~FreeWork();
  FreeWork(const FreeWork&) = delete;
  FreeWork& operator=(const FreeWork&) = delete;

 private:
  bool counted_;
};

/// A minimal deterministic automaton. Where no edge fits, the text is not accepted.
struct Dfa {
  struct Edge {
    uint32_t first;
    uint32_t last;
    uint32_t to;
    bool operator==(const Edge&) const = default;
  };
  struct State {
    bool accepts = false;
    std::vector<Edge> edges;  // in order, disjoint
    bool operator==(const State&) const = default;
  };
  std::vector<State> states;  // the first is the start; none where nothing is accepted

  bool operator==(const Dfa&) const = default;
  [[nodiscard]] bool empty() const { return states.empty(); }
  [[nodiscard]] bool universal() const;
  [[nodiscard]] bool accepts(std::string_view utf8) const;
};
using DfaPtr = std::shared_ptr<const Dfa>;
inline DfaPtr share(Dfa dfa) {
  return std::make_shared<const Dfa>(std::move(dfa));
}

/// Unlike Dfa, with several edges for one code point and edges without one; made by parts.
struct Nfa {
  struct State {
    std::vector<Dfa::Edge> edges;
    std::vector<uint32_t> empty_edges;
  };
  std::vector<State> states;
  std::vector<bool> accepting;

  uint32_t add();
  void edge(uint32_t from, const CharSet& set, uint32_t to);
  void join(uint32_t from, uint32_t to) { states[from].empty_edges.push_back(to); }
  /// Copies `dfa` in: its start; its accepting states are joined to `to`.
  uint32_t copy(const Dfa& dfa, uint32_t to);
};

enum class BothWays { intersection, union_, difference };

/// All functions throw TooLarge beyond 20,000 states.
Dfa minimal(Dfa dfa);
Dfa determinize(const Nfa& nfa, uint32_t start);
Dfa combine(const Dfa& a, const Dfa& b, BothWays how);
Dfa complement_of(const Dfa& dfa);
Dfa concatenation_of(const Dfa& a, const Dfa& b);
/// All texts, the texts of one code point of a set, and these texts.
Dfa all_texts();
Dfa text_of_set(const CharSet& set);
Dfa texts(std::span<const std::string> utf8);

/// Code points that lead from each state to acceptance: the fewest, and the most or UINT32_MAX
/// where there is no bound. Equal for equivalent states.
std::vector<uint32_t> shortest_ways(const Dfa& dfa);
std::vector<uint32_t> longest_ways(const Dfa& dfa);
/// Whether some text of the automaton has from `least` to `most` code points.
bool has_length(const Dfa& dfa, uint64_t least, uint64_t most);
/// The texts that have from `least` to `most` code points.
Dfa limit_length(const Dfa& dfa, uint64_t least, uint64_t most);
/// The texts, if there are at most `most` and each edge has one code point; else nothing.
std::vector<std::u32string> list_texts(const Dfa& dfa, size_t most);

std::u32string code_points_of(std::string_view utf8);
std::string utf8_of(std::u32string_view points);

}  // namespace plimsoll::grammar
