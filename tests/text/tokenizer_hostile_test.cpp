// tokenizer.json as an attacker writes it: refused with its place, or worked with; never a crash,
// never a hang.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "processor_time.h"
#include "text/text_error.h"
#include "tokenizer_fixture.h"

namespace plimsoll::text {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string model(const std::string& inside) {
  return R"({"model":{"type":"BPE",)" + inside + "}}";
}

TEST_CASE("broken tokenizer.json is refused, with the place") {
  struct Row {
    const char* what;
    std::string json;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"empty", "", "line 1"},
      {"cut off", R"({"model":{"vocab":{"a":0)", "line 1, column"},
      {"second line", "{\n\"model\" 1}", "line 2"},
      {"depth", repeated("[", 100'000), "nested deeper"},
      {"no model", "{}", "model"},
      {"not an object", "[]", "not a JSON object"},
      {"unknown token in a merge", model(R"("vocab":{"a":0},"merges":[["a","b"]])"),
       "merges[0]: token 'b'"},
      {"unknown result of a merge", model(R"("vocab":{"a":0,"b":1},"merges":[["a","b"]])"),
       "merges[0]: token 'ab'"},
      {"merge of one", model(R"("vocab":{"a":0},"merges":[["a"]])"), "merges[0]"},
      {"merge of three", model(R"("vocab":{"a":0},"merges":[["a","a","a"]])"), "merges[0]"},
      {"merge without a space", model(R"("vocab":{"a":0},"merges":["aa"])"), "merges[0]"},
      {"merge of numbers", model(R"("vocab":{"a":0},"merges":[1])"), "merges[0]"},
      {"merges are no list", model(R"("vocab":{"a":0},"merges":{})"), "merges"},
      {"negative id", model(R"("vocab":{"a":-1},"merges":[])"), "-1"},
      {"huge id", model(R"("vocab":{"a":1000000000000000000},"merges":[])"), "1000000000000000000"},
      {"broken id", model(R"("vocab":{"a":1.5},"merges":[])"), "1.5"},
      {"duplicate key of an added token",
       R"({"added_tokens":[{"id":0,"id":1,"content":"a"}],"model":{"type":"BPE","vocab":{},"merges":[]}})",
       "added_tokens: duplicate key \"id\""},
      {"duplicate key of a post-processor",
       R"({"post_processor":{"type":"ByteLevel","type":"ByteLevel"},
           "model":{"type":"BPE","vocab":{},"merges":[]}})",
       "post_processor: duplicate key \"type\""},
      {"text behind a NUL", model(R"("vocab":{},"merges":[])") + std::string("\0{}", 3), "a NUL"},
      {"vocabulary of objects", model(R"("vocab":{"a":{}},"merges":[])"), "vocab[0]"},
      {"unknown model", R"({"model":{"type":"Magic","vocab":{}}})", "Magic"},
      {"unknown normalizer",
       R"({"normalizer":{"type":"Magic"},"model":{"type":"BPE","vocab":{},"merges":[]}})", "Magic"},
      {"bad regex",
       R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"},
           "model":{"type":"BPE","vocab":{},"merges":[]}})",
       "pre_tokenizer"},
      {"bad charsmap",
       R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"////////AAAA"},
           "model":{"type":"BPE","vocab":{},"merges":[]}})",
       "precompiled_charsmap"},
      {"unk_id", R"({"model":{"type":"Unigram","unk_id":5,"vocab":[["a",-1]]}})", "unk_id 5"},
      {"long piece",
       R"({"model":{"type":"Unigram","unk_id":0,"vocab":[[")" + repeated("a", 300) + R"(",-1]]}})",
       "vocab[0]"},
      {"template token",
       R"({"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],
           "pair":[],"special_tokens":{}},"model":{"type":"BPE","vocab":{},"merges":[]}})",
       "single[0]"},
      {"many components",
       R"({"normalizer":{"type":"Sequence","normalizers":[)" + repeated(R"({"type":"NFC"},)", 70) +
           R"({"type":"NFC"}]},"model":{"type":"BPE","vocab":{},"merges":[]}})",
       "more than 64"},
      {"added token's id", R"({"added_tokens":[{"id":1000000000000000000,"content":"x"}],
           "model":{"type":"BPE","vocab":{},"merges":[]}})",
       "added_tokens[0]"}};
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK_THROWS_WITH(load_json(row.json),
                      Catch::Contains("tokenizer.json") && Catch::Contains(row.message));
  }
}

TEST_CASE("odd but usable vocabularies are used") {
  const Tokenizer gaps = load_json(model(R"("vocab":{"a":0,"b":1000},"merges":[])"));
  CHECK(plain(gaps, "ab") == Ids{0, 1000});
  CHECK(gaps.vocab_size() == 1001);
  CHECK(gaps.token(500).empty());
  CHECK(gaps.decode(Ids{0, 500, 1000}, Specials::keep) == "a b");
  const Tokenizer same = load_json(model(R"("vocab":{"a":0,"b":0},"merges":[])"));
  CHECK(plain(same, "ab") == Ids{0, 0});
  const Tokenizer cyclic = load_json(model(
      R"("vocab":{"a":0,"b":1,"ab":2,"ba":3,"aba":4},"merges":[["a","b"],["b","a"],["ab","a"],["a","ba"]])"));
  CHECK(plain(cyclic, "ababa") == Ids{2, 4});
  const Tokenizer empty = load_json(model(R"("vocab":{"a":0,"":1},"merges":[["a",""],["","a"]])"));
  CHECK(plain(empty, "aa") == Ids{0, 0});
}

TEST_CASE("of what a file says twice the last counts, as in the reference") {
  const Tokenizer twice = load_json(model(R"("vocab":{"a":0,"b":1,"a":2},"merges":[])"));
  CHECK(plain(twice, "ab") == Ids{2, 1});
  CHECK(twice.token(0).empty());
  CHECK(twice.token(2) == "a");
  CHECK(twice.decode(Ids{0, 2}, Specials::keep) == "a");
  const Tokenizer pieces = load_json(R"({"added_tokens":[{"id":3,"content":"z"}],
          "model":{"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-9],["a",-1]]}})");
  CHECK(plain(pieces, "a") == Ids{2});
  CHECK(pieces.token(1) == "a");
  CHECK(pieces.token_id("z") == 3);
  const Tokenizer tables = load_json(
      model(R"("vocab":{"a":0,"x":5},"merges":[["a","b"]],"merges":[],"vocab":{"a":7,"b":8})"));
  CHECK(plain(tables, "abx") == Ids{7, 8});
  const Tokenizer models = load_json(
      R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"normalizer":{"type":"NFC"},
          "normalizer":{"type":"Lowercase","type":"Lowercase"},
          "model":{"type":"WordLevel","unk_token":"?","vocab":{"?":3,"a":4}}})");
  CHECK(plain(models, "A") == Ids{4});
  CHECK_THROWS_WITH(
      load_json(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"model":{"type":"BPE"}})"),
      Catch::Contains("\"vocab\" is missing"));
}

TEST_CASE("added tokens that come twice or share an id read as in the reference") {
  const auto decoded = [](const std::string& tokens, TokenId id) {
    return load_json(R"({"normalizer":{"type":"Lowercase"},"added_tokens":[)" + tokens +
                     R"(],"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"b":2}}})")
        .decode(Ids{id}, Specials::keep);
  };
  const std::string upper = R"({"id":1,"content":"X","normalized":true})";
  CHECK(decoded(upper, 2) == "x");
  CHECK(decoded(upper + R"(,{"id":1,"content":"X","normalized":false})", 2) == "x");
  // The first gets the id behind two tokens, which is b's.
  CHECK(decoded(R"({"id":1,"content":"c"},{"id":2,"content":"b"})", 2) == "b");
}

TEST_CASE("components without a type are known by their fields, as in the reference") {
  const std::string words = R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2},"merges":[]}})";
  const auto with = [&](const std::string& part) { return load_json("{" + part + "," + words); };
  CHECK(plain(with(R"("normalizer":{"prepend":"b"})"), "a") == Ids{1, 0});
  CHECK(plain(with(R"("normalizer":{"type":"old","pattern":{"String":"a"},"content":"c"})"), "a") ==
        Ids{2});
  CHECK(plain(with(R"("normalizer":{"normalizers":[{"prepend":"c"}]})"), "a") == Ids{2, 0});
  CHECK(with(R"("decoder":{"suffix":"a"})").decode(Ids{1, 0, 2}, Specials::keep) == "b c");
  const Tokenizer bert = with(R"("post_processor":{"type":"?","sep":["b",1],"cls":["c",2]})");
  CHECK(bert.encode("a", AddSpecials::yes) == Ids{2, 0, 1});
  CHECK(with(R"("post_processor":{"single":[{"Sequence":{"id":"A","type_id":0}},
                {"SpecialToken":{"id":"s","type_id":0}}],"pair":[],
                "special_tokens":{"s":{"id":"s","ids":[2],"tokens":["c"]}}})")
            .encode("a", AddSpecials::yes) == Ids{0, 2});
  // Pre-tokenizers had types from the start.
  CHECK_THROWS_WITH(with(R"("pre_tokenizer":{"delimiter":" "})"), Catch::Contains("unknown type"));
  CHECK_THROWS_WITH(with(R"("pre_tokenizer":{"type":"Delimiter","delimiter":" "})"),
                    Catch::Contains("unknown type 'Delimiter'"));
}

TEST_CASE("an unknown token is asked for only where the best way to spell needs it") {
  const Tokenizer tokenizer = load_json(
      R"({"model":{"type":"Unigram","unk_id":null,"vocab":[["a",-1],["ab",-2],["c",-1]]}})");
  CHECK(plain(tokenizer, "abc") == Ids{1, 2});
  CHECK_THROWS_AS(plain(tokenizer, "acb"), TextError);
}

TEST_CASE("a file cannot blow a text up") {
  const std::string parts =
      repeated(R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaa"},)", 20);
  const Tokenizer tokenizer =
      load_json(R"({"normalizer":{"type":"Sequence","normalizers":[)" + parts +
                R"({"type":"NFC"}]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  CHECK_THROWS_AS(plain(tokenizer, "a"), TextError);
}

TEST_CASE("a word of a megabyte is no harder than a megabyte of words") {
  const Tokenizer tokenizer = load_json(
      model(R"("vocab":{"a":0,"aa":1,"aaaa":2,"b":3," ":4},"merges":[["a","a"],["aa","aa"]])"));
  const testing::ProcessorTime time;
  for (const std::string& text :
       {repeated("a", 1'000'000), repeated("ab", 500'000), repeated(" ", 1'000'000)}) {
    CHECK_FALSE(plain(tokenizer, text).empty());
  }
  CHECK(time.seconds() < 60);  // under 5
}

TEST_CASE("white space around tokens that strip it is looked at once") {
  const Tokenizer tokenizer =
      load_json(R"({"added_tokens":[{"id":9,"content":" ","lstrip":true,"rstrip":true}],
      "model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  CHECK(plain(tokenizer, "a" + repeated(" ", 300'000) + "a") == Ids{0, 1, 0});
}

}  // namespace
}  // namespace plimsoll::text
