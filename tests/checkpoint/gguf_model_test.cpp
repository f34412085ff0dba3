// GGUF models as checkpoints: what a family does not compute is refused by key or tensor, and
// blocks of every type decode to the numbers of a formula of their own.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"
#include "base/ggml/decode.h"
#include "checkpoint/crafted.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/tokenizer.h"
#include "checkpoint/read_model.h"
#include "checkpoint/resolve_model.h"
#include "reference/gguf_bytes.h"

using namespace plimsoll;
using plimsoll::testing::TempFolder;
namespace fs = std::filesystem;

namespace {

const char* const kFolder = PLIMSOLL_SOURCE_DIR "/tests/data/golden/gguf";

/// What becomes of a model that is read up to its first weight.
std::string outcome_of_model(const fs::path& file) {
  try {
    auto [config, spec] = checkpoint::read_model(file);
    auto tensors = checkpoint::Checkpoint::open(file);
    checkpoint::resolve_stored(tensors, spec);
    checkpoint::resolve_kept(config, &tensors, {}, spec);
    const checkpoint::WeightReader reader(tensors, spec);
    return "loads";
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::checkpoint_unusable);
    return error.what();
  }
}

fs::path write_recipe(const TempFolder& folder, const std::string& name, const Json& changes) {
  Json recipe = read_json_file(fs::path(kFolder) / "run" / name / "recipe.json");
  for (Json& pair : recipe["kv"])
    if (changes.contains(pair.at(0).get<std::string>()))
      pair[2] = changes.at(pair.at(0).get<std::string>());
  return folder.write(name + ".gguf", plimsoll::testing::gguf_bytes(recipe));
}

}  // namespace

TEST_CASE("GGUF files that are no model of their architecture are refused") {
  const std::map<std::string, std::string> says = {
      {"valid", "loads"},
      {"architecture_unknown", "architecture wibble is not known; these are: "},
      {"blocks_2_31", "llama.block_count 2147483648: a number from 1 to 4096"},
      {"block_count_string", "llama.block_count: a number is needed, string found"},
      {"epsilon_nan", "llama.attention.layer_norm_rms_epsilon is not a number"},
      {"heads_0", "llama.attention.head_count 0"},
      {"tensor_missing", "\"blk.0.attn_v.weight\""},
      {"shape_wrong", "tensor \"blk.0.attn_q.weight\""},
      {"bool_2", "loads"},
      {"name_not_utf8", "loads"},
      {"escape_in_name", "\\x1b"},
  };
  const TempFolder folder;
  size_t checked = 0;
  for (const auto& [name, bytes] :
       plimsoll::testing::hostile_gguf_files(std::string(kFolder) + "/hostile.jsonl")) {
    INFO(name);
    const std::string found = outcome_of_model(folder.write(name + ".gguf", bytes));
    CHECK(std::ranges::none_of(found, [](char c) { return c == '\x1b' || c == '\x7f'; }));
    if (name != "bool_2" && name != "name_not_utf8" && name != "valid") CHECK(found != "loads");
    if (!says.contains(name)) continue;
    ++checked;
    CHECK_THAT(found, Catch::Contains(says.at(name)));
  }
  CHECK(checked == says.size());
}

TEST_CASE("queries of the largest Gemma 2 are scaled by its width over its heads") {
  const TempFolder folder;
  const auto scaled_by = [&](int64_t layers) {
    const fs::path file = write_recipe(
        folder, "gemma2", {{"gemma2.block_count", layers}, {"gemma2.attention.head_count", 8}});
    return checkpoint::read_config(file).at("query_pre_attn_scalar").get<int64_t>();
  };
  CHECK(scaled_by(26) == 64);  // a head's width
  CHECK(scaled_by(42) == 64);
  CHECK(scaled_by(46) == 256 / 8);
}

TEST_CASE("Falcon's layouts are told by a second norm and by the KV heads") {
  // As config.json has it: 7B is the older layout; 11B has the newer one with one norm.
  struct Row {
    const char* name;
    int64_t norms, kv_heads;
    bool newer;
  };
  for (const Row& row : {Row{"7B", 1, 1, false}, Row{"11B", 1, 2, true}, Row{"40B", 2, 2, true}}) {
    INFO(row.name);
    const TempFolder folder;
    const char* const drawn = row.kv_heads == 1 ? "converted_falcon_7b" : "converted_falcon_40b";
    Json recipe = read_json_file(fs::path(kFolder) / "run" / drawn / "recipe.json");
    if (row.norms == 1) {
      std::erase_if(recipe["tensors"].get_ref<Json::array_t&>(), [](const Json& tensor) {
        return tensor.at("name").get<std::string>().find("attn_norm_2") != std::string::npos;
      });
    }
    const fs::path file = folder.write("falcon.gguf", plimsoll::testing::gguf_bytes(recipe));
    const Json config = checkpoint::read_config(file);
    CHECK(config.at("new_decoder_architecture") == row.newer);
    CHECK(config.at("num_ln_in_parallel_attn") == row.norms);
    CHECK(config.at("num_kv_heads") == row.kv_heads);
    CHECK(config.at("parallel_attn") == true);
    CHECK(config.at("bias") == false);
    CHECK(config.at("alibi") == false);
    CHECK(outcome_of_model(file) == "loads");
  }
}

TEST_CASE("tokens that end an answer are control tokens and a user's, by their names") {
  const TempFolder folder;
  constexpr int kNormal = 1, kControl = 3, kUserDefined = 4;
  const auto ends = [&](int kind) {
    const Json pairs = {{"general.architecture", "string", "llama"},
                        {"tokenizer.ggml.tokens", "[string]", {"a", "</s>", "<|im_end|>"}},
                        {"tokenizer.ggml.token_type", "[i32]", {kNormal, kControl, kind}},
                        {"tokenizer.ggml.eos_token_id", "u32", 1}};
    const fs::path file = folder.write(
        "ends.gguf",
        plimsoll::testing::gguf_bytes({{"seed", 1}, {"kv", pairs}, {"tensors", Json::array()}}));
    return checkpoint::gguf::end_tokens(checkpoint::gguf::Model::open(file));
  };
  CHECK(ends(kControl) == std::vector<int64_t>{1, 2});
  CHECK(ends(kUserDefined) == std::vector<int64_t>{1, 2});
  CHECK(ends(kNormal) == std::vector<int64_t>{1});
}

TEST_CASE("keys of a GGUF file that no model has are named") {
  const TempFolder folder;
  const auto outcome = [&](const Json& changes) {
    return outcome_of_model(write_recipe(folder, "llama_q4_k", changes));
  };
  CHECK(outcome(Json::object()) == "loads");
  CHECK_THAT(outcome({{"llama.embedding_length", 512}}), Catch::Contains("token_embd.weight"));
  CHECK_THAT(outcome({{"llama.attention.head_count_kv", 3}}),
             Catch::Contains("num_key_value_heads"));
  CHECK_THAT(outcome({{"llama.block_count", 1}}), Catch::Contains("blk.1."));
}

TEST_CASE("blocks of a GGUF file stay packed, tensor by tensor") {
  const TempFolder folder;
  const fs::path file = write_recipe(folder, "mixtral", Json::object());
  auto [config, spec] = checkpoint::read_model(file);
  auto tensors = checkpoint::Checkpoint::open(file);
  checkpoint::resolve_stored(tensors, spec);
  checkpoint::resolve_kept(config, &tensors, {}, spec);
  CHECK(spec.dtype == DType::bf16);
  const auto type_of = [&](model::WeightId id) {
    return spec.weight(id).parts.front().packing.value().blocks;
  };
  CHECK(type_of(spec.embedding) == GgmlType::q4_k);
  CHECK(type_of(spec.head) == GgmlType::q6_k);
  CHECK(type_of(spec.layers[0].mlp.up.weight) == GgmlType::q4_k);
  CHECK(spec.weight(spec.layers[0].mlp.up.weight).parts.size() == 8);  // of 4 experts
  // Rows of q are stored as pairs.
  const model::Part& q = spec.weight(spec.layers[0].attention.qkv.weight).parts.front();
  CHECK(q.order == model::RowOrder::evens_first);
  CHECK(q.block_rows == 64);
  CHECK(q.block_count == 4);
}

TEST_CASE("a GGUF file whose metadata names no dtype has that of its matrices") {
  struct Row {
    const char *matrices, *last;  // types of all matrices, and of one of them
    DType dtype;
  };
  for (const Row& row : {Row{"F16", "F16", DType::f16}, Row{"BF16", "BF16", DType::bf16},
                         Row{"F32", "F32", DType::f32}, Row{"F16", "BF16", DType::f32},
                         Row{"BF16", "F16", DType::f32}, Row{"F16", "F32", DType::f16},
                         Row{"F32", "BF16", DType::bf16}, Row{"F16", "Q4_K", DType::bf16}}) {
    INFO(row.matrices << " " << row.last);
    const TempFolder folder;
    Json recipe = read_json_file(fs::path(kFolder) / "run/llama_q4_k/recipe.json");
    for (Json& tensor : recipe["tensors"]) {
      if (tensor.at("ne").size() < 2) continue;
      tensor["type"] = tensor.at("name") == "blk.1.ffn_up.weight" ? row.last : row.matrices;
      tensor["mean"] = 0.0;
      tensor["amplitude"] = 0.1;
    }
    const fs::path file = folder.write("m.gguf", plimsoll::testing::gguf_bytes(recipe));
    auto [config, spec] = checkpoint::read_model(file);
    auto tensors = checkpoint::Checkpoint::open(file);
    checkpoint::resolve_stored(tensors, spec);
    CHECK(spec.dtype == row.dtype);
  }
}

TEST_CASE("types that run does not decode are refused by name") {
  const TempFolder folder;
  Json recipe = read_json_file(fs::path(kFolder) / "run/llama_q4_k/recipe.json");
  for (Json& tensor : recipe["tensors"])
    if (tensor.at("name") == "blk.1.ffn_up.weight") tensor["type"] = "IQ3_S";
  const fs::path file = folder.write("m.gguf", plimsoll::testing::gguf_bytes(recipe));
  CHECK_THAT(outcome_of_model(file),
             Catch::Contains("tensor blk.1.ffn_up.weight is IQ3_S, which run does not decode"));
}

TEST_CASE("a block of each type decodes to the numbers of its layout") {
  // Bytes 0, 7, 14 ... of a block, its float16 scale 0.5 and minimum 0.25; the values at 0, 17 and
  // the last place, worked out by hand from the layouts.
  struct Row {
    const char* type;
    int scale, minimum;  // where these lie; -1: nowhere
    std::vector<std::pair<int, float>> values;
  };
  const auto bytes_of = [](const GgmlTypeInfo& type, const Row& row) {
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(7 * i);
    const auto put = [&](int at, float value) {
      const uint16_t half = float_to_f16(value);
      if (at >= 0) std::memcpy(bytes.data() + at, &half, sizeof half);
    };
    put(row.scale, 0.5f);
    put(row.minimum, 0.25f);
    return bytes;
  };
  const Row rows[] = {
      // byte 2 is 14: low 14, high 0; byte 3 is 21: low 5, high 1
      {"Q4_0", 0, -1, {{0, 0.5f * (14 - 8)}, {1, 0.5f * (5 - 8)}, {17, 0.5f * (1 - 8)}}},
      // byte 4 is 28: low 12; byte 5 is 35: high 2
      {"Q4_1", 0, 2, {{0, 0.5f * 12 + 0.25f}, {17, 0.5f * 2 + 0.25f}}},
      // bits: bytes 2 to 5 = 14, 21, 28, 35; byte 6 is 42: low 10; byte 7 is 49: high 3
      {"Q5_0", 0, -1, {{0, 0.5f * (10 - 16)}, {17, 0.5f * (3 - 16)}}},
      {"Q8_0", 0, -1, {{0, 0.5f * 14}, {17, 0.5f * static_cast<float>(int8_t(7 * 19))}}},
      {"IQ4_NL", 0, -1, {{0, 0.5f * 89}, {17, 0.5f * -104}}},
  };
  for (const Row& row : rows) {
    const GgmlTypeInfo& type = *find_ggml_type(row.type);
    INFO(row.type);
    const std::vector<std::byte> bytes = bytes_of(type, row);
    std::vector<float> values(static_cast<size_t>(type.values));
    decode_ggml(type.type(), bytes.data(), type.values, values.data());
    for (const auto& [at, value] : row.values) {
      INFO(at);
      CHECK(values[static_cast<size_t>(at)] == value);
    }
  }
}
