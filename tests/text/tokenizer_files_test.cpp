// Tokenizers from folders: what stands beside tokenizer.json, and folders without one.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "tokenizer_fixture.h"

namespace plimsoll::text {
namespace {

constexpr const char* kVocabulary =
    R"({"a":0,"b":1,"ab":2,"\u0120":3,"\u0120a":4,"<|endoftext|>":5,"A":6})";
constexpr const char* kMerges = "#version: 0.2\na b\n\u0120 a\n";

TEST_CASE("vocab.json and merges.txt without a config are GPT-2's") {
  const ScratchFolder folder;
  folder.write("vocab.json", kVocabulary);
  folder.write("merges.txt", kMerges);
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  CHECK(plain(tokenizer, "ab a") == Ids{2, 4});
  CHECK(tokenizer.decode(Ids{2, 4}, Specials::keep) == "ab a");
}

TEST_CASE("the class in the config decides the pipeline") {
  const ScratchFolder folder;
  folder.write("vocab.json", kVocabulary);
  folder.write("merges.txt", kMerges);
  folder.write(
      "tokenizer_config.json",
      R"({"tokenizer_class":"Qwen2TokenizerFast","eos_token":"<|endoftext|>","added_tokens_decoder":{
                   "5":{"content":"<|endoftext|>","special":true,"normalized":false},
                   "9":{"content":"<|im_start|>","special":true,"normalized":false}}})");
  const Tokenizer qwen = Tokenizer::load(folder.path());
  CHECK(plain(qwen, "<|im_start|>ab<|endoftext|>") == Ids{9, 2, 5});
  CHECK(qwen.is_special(5));
  CHECK(qwen.vocab_size() == 10);

  folder.write("tokenizer_config.json",
               R"({"tokenizer_class":"GPT2Tokenizer","add_bos_token":true,"add_prefix_space":true,
                                            "bos_token":"<|endoftext|>"})");
  CHECK(Tokenizer::load(folder.path()).encode("a", AddSpecials::yes) == Ids{5, 4});

  folder.write("tokenizer_config.json", R"({"tokenizer_class":"MagicTokenizer"})");
  CHECK_THROWS_WITH(Tokenizer::load(folder.path()), Catch::Contains("MagicTokenizer"));
}

TEST_CASE("tokens of the config are added behind tokenizer.json's") {
  const ScratchFolder folder;
  folder.write("tokenizer.json", R"({"added_tokens":[{"id":2,"content":"<s>","special":true}],
      "model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  folder.write("tokenizer_config.json",
               R"({"add_bos_token":true,"bos_token":"<s>","added_tokens_decoder":{
      "2":{"content":"<s>","special":true},"3":{"content":"<new>","special":false}},
      "additional_special_tokens":["<extra>"]})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  CHECK(plain(tokenizer, "a<new><extra>") == Ids{0, 3, 4});
  CHECK_FALSE(tokenizer.is_special(3));
  CHECK(tokenizer.is_special(4));
  // The post-processor of tokenizer.json stays.
  CHECK(tokenizer.encode("a", AddSpecials::yes) == Ids{0});
}

TEST_CASE("the older files beside a vocabulary") {
  const ScratchFolder folder;
  folder.write("vocab.json", kVocabulary);
  folder.write("merges.txt", kMerges);
  folder.write("added_tokens.json", R"({"<x>":7,"<y>":8})");
  folder.write("special_tokens_map.json",
               R"({"eos_token":{"content":"<x>","lstrip":false,"rstrip":true}})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  CHECK(plain(tokenizer, "a<x><y>") == Ids{0, 7, 8});
  CHECK(tokenizer.is_special(7));
  CHECK_FALSE(tokenizer.is_special(8));
}

TEST_CASE("Llama 3's ranked byte strings") {
  const ScratchFolder folder;
  // "a", "b", "c", "bc", "abc": the pair of lowest rank first.
  folder.write("tokenizer.model", "YQ== 0\nYg== 1\nYw== 2\nYmM= 3\nYWJj 4\n");
  const Tokenizer tokenizer = Tokenizer::load(folder.path() / "tokenizer.model");
  CHECK(plain(tokenizer, "abcbca") == Ids{4, 3, 0});
  folder.write("tokenizer.model", "YQ== 0\n?? 1\n");
  CHECK_THROWS_WITH(Tokenizer::load(folder.path() / "tokenizer.model"),
                    Catch::Contains("tokenizer.model"));
}

TEST_CASE("what cannot be read is named") {
  const ScratchFolder folder;
  CHECK_THROWS_WITH(Tokenizer::load(folder.path()), Catch::Contains("no tokenizer.json"));
  folder.write("qwen.tiktoken", "IQ== 0\n");
  CHECK_THROWS_WITH(Tokenizer::load(folder.path()), Catch::Contains("qwen.tiktoken"));
  folder.write("tokenizer.model", "this is no model");
  CHECK_THROWS_WITH(Tokenizer::load(folder.path()), Catch::Contains("sentencepiece"));
  folder.write("tokenizer.json",
               "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  CHECK_THROWS_WITH(Tokenizer::load(folder.path()), Catch::Contains("Git LFS"));
  CHECK_THROWS_AS(Tokenizer::load(folder.path() / "absent.json"), Error);
}

TEST_CASE("special tokens as chat templates see them") {
  const ScratchFolder folder;
  CHECK(special_token_texts(folder.path()).empty());
  folder.write("special_tokens_map.json",
               R"({"eos_token":"</s>","pad_token":{"content":"<pad>"}})");
  folder.write("tokenizer_config.json",
               R"({"bos_token":{"content":"<s>"},"eos_token":"<e>","unk_token":null,
      "add_bos_token":true,"image_token":"<image>"})");
  const std::map<std::string, std::string> expected = {{"bos_token", "<s>"},
                                                       {"eos_token", "</s>"},
                                                       {"image_token", "<image>"},
                                                       {"pad_token", "<pad>"}};
  CHECK(special_token_texts(folder.path()) == expected);
  folder.write("tokenizer_config.json",
               R"({"bos_token":"<s>","eos_token":"<e>","added_tokens_decoder":{}})");
  CHECK(special_token_texts(folder.path()).at("eos_token") == "<e>");
}

}  // namespace
}  // namespace plimsoll::text
