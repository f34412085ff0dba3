// Whole tokenizers: models, added tokens, post-processors, look-ups.
#include <catch2/catch.hpp>
#include <thread>

#include "base/error.h"
#include "tokenizer_fixture.h"

namespace plimsoll::text {
namespace {

// Merges a+b, then ab+c; "<unk>" is 0.
std::string bpe(const std::string& options, const std::string& rest = "") {
  return R"({"version":"1.0","model":{"type":"BPE",)" + options +
         R"("vocab":{"<unk>":0,"a":1,"b":2,"c":3,"ab":4,"abc":5,"<0xC3>":6,"<0xA9>":7,"d</w>":8,"bc":9},
            "merges":[["a","b"],"ab c",["b","c"]]})" +
         rest + "}";
}

TEST_CASE("BPE merges by rank, the leftmost first") {
  const Tokenizer tokenizer = load_json(bpe(""));
  CHECK(plain(tokenizer, "abc") == Ids{5});
  CHECK(plain(tokenizer, "bcabab") == Ids{9, 4, 4});
  CHECK(plain(tokenizer, "axb") == Ids{4});  // no unknown token: the character is dropped
  CHECK(plain(tokenizer, "") == Ids{});
}

TEST_CASE("BPE options") {
  CHECK(plain(load_json(bpe(R"("unk_token":"<unk>",)")), "axyb") == Ids{1, 0, 0, 2});
  CHECK(plain(load_json(bpe(R"("unk_token":"<unk>","fuse_unk":true,)")), "axyb") == Ids{1, 0, 2});
  CHECK(plain(load_json(bpe(R"("unk_token":"<unk>","byte_fallback":true,)")), "a\u00e9x") ==
        Ids{1, 6, 7, 0});
  CHECK(plain(load_json(bpe(R"("end_of_word_suffix":"</w>",)")), "ad") == Ids{1, 8});
  CHECK(plain(load_json(bpe(R"("ignore_merges":true,)")), "bc") == Ids{9});
}

TEST_CASE("a long word of BPE takes the heap's way to the same ids") {
  const Tokenizer tokenizer = load_json(bpe(""));
  std::string text;
  Ids expected;
  for (int i = 0; i < 100; ++i) {
    text += "abcbc";
    expected.insert(expected.end(), {5, 9});
  }
  CHECK(plain(tokenizer, text) == expected);
}

TEST_CASE("a merge behind a mark keeps texts whole that others are cut at") {
  const auto json = [](const char* merges) {
    return std::string(
               R"({"model":{"type":"BPE","vocab":{"a":0,"\u2581":1,"a\u2581":2,"\u2581a":3},"merges":)") +
           merges + "}}";
  };
  std::string text;
  for (int i = 0; i < 20; ++i) text += "a\u2581";
  CHECK(plain(load_json(json(R"([["a","\u2581"]])")), text) == Ids(20, 2));
  Ids expected(21, 3);
  expected.front() = 0;
  expected.back() = 1;
  CHECK(plain(load_json(json(R"([["\u2581","a"]])")), text) == expected);
}

TEST_CASE("WordPiece, WordLevel and Unigram") {
  const Tokenizer word_piece = load_json(
      R"({"pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
          "max_input_chars_per_word":5,"vocab":{"[UNK]":0,"un":1,"##want":2,"##ed":3,"u":4,"##n":5}}})");
  CHECK(plain(word_piece, "uned un x unwanted") == Ids{1, 3, 1, 0, 0});
  const Tokenizer word_level = load_json(
      R"({"pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"a":1}}})");
  CHECK(plain(word_level, "a b") == Ids{1, 0});
  const Tokenizer unigram = load_json(
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",0],["b",0],["c",0],["d",0],["cd",1],["ab",2],
          ["abc",5],["abcd",10]]}})");
  CHECK(plain(unigram, "abcdacdxx") == Ids{8, 1, 5, 0});
}

TEST_CASE("added tokens") {
  const auto json = [](const char* flags) {
    return bpe(R"("unk_token":"<unk>",)",
               std::string(R"(,"added_tokens":[{"id":10,"content":"<x>",)") + flags + "}]");
  };
  CHECK(plain(load_json(json(R"("special":true)")), "a <x> b") == Ids{1, 0, 10, 0, 2});
  CHECK(plain(load_json(json(R"("lstrip":true)")), "a  <x> b") == Ids{1, 10, 0, 2});
  CHECK(plain(load_json(json(R"("rstrip":true)")), "a <x>  b") == Ids{1, 0, 10, 2});
  CHECK(plain(load_json(json(R"("single_word":true)")), "a<x>b <x>") == Ids{1, 0, 0, 0, 2, 0, 10});

  const Tokenizer special = load_json(json(R"("special":true)"));
  CHECK(special.encode("a<x>", AddSpecials::no, {&kAllPlain, 1}) == Ids{1, 0, 0, 0});
  CHECK(special.is_special(10));
  CHECK_FALSE(special.is_special(1));
  CHECK(special.decode(Ids{1, 10, 2}, Specials::skip) == "a b");  // no decoder: joined by spaces
  CHECK(special.decode(Ids{1, 10, 99, -1}, Specials::keep) == "a <x>");
  CHECK(special.vocab_size() == 11);
  CHECK(special.token(10) == "<x>");
  CHECK(special.token(99).empty());
  CHECK(special.token_id("ab") == 4);
  CHECK(special.token_id("<x>") == 10);
  CHECK_FALSE(special.token_id("zz"));
}

TEST_CASE("the longest added token wins, and normalised ones match normalised text") {
  const Tokenizer tokenizer = load_json(
      bpe(R"("unk_token":"<unk>",)", R"(,"normalizer":{"type":"Lowercase"},"added_tokens":[
      {"id":10,"content":"<x>","normalized":false},{"id":11,"content":"<x><x>","normalized":false},
      {"id":12,"content":"Dog","normalized":true},{"id":13,"content":"CAT","normalized":false}])"));
  CHECK(plain(tokenizer, "<x><x><x>") == Ids{11, 10});
  CHECK(plain(tokenizer, "dOGCATcat") == Ids{12, 13, 3, 1, 0});
}

TEST_CASE("ids that the file gives to added tokens give way to the reference's numbering") {
  const Tokenizer tokenizer =
      load_json(bpe("", R"(,"added_tokens":[{"id":500,"content":"<x>"},{"id":1,"content":"ab"},
                                                  {"id":7,"content":""}])"));
  CHECK(tokenizer.token_id("<x>") == 10);
  CHECK(tokenizer.token_id("ab") == 4);
}

TEST_CASE("post-processors") {
  const auto ids = [](const char* json) {
    return load_json(bpe("", std::string(R"(,"post_processor":)") + json))
        .encode("ab", AddSpecials::yes);
  };
  CHECK(ids(R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[7,8],"tokens":["x","y"]}}})") ==
        Ids{7, 8, 4});
  CHECK(ids(R"({"type":"BertProcessing","sep":["s",2],"cls":["c",1]})") == Ids{1, 4, 2});
  CHECK(
      ids(R"({"type":"RobertaProcessing","sep":["s",2],"cls":["c",1],"trim_offsets":true,"add_prefix_space":false})") ==
      Ids{1, 4, 2});
  CHECK(ids(R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false})") == Ids{4});
  CHECK(
      ids(R"({"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"BertProcessing","sep":["s",2],"cls":["c",1]}]})") ==
      Ids{1, 4, 2});
}

TEST_CASE("one tokenizer serves several threads") {
  const Tokenizer tokenizer =
      load_json(bpe("", R"(,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"c+"},
      "behavior":"Isolated","invert":false})"));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) wrong[t] += plain(tokenizer, "abcab") != Ids{4, 3, 4};
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

}  // namespace
}  // namespace plimsoll::text
