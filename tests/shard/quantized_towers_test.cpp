// Shards of models whose vision towers are quantized. tests/data/quantized_towers.json is made as
// multimodal_shards.json, with choosers of kernels stubbed: SHA-256 of the files that vLLM 0.32.0's
// own classes, loader and saver wrote, before kernels repack anything.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "base/error.h"
#include "shard/model_folder.h"
#include "shard/unshard.h"
#include "shard/verify.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

Json tower_models() {
  return read_fixture("quantized_towers.json");
}

Json tower_model(const std::string& name) {
  for (Json& model : tower_models()) {
    if (model.at("name") == name) return model;
  }
  throw std::logic_error("no tower " + name);
}

/// The error for the checkpoint; empty where it has shards on so many ranks.
std::string said_of_tower(const Json& model, int64_t ranks) {
  const Scratch scratch;
  make_multimodal_model(scratch, model);
  try {
    const Source source(scratch.path("model"));
    const Job job(source, {.tensor_parallel = ranks});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The weights whose names hold `part`, in fp8 with a scale for each output.
void store_in_fp8(Json& model, const std::string& part) {
  Json all = Json::array();
  for (const Json& tensor : model.at("tensors")) {
    const auto name = tensor.at(0).get<std::string>();
    all.push_back(tensor);
    if (name.find(part) == std::string::npos || !name.ends_with(".weight")) continue;
    const auto rows = tensor.at(1).at(0).get<int64_t>();
    all.back() = {name, tensor.at(1), "F8_E4M3", {{"bits", 8}}};
    all.push_back(
        {name + "_scale", Json::array({rows, 1}), "BF16", {{"mean", 0.02}, {"amplitude", 0.01}}});
  }
  model["tensors"] = all;
}

}  // namespace

TEST_CASE("shards of quantized towers are vLLM's, and join again") {
  for (const Json& model : tower_models()) {
    const Scratch scratch;
    make_multimodal_model(scratch, model);
    const auto before = tensors_of(scratch.path("model"));
    const Source source(scratch.path("model"));
    for (const Json& shards : model.at("shards")) {
      const auto ranks = shards.at("tensor_parallel_size").get<int64_t>();
      INFO(model.at("name") << " -tp " << ranks);
      const Job job(source, {.tensor_parallel = ranks});
      const fs::path out = scratch.path("out" + std::to_string(ranks));
      write_shards(job, out, {.tool_version = "test"});
      for (const std::string& name : job.file_names()) {
        INFO(name);
        CHECK(file_sha256(out / name) == shards.at("sha256").at(name));
      }
      CHECK_FALSE(verify_source(job, out));
      unshard(out, out.string() + "joined", {});
      const auto joined = tensors_of(out.string() + "joined");
      CHECK(joined.size() > before.size() / 2);
      for (const auto& [name, bytes] : joined) {
        INFO(name);
        REQUIRE(before.contains(name));
        // Values are in the model's type, or in float32 where vLLM keeps scales in it.
        const bool converted = before.at(name).starts_with("BF16") && !bytes.starts_with("BF16");
        CHECK((converted || before.at(name) == bytes));
      }
    }
  }
}

TEST_CASE("what vLLM has no parameter for in a tower is refused by name") {
  Json internvl = tower_model("internvl, int8 by channel");
  store_in_fp8(internvl, "mlp1.1");
  CHECK_THAT(said_of_tower(internvl, 1), Catch::Contains("mlp1.1.weight") &&
                                             Catch::Contains("InternVLChatModel always has whole"));
}

}  // namespace plimsoll::shard
