// How byte-level BPE of GGUF files splits texts, by the name in tokenizer.ggml.pre.
#pragma once

#include <array>
#include <string_view>

namespace plimsoll::checkpoint::gguf {

struct PreTokenizer {
  std::string_view name;
  /// Regular expressions, each of which splits the pieces of the one before; unused are empty.
  std::array<std::string_view, 5> patterns;
  bool nfc = false;           // texts are normalised first
  bool whole_pieces = false;  // a piece that is a token is that token, merges or not
  bool adds_bos = false;      // where the metadata do not say
};

/// The row of a name; null: it is not known.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

}  // namespace plimsoll::checkpoint::gguf
