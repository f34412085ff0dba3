// Text of a tokenizer.model (sentencepiece), written here piece by piece.
#include <catch2/catch.hpp>

#include <cstring>

#include "tokenizer_fixture.h"

namespace plimsoll::text {
namespace {

constexpr TokenId kStart = 1, kHi = 3, kYou = 4, kMark = 5, kByte = 6, kTool = 262;

std::string bytes_field(char number, const std::string& bytes) {
  std::string field{static_cast<char>(number << 3 | 2)};
  for (size_t left = bytes.size(); true; left >>= 7) {
    field += static_cast<char>((left & 0x7F) | (left < 0x80 ? 0 : 0x80));
    if (left < 0x80) return field + bytes;
  }
}

/// A model of a few words and all bytes, as the protocol buffer that sentencepiece reads.
std::string piece_model(bool removes_extra_spaces) {
  constexpr char kNormal = 1, kUnknown = 2, kControl = 3, kByteKind = 6;
  std::string model;
  const auto add = [&](const std::string& piece, float score, char kind) {
    std::string score_bytes(sizeof score, '\0');
    std::memcpy(score_bytes.data(), &score, sizeof score);
    model += bytes_field(1, bytes_field(1, piece) + "\x15" + score_bytes + "\x18" + kind);
  };
  add("<unk>", 0, kUnknown);
  add("<s>", 0, kControl);
  add("</s>", 0, kControl);
  add("\u2581Hi", -1, kNormal);
  add("\u2581you", -2, kNormal);
  add("\u2581", -3, kNormal);
  for (int value = 0; value < 256; ++value) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    add(std::string("<0x") + kDigits[value / 16] + kDigits[value % 16] + ">", 0, kByteKind);
  }
  model += bytes_field(2, std::string("\x98\x02\x01", 3));  // bytes stand for what no piece has
  std::string spaces("\x18\x01\x20", 3);                    // a space comes before the first word
  return model + bytes_field(3, spaces + (removes_extra_spaces ? '\1' : '\0'));
}

Tokenizer piece_tokenizer(bool removes_extra_spaces = true) {
  const ScratchFolder folder;
  folder.write("tokenizer.model", piece_model(removes_extra_spaces));
  folder.write("tokenizer_config.json", R"({"tokenizer_class":"LlamaTokenizer",
      "added_tokens_decoder":{"262":{"content":"<tool>","special":false}}})");
  return Tokenizer::load(folder.path());
}

/// The text at once, which must be that piece by piece.
std::string text_of_ids(const Tokenizer& tokenizer, const Ids& ids,
                        Specials specials = Specials::keep) {
  std::string text = tokenizer.decode(ids, specials);
  Detokenizer detokenizer(tokenizer, {}, specials);
  std::string joined;
  for (const TokenId id : ids) joined += detokenizer.push(id);
  CHECK(joined + detokenizer.finish() == text);
  return text;
}

TEST_CASE("a sentencepiece model's words begin with spaces, but not the first") {
  const Tokenizer tokenizer = piece_tokenizer();
  CHECK(plain(tokenizer, "Hi you") == Ids{kHi, kYou});
  CHECK(plain(tokenizer, "Hi<tool>you") == Ids{kHi, kTool, kYou});
  CHECK(text_of_ids(tokenizer, {kHi, kYou}) == "Hi you");
  // Special tokens of a config are added ones; a model alone has its own.
  CHECK(text_of_ids(tokenizer, {kStart, kYou, 0, kYou}) == "<s>you<unk>you");
  const ScratchFolder folder;
  const Tokenizer alone = Tokenizer::load(folder.write("tokenizer.model", piece_model(true)));
  CHECK(text_of_ids(alone, {kStart, kYou, 0, kYou}) == "you \u2047  you");
}

TEST_CASE("behind an added token a text begins anew, without a space") {
  const Tokenizer tokenizer = piece_tokenizer();
  CHECK(text_of_ids(tokenizer, {kHi, kTool, kYou}) == "Hi<tool>you");
  CHECK(text_of_ids(tokenizer, {kHi, kTool, kYou, kHi}) == "Hi<tool>you Hi");
  CHECK(text_of_ids(tokenizer, {kTool, kTool, kYou, kTool, kHi}) == "<tool><tool>you<tool>Hi");
  CHECK(text_of_ids(tokenizer, {kStart, kHi, kStart, kYou}) == "<s>Hi<s>you");
  // What is left out ends nothing.
  CHECK(text_of_ids(tokenizer, {kStart, kHi, kStart, kYou}, Specials::skip) == "Hi you");
}

TEST_CASE("a character that an added token cuts off is broken") {
  const Tokenizer tokenizer = piece_tokenizer();
  CHECK(text_of_ids(tokenizer, {kByte + 0xE4, kByte + 0xBD, kByte + 0xA0, kTool}) ==
        "\u4f60<tool>");
  CHECK(text_of_ids(tokenizer, {kByte + 0xE4, kByte + 0xBD, kTool, kByte + 0xA0, kYou}) ==
        "\ufffd\ufffd<tool>\ufffd you");
}

TEST_CASE("of several spaces in front all go where the model removes extra ones, else the first") {
  for (const bool removes : {true, false}) {
    INFO(removes);
    const Tokenizer tokenizer = piece_tokenizer(removes);
    const std::string first = removes ? "you" : " you";
    CHECK(text_of_ids(tokenizer, {kMark, kYou}) == first);
    CHECK(text_of_ids(tokenizer, {kHi, kTool, kMark, kYou}) == "Hi<tool>" + first);
    CHECK(text_of_ids(tokenizer, {kHi, kMark, kYou}) == "Hi  you");
  }
}

}  // namespace
}  // namespace plimsoll::text
