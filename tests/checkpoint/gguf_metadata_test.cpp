// What a GGUF file's metadata say beside the model: versions, ends of answers, templates, lists.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/crafted.h"
#include "checkpoint/gguf/keys.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/tokenizer.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using Catch::Contains;
using checkpoint::gguf::Model;
using testing::gguf_bytes;
using testing::TempFolder;

namespace {

/// A file without tensors that has these pairs.
std::string file_with(const Json& more) {
  Json pairs = Json::array({{"general.architecture", "string", "llama"}});
  for (const Json& pair : more) pairs.push_back(pair);
  return gguf_bytes({{"seed", 1}, {"kv", pairs}, {"tensors", Json::array()}});
}

Model model_with(const TempFolder& folder, const Json& pairs) {
  return Model::open(folder.write("m.gguf", file_with(pairs)));
}

}  // namespace

TEST_CASE("versions 2 and 3 of GGUF are read alike, those around them are not") {
  const TempFolder folder;
  std::string bytes = file_with(Json::array({{"a.number", "u32", 7}}));
  for (const char version : {'\2', '\3'}) {
    bytes[4] = version;
    CHECK(Model::open(folder.write("m.gguf", bytes)).find("a.number")->integer() == 7);
  }
  for (const char version : {'\1', '\4'}) {
    bytes[4] = version;
    CHECK_THROWS_WITH(Model::open(folder.write("m.gguf", bytes)),
                      Contains("is not read (2 and 3 are)"));
  }
}

TEST_CASE("a tensor that two parts of a model have is refused by both names") {
  const TempFolder folder;
  const Json table =
      Json::array({{{"name", "a"}, {"ne", {4}}, {"type", "F32"}, {"values", {1, 2, 3, 4}}}});
  for (const int part : {0, 1}) {
    const Json pairs = Json::array({{"general.architecture", "string", "llama"},
                                    {"split.no", "u16", part},
                                    {"split.count", "u16", 2}});
    folder.write("m-0000" + std::to_string(part + 1) + "-of-00002.gguf",
                 gguf_bytes({{"seed", 1}, {"kv", pairs}, {"tensors", table}}));
  }
  CHECK_THROWS_WITH(
      Model::open(folder.path / "m-00001-of-00002.gguf"),
      Contains("m-00002-of-00002.gguf: tensor a is also in ") && Contains("m-00001-of-00002.gguf"));
}

TEST_CASE("answers end at the tokens of three keys, and at control tokens of known names") {
  constexpr int kNormal = 1, kControl = 3;
  const TempFolder folder;
  const std::vector<std::string> names = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|calls|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "<|end_of_text|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "<|eom_id|>",
                                          "<|end_of_role|>",
                                          "<|eot|>",
                                          "<\xef\xbd\x9c"
                                          "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};
  Json tokens = Json::array({"a", "b", "c", "d", "<|im_start|>"});
  Json kinds = Json::array({kNormal, kNormal, kNormal, kNormal, kControl});
  std::vector<int64_t> expected = {1, 2, 3};
  for (const std::string& name : names) {
    expected.push_back(static_cast<int64_t>(tokens.size()));
    tokens.push_back(name);
    kinds.push_back(kControl);
  }
  const Json lists = {{"tokenizer.ggml.tokens", "[string]", tokens},
                      {"tokenizer.ggml.token_type", "[i32]", kinds}};
  const std::vector<std::pair<const char*, int>> keys = {{"tokenizer.ggml.eos_token_id", 1},
                                                         {"tokenizer.ggml.eot_token_id", 2},
                                                         {"tokenizer.ggml.eom_token_id", 3}};
  Json all = lists;
  for (const auto& [key, id] : keys) {
    all.push_back({key, "u32", id});
    const Json one = Json::array({{key, "u32", id}});
    CHECK(end_tokens(model_with(folder, one)) == std::vector<int64_t>{id});
  }
  CHECK(end_tokens(model_with(folder, all)) == expected);
  CHECK(end_tokens(model_with(folder, lists)).empty());  // none of the keys: nothing is guessed
}

TEST_CASE("chat templates have their names, and special tokens their texts") {
  const TempFolder folder;
  const Json pairs = {{"tokenizer.chat_template", "string", "plain"},
                      {"tokenizer.chat_template.tool_use", "string", "tools"},
                      {"tokenizer.chat_templates", "[string]", {"tool_use"}},
                      {"tokenizer.chat_template.", "string", "nameless"},
                      {"tokenizer.ggml.tokens", "[string]", {"<s>", "</s>", "<unk>", "<pad>"}},
                      {"tokenizer.ggml.bos_token_id", "u32", 0},
                      {"tokenizer.ggml.eos_token_id", "u32", 1},
                      {"tokenizer.ggml.unknown_token_id", "u32", 2},
                      {"tokenizer.ggml.padding_token_id", "u32", 3}};
  const Model model = model_with(folder, pairs);
  using Texts = std::map<std::string, std::string>;
  CHECK(chat_templates(model) == Texts{{"default", "plain"}, {"tool_use", "tools"}});
  CHECK(special_tokens(model) == Texts{{"bos_token", "<s>"},
                                       {"eos_token", "</s>"},
                                       {"unk_token", "<unk>"},
                                       {"pad_token", "<pad>"}});
  const Json outside = {{"tokenizer.ggml.tokens", "[string]", {"<s>"}},
                        {"tokenizer.ggml.bos_token_id", "u32", 0},
                        {"tokenizer.ggml.eos_token_id", "u32", 1}};
  CHECK(special_tokens(model_with(folder, outside)) == Texts{{"bos_token", "<s>"}});
  CHECK(special_tokens(model_with(folder, Json::array())).empty());
}

TEST_CASE("a list of numbers by layer is as long as there are layers, or longer") {
  const TempFolder folder;
  const Model model = model_with(folder, {{"llama.heads", "[i32]", {4, 8, 2}},
                                          {"llama.names", "[string]", {"x"}},
                                          {"llama.one", "u32", 5},
                                          {"llama.none", "[i32]", Json::array()},
                                          {"llama.less", "i32", -1}});
  const checkpoint::gguf::Keys keys(model);
  using Numbers = std::vector<int64_t>;
  CHECK(keys.by_layer("heads", 3) == Numbers{4, 8, 2});
  CHECK(keys.by_layer("heads", 2) == Numbers{4, 8});
  CHECK_THROWS_WITH(keys.by_layer("heads", 4), Contains("llama.heads: 3 numbers for 4 layers"));
  CHECK_THROWS_WITH(keys.by_layer("names", 1), Contains("numbers are needed, array of string"));
  CHECK_FALSE(keys.by_layer("one", 1));
  CHECK_FALSE(keys.by_layer("missing", 1));
  CHECK(keys.integer("heads") == 8);  // the largest stands for all
  CHECK(keys.integer("none") == 0);
  CHECK(keys.count("one", 5) == 5);
  CHECK_THROWS_WITH(keys.count("one", 4), Contains("llama.one 5: a number from 1 to 4"));
  CHECK_THROWS_WITH(keys.count("none", 4), Contains("llama.none 0: a number from 1 to 4"));
  CHECK_THROWS_WITH(keys.count("missing", 4), Contains("llama.missing is missing"));
  CHECK_THROWS_WITH(keys.integer("less"), Contains("llama.less -1: a number from 0"));
}

TEST_CASE("of a folder's GGUF models twenty are listed, hidden files and projectors are none") {
  const TempFolder folder;
  for (const char* name : {"._a.gguf", ".b.gguf", "mmproj-f16.gguf", "c.ggu"})
    folder.write(name, "GGUF");
  CHECK(checkpoint::gguf::find_in_folder(folder.path) == std::nullopt);
  const auto listed = [&] {
    try {
      return checkpoint::gguf::find_in_folder(folder.path).value().string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  for (int i = 10; i < 30; ++i) folder.write("m" + std::to_string(i) + ".gguf", "GGUF");
  CHECK_THAT(listed(), Contains("holds 20 GGUF models") && Catch::EndsWith("m28.gguf, m29.gguf"));
  folder.write("m30.gguf", "GGUF");
  CHECK_THAT(listed(), Contains("holds 21 GGUF models") && Catch::EndsWith("m29.gguf, ..."));
}
