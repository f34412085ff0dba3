#include "checkpoint/gguf/piece_merges.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <unordered_set>

namespace plimsoll::checkpoint::gguf {
namespace {

constexpr size_t kLongestPiece = 512;  // bytes; SentencePiece's own are 16 characters by default

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

}  // namespace

std::vector<std::string> piece_merges(const std::vector<std::string>& pieces,
                                      const std::vector<double>& scores,
                                      const std::vector<bool>& joined) {
  std::unordered_set<std::string_view> known;
  std::vector<size_t> order;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!joined[id]) continue;
    known.insert(pieces[id]);
    if (pieces[id].size() <= kLongestPiece) order.push_back(id);
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<std::string> merges;
  for (const size_t id : order) {
    const std::string_view piece = pieces[id];
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if (!begins_character(piece[cut])) continue;
      const std::string_view left = piece.substr(0, cut), right = piece.substr(cut);
      if (!known.contains(left) || !known.contains(right)) continue;
      std::string merge(left);
      merge += ' ';
      merge += right;
      merges.push_back(std::move(merge));
    }
  }
  return merges;
}

}  // namespace plimsoll::checkpoint::gguf
