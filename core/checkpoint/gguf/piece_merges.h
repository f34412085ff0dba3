// Merges of a SentencePiece BPE vocabulary, which has scores in their place.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::checkpoint::gguf {

/// Pairs "left right" of joined pieces whose union is a joined piece, those of the best score
/// first. `joined`: the pieces that texts are made of. The pieces are valid UTF-8, or have no
/// merges.
std::vector<std::string> piece_merges(const std::vector<std::string>& pieces,
                                      const std::vector<double>& scores,
                                      const std::vector<bool>& joined);

}  // namespace plimsoll::checkpoint::gguf
