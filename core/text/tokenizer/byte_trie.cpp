#include "text/tokenizer/byte_trie.h"

#include <algorithm>

namespace plimsoll::text {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::ranges::stable_sort(entries, {}, &std::pair<std::string_view, int32_t>::first);
  // Breadth first: a node is a range of the sorted keys that share a prefix of `depth` bytes.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, entries.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    while (begin < end && entries[begin].first.size() == depth)
      nodes_[node].value = entries[begin++].second;
    nodes_[node].first_edge = static_cast<uint32_t>(labels_.size());
    while (begin < end) {
      const char label = entries[begin].first[depth];
      size_t last = begin;
      while (last < end && entries[last].first[depth] == label) ++last;
      labels_.push_back(static_cast<unsigned char>(label));
      targets_.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.emplace_back();
      ++nodes_[node].edges;
      ranges.push_back({begin, last, depth + 1});
      begin = last;
    }
  }
  root_.fill(kNowhere);
  for (uint32_t edge = 0; edge < nodes_[kRoot].edges; ++edge) root_[labels_[edge]] = targets_[edge];
}

}  // namespace plimsoll::text
