// Text piece by piece: never half a character, in sum the whole text, in the prompt's context.
#include <catch2/catch.hpp>

#include "tokenizer_fixture.h"

namespace plimsoll::text {
namespace {

Tokenizer byte_level() {
  return load_json(R"({"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","merges":[],
      "vocab":{"a":0,"\u0120b":1,"\u00f0":2,"\u0141":3,"\u013a":4,"\u0122":5,"\u00e4\u00bd":6}}})");
}

// Llama's way: spaces, bytes, one text, its first space dropped.
Tokenizer byte_fallback() {
  return load_json(R"({"decoder":{"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
      {"type":"Strip","content":" ","start":1,"stop":0}]},
      "added_tokens":[{"id":5,"content":"<s>","special":true}],
      "model":{"type":"BPE","merges":[],"vocab":{"\u2581Hi":0,"\u2581you":1,"<0xE4>":2,"<0xBD>":3,"<0xA0>":4,"<s>":5}}})");
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, const Ids& prompt, const Ids& ids,
                                Specials specials = Specials::keep) {
  Detokenizer detokenizer(tokenizer, prompt, specials);
  std::vector<std::string> out;
  for (const TokenId id : ids) out.push_back(detokenizer.push(id));
  out.push_back(detokenizer.finish());
  return out;
}

using Pieces = std::vector<std::string>;

TEST_CASE("a character of four tokens comes out whole") {
  CHECK(pieces(byte_level(), {}, {0, 2, 3, 4, 5, 1}) ==
        Pieces{"a", "", "", "", "\xF0\x9F\x98\x80", " b", ""});
}

TEST_CASE("a character that is never finished becomes U+FFFD at the end") {
  CHECK(pieces(byte_level(), {}, {0, 6}) == Pieces{"a", "", "\ufffd"});
  CHECK(pieces(byte_level(), {}, {6, 0}) == Pieces{"",
                                                   "\ufffd"
                                                   "a",
                                                   ""});
}

TEST_CASE("a run of byte tokens is certain when it ends") {
  CHECK(pieces(byte_fallback(), {}, {0, 2, 3, 4, 1}) == Pieces{"Hi", "", "", "", "\u4f60 you", ""});
  CHECK(pieces(byte_fallback(), {}, {2, 3, 4, 2}) ==
        Pieces{"", "", "", "", "\ufffd\ufffd\ufffd\ufffd"});
}

TEST_CASE("the prompt's context keeps the space before the first word") {
  CHECK(pieces(byte_fallback(), {}, {1}) == Pieces{"you", ""});
  CHECK(pieces(byte_fallback(), {0}, {1}) == Pieces{" you", ""});
  CHECK(pieces(byte_fallback(), {5}, {1}, Specials::skip) == Pieces{"you", ""});
}

TEST_CASE("what is pending leaves out what the prompt showed, and asking changes nothing") {
  const Tokenizer tokenizer = byte_fallback();
  Detokenizer detokenizer(tokenizer, Ids{0, 2, 3, 4}, Specials::keep);
  for (const TokenId id : {2, 3, 4}) CHECK(detokenizer.push(id).empty());
  CHECK(detokenizer.pending() == "\u4f60");
  CHECK(detokenizer.pending() == "\u4f60");
  CHECK(detokenizer.finish() == "\u4f60");
}

TEST_CASE("what the prompt showed is not shown again") {
  CHECK(pieces(byte_fallback(), {0, 2, 3, 4}, {1}) == Pieces{" you", ""});
  CHECK(pieces(byte_level(), {0, 2, 3}, {4, 5, 0}) == Pieces{"", "\xF0\x9F\x98\x80", "a", ""});
}

TEST_CASE("what the prompt ended with is taken off once: an answer may say it again") {
  CHECK(pieces(byte_fallback(), {0, 2, 3, 4}, {1, 2, 3, 4, 1}) ==
        Pieces{" you", "", "", "", "\u4f60 you", ""});
  CHECK(pieces(byte_fallback(), {0, 2, 3, 4}, {2, 3, 4, 1, 2, 3, 4}) ==
        Pieces{"", "", "", "\u4f60 you", "", "", "", "\u4f60"});
  // Half of it was the prompt's.
  CHECK(pieces(byte_fallback(), {0, 2, 3}, {4, 1, 2, 3, 4, 1}) ==
        Pieces{"", "\u4f60 you", "", "", "", "\u4f60 you", ""});
  const Tokenizer tokenizer = byte_fallback();
  Detokenizer detokenizer(tokenizer, Ids{0, 2, 3, 4}, Specials::keep);
  CHECK(detokenizer.push(1) == " you");
  for (const TokenId id : {2, 3, 4}) CHECK(detokenizer.push(id).empty());
  CHECK(detokenizer.pending() == "\u4f60");
}

TEST_CASE("special tokens are left out or kept") {
  CHECK(pieces(byte_fallback(), {}, {0, 5, 1}, Specials::skip) == Pieces{"Hi", "", " you", ""});
  CHECK(pieces(byte_fallback(), {}, {0, 5, 1}, Specials::keep) == Pieces{"Hi", "<s>", " you", ""});
}

}  // namespace
}  // namespace plimsoll::text
