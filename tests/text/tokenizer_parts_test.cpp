// Normalizers, pre-tokenizers and decoders one by one; expected values from Hugging Face tokenizers
// 0.23.
#include <catch2/catch.hpp>

#include "text/tokenizer/files.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("normalizers") {
  struct Row {
    const char* json;
    std::string text;
    std::string expected;
  };
  const std::vector<Row> rows = {
      {R"({"type":"NFC"})", "e\u0301a\u0323\u0302", "\u00e9\u1ead"},
      {R"({"type":"NFD"})", "\u00e9\uac01", "e\u0301\u1100\u1161\u11a8"},
      {R"({"type":"NFKC"})", "\ufb01\u2167\u00bd", "fiVIII1\u20442"},
      {R"({"type":"NFKD"})", "\u2167\u00e9", "VIIIe\u0301"},
      {R"({"type":"NFKC"})", "\u0345\u1df7", "\u0345\u1df7"},  // 1df7: a letter there
      {R"({"type":"NFC"})", "e\u1df7\u0301", "e\u1df7\u0301"},
      {R"({"type":"NFC"})", "e\u0327\u1df7\u0323\u0301", "\u0229\u1df7\u0323\u0301"},
      {R"({"type":"NFD"})", "\u00e9\u1df7\u0323", "e\u0301\u1df7\u0323"},
      {R"({"type":"Lowercase"})", "\u0130\u03a3 A", "i\u0307\u03c3 a"},
      {R"({"type":"StripAccents"})", "e\u0301\u00e9", "e\u00e9"},
      {R"({"type":"Strip","strip_left":true,"strip_right":false})", " \u00a0a ", "a "},
      {R"({"type":"Nmt"})",
       "a\u200b\tb\x01"
       "c\u2581",
       "a  bc "},
      {R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})",
       "H\u00e9\x01llo\u4e2d\u6587\u3042", "hello \u4e2d  \u6587 \u3042"},
      {R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"_"})", "a  b   c d", "a_b_c d"},
      {R"({"type":"Replace","pattern":{"String":" "},"content":"\u2581"})", " a b",
       "\u2581a\u2581"
       "b"},
      {R"({"type":"Prepend","prepend":"\u2581"})", "a",
       "\u2581"
       "a"},
      {R"({"type":"Prepend","prepend":"\u2581"})", "", ""},
      {R"({"type":"ByteLevel"})", "\u00e9 a",
       "\u00c3\u00a9\u0120"
       "a"},
      {R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},{"type":"Lowercase"}]})",
       "\u00c9T\u00c9", "ete"}};
  for (const Row& row : rows) {
    INFO(row.json);
    NormalizedText text{row.text, true, row.text.empty() ? 0 : utf8_length(row.text[0])};
    parse_normalizer(Json::parse(row.json))->apply(text);
    CHECK(text.text == row.expected);
  }
}

TEST_CASE("long runs of combining marks are put in order in linear time") {
  std::string marks = "a";
  for (int i = 0; i < 200'000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0316";
  const std::string ordered = to_form(marks, UnicodeForm::nfd);
  CHECK(ordered.substr(0, 5) == "a\u0316\u0316");
  CHECK(ordered.size() == marks.size());
}

Words split(const char* json, const std::string& text) {
  PreTokenized words{text, {{0, text.size(), true, utf8_length(text[0])}}};
  parse_pre_tokenizer(Json::parse(json))->apply(words);
  Words out;
  for (const Piece& piece : words.pieces) out.emplace_back(words.view(piece));
  return out;
}

TEST_CASE("pre-tokenizers") {
  struct Row {
    const char* json;
    std::string text;
    Words expected;
  };
  const std::vector<Row> rows = {
      {R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})",
       "I'll go 12\u00e9  x",
       {"\u0120I", "'ll", "\u0120go", "\u012012", "\u00c3\u00a9", "\u0120", "\u0120x"}},
      {R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})",
       "a b",
       {"a\u0120"
        "b"}},
      {R"({"type":"BertPreTokenizer"})", "a,b  c!", {"a", ",", "b", "c", "!"}},
      {R"({"type":"Whitespace"})", "a_1$%b c", {"a_1", "$%", "b", "c"}},
      {R"({"type":"WhitespaceSplit"})",
       " a\u3000"
       "b",
       {"a", "b"}},
      {R"({"type":"Digits","individual_digits":true})", "a12\u0663", {"a", "1", "2", "\u0663"}},
      {R"({"type":"Digits","individual_digits":false})", "a12b", {"a", "12", "b"}},
      {R"({"type":"Punctuation","behavior":"Contiguous"})", "a,.b", {"a", ",.", "b"}},
      {R"({"type":"CharDelimiterSplit","delimiter":"-"})", "a--b", {"a", "b"}},
      {R"({"type":"UnicodeScripts"})",
       " ab\u3042\u4e9c\u30fc1x",
       {"ab", "\u3042\u4e9c\u30fc", "1", "x"}},
      {R"({"type":"FixedLength","length":2})",
       "ab\u00e9"
       "cd",
       {"ab",
        "\u00e9"
        "c",
        "d"}},
      {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always","split":true})",
       "a b",
       {"\u2581"
        "a",
        "\u2581"
        "b"}},
      {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"never","split":true})",
       "a b",
       {"a",
        "\u2581"
        "b"}},
      {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":false})",
       "a b",
       {"\u2581"
        "a\u2581"
        "b"}},
      {R"({"type":"Metaspace","replacement":"\u2581","add_prefix_space":true})",
       " a",
       {"\u2581"
        "a"}},
      {R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"_"}]})",
       "a b",
       {"_a", "_b"}}};
  for (const Row& row : rows) {
    INFO(row.json);
    CHECK(split(row.json, row.text) == row.expected);
  }
}

TEST_CASE("what becomes of delimiters") {
  struct Row {
    const char* behavior;
    const char* invert;
    Words expected;
  };
  const std::vector<Row> rows = {
      {"Removed", "false", {"the", "final", "countdown"}},
      {"Removed", "true", {"-", "-", "-"}},
      {"Isolated", "false", {"the", "-", "final", "-", "-", "countdown"}},
      {"MergedWithPrevious", "false", {"the-", "final-", "-", "countdown"}},
      {"MergedWithPrevious", "true", {"the", "-final", "-", "-countdown"}},
      {"MergedWithNext", "false", {"the", "-final", "-", "-countdown"}},
      {"MergedWithNext", "true", {"the-", "final-", "-", "countdown"}},
      {"Contiguous", "false", {"the", "-", "final", "--", "countdown"}}};
  for (const Row& row : rows) {
    INFO(row.behavior << ", invert " << row.invert);
    const std::string json =
        std::string(R"({"type":"Split","pattern":{"String":"-"},"behavior":")") + row.behavior +
        R"(","invert":)" + row.invert + "}";
    CHECK(split(json.c_str(), "the-final--countdown") == row.expected);
  }
}

std::string decoded(const char* json, const Words& tokens) {
  Decoder decoder;
  parse_decoder(Json::parse(json), decoder);
  DecodeStream stream(decoder);
  std::string out;
  for (const std::string& token : tokens) stream.push(token, out);
  stream.finish(out);
  return out;
}

TEST_CASE("decoders") {
  struct Row {
    const char* json;
    Words tokens;
    std::string expected;
  };
  const std::vector<Row> rows = {
      {R"({"type":"ByteLevel"})",
       {"\u0120"
        "a",
        "\u00c3", "\u00a9", "\u00e4\u00bd", "\u0142"},
       " a\u00e9\u4f60"},
      {R"({"type":"ByteLevel"})",
       {"\u00e4\u00bd", "a"},
       "\ufffd"
       "a"},
      {R"({"type":"ByteFallback"})",
       {"<0xE4>", "<0xBD>", "<0xA0>", "a", "<0xE4>", "<0x61>"},
       "\u4f60"
       "a\ufffd\ufffd"},
      {R"({"type":"Fuse"})", {"a", "b"}, "ab"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
       {" ", "  a"},
       "  a"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":"x","start":0,"stop":2}]})",
       {"xa", "x", "xx"},
       "xax"},
      {R"({"type":"Strip","content":"x","start":1,"stop":1})", {"xax", "xx", "a"}, "aa"},
      {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always"})",
       {"\u2581"
        "a\u2581",
        "\u2581"
        "b"},
       "a b"},
      {R"({"type":"WordPiece","prefix":"##","cleanup":true})",
       {"do", "##n", "'", "##t", "x", "."},
       "don 't x."},
      {R"({"type":"BPEDecoder","suffix":"</w>"})", {"a</w>", "b", "c</w>"}, "a bc"},
      {R"({"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true})",
       {"a", "a", "<pad>", "a", "|", "b"},
       "aa b"},
      {R"({"type":"Replace","pattern":{"String":"_"},"content":" "})", {"_a", "b_"}, " ab "},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"ab"},"content":"x"}]})",
       {"a", "b"},
       "x"}};
  for (const Row& row : rows) {
    INFO(row.json);
    CHECK(decoded(row.json, row.tokens) == row.expected);
  }
}

TEST_CASE("bytes of a token in running text") {
  const auto bytes = [](const char* json, const char* token) {
    Decoder decoder;
    parse_decoder(Json::parse(json), decoder);
    return decoder.token_bytes(token);
  };
  CHECK(bytes(R"({"type":"ByteLevel"})", "\u0120the") == " the");
  CHECK(bytes(R"({"type":"ByteLevel"})", "\u00e4") == "\xE4");
  CHECK(
      bytes(
          R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},
                 {"type":"ByteFallback"},{"type":"Fuse"}]})",
          "<0xE2>") == "\xE2");
  CHECK(bytes(R"({"type":"Metaspace","replacement":"\u2581"})", "\u2581the") == " the");
  CHECK(bytes(R"({"type":"WordPiece","prefix":"##","cleanup":true})", "##ing") == "ing");
}

}  // namespace
}  // namespace plimsoll::text
