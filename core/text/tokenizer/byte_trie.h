// A trie over bytes: looks up added tokens, Unigram pieces and WordPiece vocabularies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::text {

class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNowhere = UINT32_MAX;
  static constexpr int32_t kNoValue = -1;

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, int32_t>>{}) {}
  /// Builds the trie of keys with their values (>= 0); of equal keys the last counts. The texts are
  /// not needed afterwards.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  [[nodiscard]] uint32_t step(uint32_t node, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    if (node == kRoot) return root_[label];
    const Node& from = nodes_[node];
    for (uint32_t edge = from.first_edge; edge < from.first_edge + from.edges; ++edge) {
      if (labels_[edge] == label) return targets_[edge];
    }
    return kNowhere;
  }
  [[nodiscard]] int32_t value(uint32_t node) const { return nodes_[node].value; }

  /// Calls `found(length, value)` for every key that `text` starts with, shortest first.
  template <typename Found>
  void for_each_prefix(std::string_view text, Found&& found) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = step(node, text[i]);
      if (node == kNowhere) return;
      if (nodes_[node].value != kNoValue) found(i + 1, nodes_[node].value);
    }
  }

  /// The longest key that `text` starts with: {length, value}, or {0, kNoValue}.
  [[nodiscard]] std::pair<size_t, int32_t> longest_prefix(std::string_view text) const {
    std::pair<size_t, int32_t> best{0, kNoValue};
    for_each_prefix(text, [&](size_t length, int32_t value) { best = {length, value}; });
    return best;
  }

  /// True when the text is the beginning of some key.
  [[nodiscard]] bool holds_start(std::string_view text) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size() && node != kNowhere; ++i) node = step(node, text[i]);
    return node != kNowhere;
  }

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint16_t edges = 0;
    int32_t value = kNoValue;
  };
  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;
  std::vector<uint32_t> targets_;
  std::array<uint32_t, 256> root_{};  // nearly all characters start at the root, and most end there
};

}  // namespace plimsoll::text
