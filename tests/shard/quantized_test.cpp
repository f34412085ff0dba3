// Shards of quantised checkpoints, in the layout that vLLM's loader fills.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"
#include "reference/recipe.h"
#include "shard/quantized.h"
#include "shard/sha256.h"
#include "shard/unshard.h"
#include "shard/verify.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

// Recipes of tiny checkpoints, and what vLLM 0.32.0's classes loaded from them (see its README).
Json fixture() {
  return read_json_file(fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/quantized_shards.json",
                        size_t{4} << 20);
}

void make_model(const Scratch& scratch, const Json& model) {
  fs::create_directories(scratch.path("recipe"));
  scratch.write("recipe/recipe.json", model.at("recipe").dump());
  scratch.write("recipe/config.json", model.at("config").dump());
  testing::write_checkpoint(scratch.path("recipe"), scratch.path("model"));
}

std::map<std::string, std::string> tensors_of(const fs::path& folder) {
  std::map<std::string, std::string> result;
  const auto checkpoint = checkpoint::Checkpoint::open(folder);
  for (const auto& [name, entry] : checkpoint.tensors()) {
    result[name] = std::string(safetensors_name(entry.dtype)) +
                   std::string(reinterpret_cast<const char*>(entry.data), entry.bytes);
  }
  return result;
}

// Scales that vLLM keeps in float32 come back in float32.
std::map<std::string, std::string> widened(std::map<std::string, std::string> tensors) {
  for (auto& [name, value] : tensors) {
    const bool kept_wide =
        name.ends_with("weight_scale") && tensors.contains(name.substr(0, name.size() - 6));
    if (!kept_wide || !value.starts_with("BF16")) continue;
    std::string wide = "F32";
    for (size_t i = 4; i < value.size(); i += 2) wide += std::string(2, '\0') + value.substr(i, 2);
    value = wide;
  }
  return tensors;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Json& quantization(Json& model) {
  return model["config"]["quantization_config"];
}

}  // namespace

TEST_CASE("quantised shards hold what vLLM's loader fills, byte for byte") {
  for (const Json& model : fixture()) {
    const Scratch scratch;
    make_model(scratch, model);
    const Source source(scratch.path("model"));
    for (const Json& expected : model.at("shards")) {
      const auto ranks = expected.at("tensor_parallel_size").get<int64_t>();
      INFO(model.at("name") << " -tp " << ranks);
      const Job job(source, {.tensor_parallel = ranks, .max_file_size = {}});
      std::vector<std::string> walk;
      for (const ShardTensor& tensor : job.stages().front().tensors) walk.push_back(tensor.name);
      CHECK(walk == expected.at("walk_order").get<std::vector<std::string>>());
      const fs::path out = scratch.path("out" + std::to_string(ranks));
      write_shards(job, out, {.tool_version = "test"});
      std::vector<std::string> digests;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        std::ifstream file(out / job.file_name(0, rank, 0), std::ios::binary);
        digests.push_back(sha256_hex({std::istreambuf_iterator<char>(file), {}}));
      }
      CHECK(digests == expected.at("sha256").get<std::vector<std::string>>());
      CHECK_FALSE(verify_source(job, out));
      CHECK_FALSE(verify_digests(out));
    }
  }
}

TEST_CASE("quantised shards join to their source again") {
  for (const Json& model : fixture()) {
    const Scratch scratch;
    make_model(scratch, model);
    const auto before = widened(tensors_of(scratch.path("model")));
    for (const int64_t ranks : {1, 2, 4}) {
      INFO(model.at("name") << " -tp " << ranks);
      const std::string out = "out" + std::to_string(ranks);
      const Source source(scratch.path("model"));
      write_shards(Job(source, {.tensor_parallel = ranks, .max_file_size = 50'000}),
                   scratch.path(out), {.tool_version = "test"});
      unshard(scratch.path(out), scratch.path(out + "joined"), {});
      CHECK(tensors_of(scratch.path(out + "joined")) == before);
    }
  }
}

TEST_CASE("groups and blocks that ranks would cut are refused with tensor and number") {
  const auto refused = [](const std::string& name, const std::function<void(Json&)>& change,
                          int64_t ranks) {
    for (Json model : fixture()) {
      if (model.at("name") != name) continue;
      change(model);
      const Scratch scratch;
      make_model(scratch, model);
      return refusal([&] {
        const Source source(scratch.path("model"));
        const Job job(source, {.tensor_parallel = ranks});
      });
    }
    return std::string("no such model");
  };
  const auto none = [](Json&) {};
  // 512 inputs in groups of 32 are 16 groups; 8 query heads.
  CHECK(refused("awq", none, 3).find("qkv_proj.qweight has 8 query heads") != std::string::npos);
  CHECK(refused("fp8_block", none, 8) == "");  // 32 rows of k on a rank are one block
  CHECK(refused(
            "fp8_block",
            [](Json& model) {
              model["config"]["num_attention_heads"] = 16;
              model["config"]["num_key_value_heads"] = 4;
            },
            4)
            .find("qkv_proj.weight would have 16 outputs of a part on a rank, no multiple of its "
                  "blocks of 32") != std::string::npos);
  CHECK(refused(
            "gptq", [](Json& model) { quantization(model)["desc_act"] = true; }, 1)
            .find("desc_act") != std::string::npos);
  CHECK(refused(
            "gptq", [](Json& model) { quantization(model)["sym"] = false; }, 1)
            .find("sym false") != std::string::npos);
  CHECK(refused(
            "gptq", [](Json& model) { quantization(model)["quant_method"] = "bitsandbytes"; }, 1)
            .find("bitsandbytes") != std::string::npos);
  CHECK(refused(
            "gptq",
            [](Json& model) {
              for (Json& tensor : model["recipe"]["tensors"]) {
                if (tensor.contains("formula")) tensor["formula"] = "i div 16";
              }
            },
            1)
            .find("does not give the groups of inputs in order") != std::string::npos);
}

TEST_CASE("other releases' layouts of quantised layers are not guessed") {
  const Json model = fixture().front();
  const Scratch scratch;
  make_model(scratch, model);
  const Source source(scratch.path("model"));
  CHECK(refusal([&] {
          Job(source, {.release = parse_release("0.28.0")});
        }).find("--vllm-version 0.28.0") != std::string::npos);
}

}  // namespace plimsoll::shard
