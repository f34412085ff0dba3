// Headers of GGUF files: broken ones are refused with the file's name and the reason, and none is
// read beyond the map.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/crafted.h"
#include "checkpoint/gguf/model.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using checkpoint::gguf::Model;
using plimsoll::testing::gguf_bytes;
using plimsoll::testing::TempFolder;
namespace fs = std::filesystem;

namespace {

const char* const kHostile = PLIMSOLL_SOURCE_DIR "/tests/data/golden/gguf/hostile.jsonl";

std::string outcome_of(const fs::path& file) {
  try {
    (void)Model::open(file);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    return error.what();
  }
  return "accepted";
}

Json pairs_of_part(int64_t number, int64_t count, int64_t tensors) {
  return Json::array({{"split.no", "u16", number},
                      {"split.count", "u16", count},
                      {"split.tensors.count", "i32", tensors}});
}

Json tensor_table(const std::string& name) {
  return Json::array({{{"name", name}, {"ne", {4}}, {"type", "F32"}, {"values", {1, 2, 3, 4}}}});
}

/// Writes two parts of a split model, of a tensor each.
void write_parts(const TempFolder& folder, const Json& first, const Json& second) {
  Json pairs = Json::array({{"general.architecture", "string", "llama"}});
  for (const Json& pair : first) pairs.push_back(pair);
  folder.write("m-00001-of-00002.gguf",
               gguf_bytes({{"seed", 1}, {"kv", pairs}, {"tensors", tensor_table("a")}}));
  folder.write("m-00002-of-00002.gguf",
               gguf_bytes({{"seed", 1}, {"kv", second}, {"tensors", tensor_table("b")}}));
}

}  // namespace

TEST_CASE("broken GGUF headers are refused by file, key and tensor") {
  // What a message says of each; the rows that are missing are broken in what a family checks.
  const std::map<std::string, std::string> says = {
      {"valid", "accepted"},
      {"empty", "the file is empty"},
      {"magic", "not a GGUF file (magic \"GGML\")"},
      {"version_1", "GGUF version 1 is not read (2 and 3 are)"},
      {"big_endian", "big-endian"},
      {"header_cut", "ends inside the header (byte 20)"},
      {"pairs_cut", "ends inside the metadata"},
      {"tensors_cut", "ends inside the tensor table (byte 560)"},
      {"data_cut", "tensor output.weight: ends at byte 46528, the file at 46464"},
      {"count_of_tensors", "1152921504606846976 tensors, more than the file's"},
      {"count_of_pairs", "1152921504606846976 metadata pairs, more than the file's"},
      {"string_2_60", "general.name has a string of 1152921504606846976 bytes"},
      {"array_2_60", "tokenizer.ggml.scores: an array of 1152921504606846976 items"},
      {"array_of_arrays", "x.y: an array of arrays"},
      {"value_type_99", "x.y: value type 99"},
      {"key_twice", "llama.block_count stands twice"},
      {"no_architecture", "general.architecture is missing"},
      {"architecture_number", "general.architecture: a string is needed, u32 found"},
      {"alignment_0", "general.alignment 0 is no power of two"},
      {"alignment_24", "general.alignment 24 is no power of two"},
      {"tensor_twice", "tensor token_embd.weight stands twice"},
      {"type_77", "tensor blk.0.attn_q.weight: type 77"},
      {"type_q4_2", "tensor blk.0.attn_q.weight: type 4 (Q4_2, removed)"},
      {"type_iq2_xxs", "tensor blk.0.attn_q.weight: rows of 32 values, IQ2_XXS has blocks of 256"},
      {"row_no_multiple", "tensor blk.0.attn_q.weight: rows of 48 values, Q4_0 has blocks of 32"},
      {"dims_0", "tensor blk.0.attn_q.weight: a dimension of 0"},
      {"dims_5", "tensor blk.0.attn_q.weight: 5 dimensions"},
      {"dims_overflow",
       "tensor blk.0.ffn_down.weight: 1099511627776 x 1099511627776 values overflow"},
      {"offset_unaligned", "tensor blk.0.attn_q.weight: offset 2177 is no multiple of 32"},
      {"offsets_overlap", "tensor blk.0.attn_q.weight overlaps token_embd.weight"},
      {"offset_beyond", "tensor blk.0.attn_q.weight lies beyond the end of the file"},
      {"offset_wraps", "tensor blk.0.attn_q.weight: offset 18446744073709551584 overflows"},
      {"key_empty", "has an empty key"},
      {"name_65", "of 65 bytes (at most 63 are allowed)"},
  };
  const TempFolder folder;
  size_t checked = 0;
  for (const auto& [name, bytes] : plimsoll::testing::hostile_gguf_files(kHostile)) {
    INFO(name);
    const fs::path file = folder.write(name + ".gguf", bytes);
    const std::string found = outcome_of(file);
    CHECK(std::ranges::none_of(
        found, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; }));
    if (!says.contains(name)) continue;
    ++checked;
    CHECK_THAT(found, Catch::Contains(says.at(name)));
    if (found != "accepted") CHECK_THAT(found, Catch::Contains(file.string()));
  }
  CHECK(checked == says.size());
}

TEST_CASE("a GGUF header cut or changed at any byte is refused or read, never more") {
  const TempFolder folder;
  const std::string valid = plimsoll::testing::hostile_gguf_files(kHostile).front().second;
  constexpr size_t kHeader = 1088;
  for (size_t cut = 1; cut < kHeader; cut += 7)
    CHECK(outcome_of(folder.write("cut.gguf", valid.substr(0, cut))) != "accepted");
  for (size_t at = 0; at < kHeader; at += 3) {
    std::string changed = valid;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    (void)outcome_of(folder.write("changed.gguf", changed));
  }
}

TEST_CASE("metadata of a GGUF file is read by type") {
  const TempFolder folder;
  const Json pairs = Json::array({{"general.architecture", "string", "llama"},
                                  {"a.number", "i16", -3},
                                  {"a.large", "u64", uint64_t{1} << 63},
                                  {"a.float", "f32", 0.5},
                                  {"a.flag", "bool", true},
                                  {"a.list", "[i32]", {3, -4}},
                                  {"a.texts", "[string]", {"x", "", "yz"}}});
  const fs::path file = folder.write(
      "m.gguf", gguf_bytes({{"seed", 1}, {"kv", pairs}, {"tensors", tensor_table("a")}}));
  const Model model = Model::open(file);
  CHECK(model.architecture() == "llama");
  CHECK(model.find("a.number")->integer() == -3);
  CHECK(model.find("a.number")->number() == -3.0);
  CHECK(model.find("a.large")->integer() == std::nullopt);
  CHECK(model.find("a.float")->number() == 0.5);
  CHECK(model.find("a.float")->integer() == std::nullopt);
  CHECK(model.find("a.flag")->integer() == 1);
  CHECK(model.find("a.list")->integers() == std::vector<int64_t>{3, -4});
  CHECK(model.find("a.list")->integer() == std::nullopt);
  CHECK(model.find("a.texts")->texts() == std::vector<std::string>{"x", "", "yz"});
  CHECK(model.find("a.texts")->type_text() == "array of string");
  CHECK(model.find("a.list")->texts() == std::nullopt);
  CHECK(model.find("none") == nullptr);
  REQUIRE(model.tensors().size() == 1);
  CHECK(model.tensors().front().ne == std::vector<int64_t>{4});
  CHECK(model.tensors().front().bytes == 16);
}

TEST_CASE("parts of a split GGUF model are found from any of them") {
  const TempFolder folder;
  write_parts(folder, pairs_of_part(0, 2, 2), pairs_of_part(1, 2, 2));
  for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    const Model model = Model::open(folder.path / name);
    CHECK(model.tensors().size() == 2);
    CHECK(model.architecture() == "llama");
  }
  CHECK(checkpoint::gguf::find_in_folder(folder.path) == folder.path / "m-00001-of-00002.gguf");
  fs::remove(folder.path / "m-00001-of-00002.gguf");
  CHECK_THAT(outcome_of(folder.path / "m-00002-of-00002.gguf"),
             Catch::Contains("m-00001-of-00002.gguf, is missing"));
}

TEST_CASE("parts of a split GGUF model that do not fit together are refused") {
  const TempFolder folder;
  const auto outcome = [&] { return outcome_of(folder.path / "m-00001-of-00002.gguf"); };
  write_parts(folder, pairs_of_part(0, 3, 2), pairs_of_part(1, 3, 2));
  CHECK_THAT(outcome(), Catch::Contains("split.count 3, the name says 2"));
  write_parts(folder, pairs_of_part(0, 2, 3), pairs_of_part(1, 2, 3));
  CHECK_THAT(outcome(), Catch::Contains("3 tensors announced, 2 found"));
  write_parts(folder, pairs_of_part(0, 2, 2), pairs_of_part(0, 2, 2));
  CHECK_THAT(outcome(), Catch::Contains("part 2 says it is part 1"));
  write_parts(folder, pairs_of_part(0, 2, 2), pairs_of_part(1, 2, 2));
  fs::copy_file(folder.path / "m-00001-of-00002.gguf", folder.path / "renamed.gguf");
  CHECK_THAT(outcome_of(folder.path / "renamed.gguf"),
             Catch::Contains("a part of a model split into 2 files"));
}

TEST_CASE("a folder of several GGUF models lists them") {
  const TempFolder folder;
  CHECK(checkpoint::gguf::find_in_folder(folder.path) == std::nullopt);
  folder.write("one.gguf", "GGUF");
  folder.write("mmproj-one.gguf", "GGUF");
  CHECK(checkpoint::gguf::find_in_folder(folder.path) == folder.path / "one.gguf");
  folder.write("two.gguf", "GGUF");
  CHECK_THROWS_WITH(checkpoint::gguf::find_in_folder(folder.path),
                    Catch::Contains("2 GGUF models; name one of them: one.gguf, two.gguf"));
}
