// Finds stop strings in growing text, in time linear in the text whatever the number of strings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::engine {

/// An automaton over all stop strings of a request (Aho, Corasick 1975), over bytes. Immutable;
/// every text has its own StopSearch.
class StopStrings {
 public:
  /// Builds the automaton; empty strings are skipped.
  explicit StopStrings(const std::vector<std::string>& strings);

 private:
  friend class StopSearch;
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t first_child = kNone;
    uint32_t next_sibling = kNone;
    uint32_t fallback = 0;    // the longest proper suffix that is in the tree
    uint32_t string = kNone;  // the longest stop string that ends here
    uint8_t byte = 0;
  };

  void insert(std::string_view string, uint32_t index);
  void link_fallbacks();
  [[nodiscard]] uint32_t child(uint32_t node, uint8_t byte) const;
  [[nodiscard]] uint32_t next(uint32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> roots_{};  // children of the root
  std::vector<size_t> lengths_;        // by index in the list given
};

/// A stop string that has been found in a text.
struct StopHit {
  size_t begin = 0;  // bytes from the start of the text
  size_t end = 0;
  size_t index = 0;  // in the list of stop strings
};

/// The search over one text. `strings` must outlive it.
class StopSearch {
 public:
  explicit StopSearch(const StopStrings& strings) : strings_(&strings) {}

  /// Searches the text's next bytes. Of the stop strings that end in them the one that begins first
  /// is returned, and of those that begin there the one listed first.
  std::optional<StopHit> feed(std::string_view piece);
  /// Bytes of the text so far.
  [[nodiscard]] size_t position() const { return position_; }

 private:
  const StopStrings* strings_;
  uint32_t node_ = 0;
  size_t position_ = 0;
};

}  // namespace plimsoll::engine
