// A tokenizer whose tokens are bytes, written as a tokenizer.json.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

namespace plimsoll::testing {

/// GPT-2's letter for a byte: printable Latin-1 as it is, the others from U+0100 on.
inline std::string byte_letter(int byte) {
  const auto printable = [](int b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  };
  int code = byte;
  if (!printable(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

/// Ids 0 to 255 are bytes, 256 the special token "<eos>", from 257 on the `words`.
inline text::Tokenizer byte_tokenizer(const std::filesystem::path& folder,
                                      const std::vector<std::string>& words = {}) {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[byte_letter(byte)] = byte;
  vocabulary["<eos>"] = 256;
  Json added = Json::array();
  added.push_back({{"id", 256},
                   {"content", "<eos>"},
                   {"special", true},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false}});
  for (const std::string& word : words) {
    std::string letters;
    for (const char letter : word) letters += byte_letter(static_cast<uint8_t>(letter));
    vocabulary[letters] = 257 + static_cast<int>(&word - words.data());
  }
  const Json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  const std::filesystem::path path = folder / "tokenizer.json";
  std::ofstream(path) << file.dump();
  return text::Tokenizer::load(path);
}

/// The ids that spell a text, byte by byte.
inline std::vector<text::TokenId> byte_ids(std::string_view text) {
  std::vector<text::TokenId> ids;
  for (const char letter : text) ids.push_back(static_cast<uint8_t>(letter));
  return ids;
}

}  // namespace plimsoll::testing
