// Shards of multimodal models. tests/data/multimodal_shards.json holds tiny checkpoints (tensors by
// name and shape, filled as a recipe of seed 77, mean 0, amplitude 0.1, bfloat16 where they say no
// other type) and SHA-256 of the files that vLLM 0.32.0's own classes, loader and saver wrote for
// them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"
#include "shard/model_folder.h"
#include "shard/unshard.h"
#include "shard/verify.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

Json multimodal_models() {
  return read_fixture("multimodal_shards.json");
}

// Every tensor that came back is the source's, under the source's name.
void check_joined(const Scratch& scratch, const std::string& shards) {
  unshard(scratch.path(shards), scratch.path("joined"), {});
  const auto source = tensors_of(scratch.path("model"));
  const auto joined = tensors_of(scratch.path("joined"));
  CHECK(joined.size() > source.size() / 2);
  for (const auto& [name, bytes] : joined) {
    INFO(name);
    CHECK((source.contains(name) && source.at(name) == bytes));
  }
}

void check_files(const Json& shards, const Job& job, const fs::path& folder) {
  std::vector<std::string> names = job.file_names();
  CHECK(names.size() == shards.at("sha256").size());
  for (const std::string& name : names) {
    INFO(name);
    CHECK(file_sha256(folder / name) == shards.at("sha256").at(name));
  }
}

constexpr const char* kLayers = "model.language_model.layers.";

/// The layers of the newest Qwen2.5-VL's text as GPTQ stores them: 4 bits in groups of 32.
Json gptq_model() {
  constexpr int64_t kGroup = 32, kPerWord = 8;
  Json model = multimodal_models().back();
  Json tensors = Json::array();
  for (const Json& tensor : model.at("tensors")) {
    const auto name = tensor.at(0).get<std::string>();
    if (!name.starts_with(kLayers) || !name.ends_with("_proj.weight")) {
      tensors.push_back(tensor);
      continue;
    }
    const std::string module = name.substr(0, name.size() - std::string("weight").size());
    const auto outputs = tensor.at(1).at(0).get<int64_t>(),
               inputs = tensor.at(1).at(1).get<int64_t>();
    const Json words{{"bits", "low 32 bits of z"}}, order{{"formula", "i div 32"}};
    tensors.push_back({module + "qweight", {inputs / kPerWord, outputs}, "I32", words});
    tensors.push_back({module + "qzeros", {inputs / kGroup, outputs / kPerWord}, "I32", words});
    tensors.push_back({module + "scales", {inputs / kGroup, outputs}});
    tensors.push_back({module + "g_idx", Json::array({inputs}), "I32", order});
  }
  model["tensors"] = tensors;
  model["config"]["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4},
                                            {"group_size", kGroup},   {"sym", true},
                                            {"desc_act", false},      {"lm_head", false}};
  return model;
}

}  // namespace

TEST_CASE("shards of a quantized multimodal model find tensors under all their names") {
  const Scratch scratch;
  make_multimodal_model(scratch, gptq_model());
  const Source source(scratch.path("model"));
  const Job job(source, {.tensor_parallel = 2});
  write_shards(job, scratch.path("out"), {.tool_version = "test"});
  CHECK(!verify_source(job, scratch.path("out")));
  check_joined(scratch, "out");
}

TEST_CASE("shards of multimodal models are vLLM's, and join again") {
  for (const Json& model : multimodal_models()) {
    INFO(model.at("name"));
    const Scratch scratch;
    make_multimodal_model(scratch, model);
    const Source source(scratch.path("model"));
    for (const Json& shards : model.at("shards")) {
      JobOptions options;
      options.tensor_parallel = shards.at("tensor_parallel_size").get<int64_t>();
      options.pipeline_parallel = shards.at("pipeline_parallel_size").get<int64_t>();
      const Job job(source, options);
      fs::remove_all(scratch.path("out"));
      fs::remove_all(scratch.path("joined"));
      write_shards(job, scratch.path("out"), {.tool_version = "test"});
      check_files(shards, job, scratch.path("out"));
      CHECK(!verify_source(job, scratch.path("out")));
      check_joined(scratch, "out");
    }
  }
}

TEST_CASE(
    "LLaVA of several feature layers has no shards: vLLM's class has too narrow a projector") {
  const Scratch scratch;
  Json model = multimodal_models().at(0);
  make_multimodal_model(scratch, model);
  Json config = read_json_file(scratch.path("model/config.json"));
  REQUIRE(config.at("model_type") == "llava");
  config["vision_feature_layer"] = {-2, -3};
  scratch.write("model/config.json", config.dump());
  CHECK_THROWS_WITH(Source(scratch.path("model")), Catch::Contains("one layer alone"));
}

TEST_CASE("ranks that a vision tower refuses are refused by tensor and number") {
  const Scratch scratch;
  const Json models = multimodal_models();
  make_multimodal_model(scratch, models.at(1));  // Gemma 3: 4 vision heads, width 104 of its MLP
  const Source source(scratch.path("model"));
  JobOptions options;
  options.tensor_parallel = 8;
  CHECK_THROWS_WITH(Job(source, options),
                    Catch::Contains("vision_tower.vision_model.encoder.layers.0.self_attn.qkv_proj."
                                    "weight has 4 query heads, which 8 does not divide"));
}

TEST_CASE("older releases lack what vLLM's classes did not keep then") {
  const Scratch scratch;
  make_multimodal_model(scratch, multimodal_models().back());  // Qwen2.5-VL
  const Source source(scratch.path("model"));
  const auto keeps_norm = [&](const std::string& release) {
    const Job job(source, {.release = parse_release(release)});
    return std::ranges::any_of(job.stages().front().tensors, [](const ShardTensor& tensor) {
      return tensor.name == "visual.input_norm.weight";
    });
  };
  CHECK(keeps_norm("0.32.0"));
  CHECK(!keeps_norm("0.27.0"));
  const auto scales = [&](const std::string& release) {
    const Job job(source, {.release = parse_release(release)});
    return std::ranges::count_if(job.stages().front().tensors, [](const ShardTensor& tensor) {
      return tensor.name.ends_with(".attn._k_scale");
    });
  };
  CHECK(scales("0.14.0") == std::ssize(source.spec().layers));
  CHECK(scales("0.13.0") == 0);
  CHECK_THROWS_WITH(keeps_norm("0.10.0"), Catch::Contains("0.10.1 is the first release"));
}

TEST_CASE("a changed preprocessor_config.json is another source") {
  const Scratch scratch;
  const Json models = multimodal_models();
  make_multimodal_model(scratch, models.back());
  const Source source(scratch.path("model"));
  JobOptions options;
  options.max_file_size.reset();
  const Job job(source, options);
  Json file = models.back().at("files").at("preprocessor_config.json");
  file["image_mean"] = {0.5, 0.5, 0.5};
  scratch.write("model/preprocessor_config.json", file.dump());
  CHECK_THROWS_WITH(source.check_unchanged(),
                    Catch::Contains("preprocessor_config.json was changed"));
}

}  // namespace plimsoll::shard
