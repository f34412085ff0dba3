#include "engine/sampling/stop_strings.h"

#include <utility>

namespace plimsoll::engine {

StopStrings::StopStrings(const std::vector<std::string>& strings) : nodes_(1) {
  roots_.fill(kNone);
  for (uint32_t i = 0; i < strings.size(); ++i) {
    if (strings[i].empty()) continue;
    lengths_.resize(i + 1);
    lengths_[i] = strings[i].size();
    insert(strings[i], i);
  }
  link_fallbacks();
}

void StopStrings::insert(std::string_view string, uint32_t index) {
  uint32_t node = 0;
  for (const char letter : string) {
    const auto byte = static_cast<uint8_t>(letter);
    uint32_t down = child(node, byte);
    if (down == kNone) {
      down = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.next_sibling = nodes_[node].first_child, .byte = byte});
      nodes_[node].first_child = down;
      if (node == 0) roots_[byte] = down;
    }
    node = down;
  }
  if (nodes_[node].string == kNone) nodes_[node].string = index;
}

// Breadth first: a node's fallback is nearer to the root, so it is complete.
void StopStrings::link_fallbacks() {
  std::vector<uint32_t> queue = {0};
  for (size_t at = 0; at < queue.size(); ++at) {
    const uint32_t node = queue[at];
    for (uint32_t down = nodes_[node].first_child; down != kNone;
         down = nodes_[down].next_sibling) {
      nodes_[down].fallback = node == 0 ? 0 : next(nodes_[node].fallback, nodes_[down].byte);
      if (nodes_[down].string == kNone) {
        nodes_[down].string = nodes_[nodes_[down].fallback].string;
      }
      queue.push_back(down);
    }
  }
}

uint32_t StopStrings::child(uint32_t node, uint8_t byte) const {
  if (node == 0) return roots_[byte];
  uint32_t down = nodes_[node].first_child;
  while (down != kNone && nodes_[down].byte != byte) down = nodes_[down].next_sibling;
  return down;
}

uint32_t StopStrings::next(uint32_t node, uint8_t byte) const {
  while (true) {
    const uint32_t down = child(node, byte);
    if (down != kNone) return down;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

std::optional<StopHit> StopSearch::feed(std::string_view piece) {
  std::optional<StopHit> best;
  for (const char letter : piece) {
    node_ = strings_->next(node_, static_cast<uint8_t>(letter));
    ++position_;
    // The longest of the strings that end here begins first, and the node has that one.
    const uint32_t string = strings_->nodes_[node_].string;
    if (string == StopStrings::kNone) continue;
    const StopHit hit{position_ - strings_->lengths_[string], position_, string};
    if (!best || std::pair(hit.begin, hit.index) < std::pair(best->begin, best->index)) best = hit;
  }
  return best;
}

}  // namespace plimsoll::engine
