// Compares shards with what vLLM itself wrote, file by file.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/find_tensor.h"
#include "conformance/golden.h"
#include "model/config.h"
#include "reference/recipe.h"
#include "shard/job.h"
#include "shard/sha256.h"
#include "shard/unshard.h"
#include "shard/writer.h"
#include "skipped.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;

// The shards of one variant, in `out`.
JobOptions options_of(const Json& entry) {
  JobOptions options{.tensor_parallel = entry.at("tensor_parallel_size").get<int64_t>(),
                     .pipeline_parallel = entry.value("pipeline_parallel_size", int64_t{1}),
                     .dtype = entry.at("dtype").get<std::string>(),
                     .max_file_size = {}};
  if (!entry.at("max_file_size").is_null()) {
    options.max_file_size = entry.at("max_file_size").get<int64_t>();
  }
  return options;
}

std::vector<std::string> walk_of(const Stage& stage) {
  std::vector<std::string> names;
  for (const ShardTensor& tensor : stage) names.push_back(tensor.name);
  return names;
}

void check_walk(const Job& job, const Json& entry) {
  const Json& order = entry.at("walk_order");
  const bool staged = entry.contains("pipeline_parallel_size");
  for (size_t i = 0; i < job.stages().size(); ++i) {
    CHECK(walk_of(job.stages()[i].tensors) ==
          (staged ? order.at(i) : order).get<std::vector<std::string>>());
  }
}

void check_file(const fs::path& path, const Json& expected) {
  const std::string bytes = testing::read_file(path);
  INFO("file " << path.filename());
  const auto header = expected.at("header").get<std::string>();
  uint64_t header_size = 0;  // of ours: what stands behind is no text
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const std::string own = bytes.substr(8, std::min<uint64_t>(header_size, header.size()));
  CHECK(own == header);
  CHECK(bytes.size() == expected.at("bytes").get<size_t>());
  CHECK(sha256_hex(bytes) == expected.at("sha256").get<std::string>());
}

/// Models of `models` as the list below the folder `shards` has them; those that are not served are
/// left out where the list may hold such.
enum class Unserved : uint8_t { none, left_out };

bool is_served(const fs::path& model) {
  try {
    return model::make_model_spec(model::read_config(model)).vllm.refused.empty();
  } catch (const Error&) {
    return false;
  }
}

void check_variants(const fs::path& golden, const std::string& list, const std::string& models,
                    Unserved unserved = Unserved::none) {
  const test::Scratch scratch;
  std::map<std::string, std::unique_ptr<Source>> sources;
  size_t number = 0;
  for (const Json& entry : parse_json<Json>(testing::read_maybe_xz(golden / list))) {
    const auto model = entry.at("model").get<std::string>();
    if (unserved == Unserved::left_out && !is_served(golden / models / model)) continue;
    INFO(list << ": " << model << ", dtype " << entry.at("dtype") << ", max_file_size "
              << entry.at("max_file_size"));
    std::unique_ptr<Source>& source = sources[model];
    if (!source) {
      testing::write_checkpoint(golden / models / model, scratch.path(model));
      source = std::make_unique<Source>(scratch.path(model));
    }
    const Job job(*source, options_of(entry));
    check_walk(job, entry);
    const fs::path out = scratch.path("out" + std::to_string(number++));
    write_shards(job, out, {.tool_version = "test"});
    std::vector<std::string> names;
    for (const Json& file : entry.at("files")) {
      names.push_back(file.at("name").get<std::string>());
      check_file(out / names.back(), file);
    }
    std::vector<std::string> ours = job.file_names();
    std::ranges::sort(names);
    std::ranges::sort(ours);
    CHECK(ours == names);
    fs::remove_all(out);
  }
}

}  // namespace

TEST_CASE("shards are vLLM's, byte for byte") {
  const auto golden = testing::golden_with("shards/tp1.json.xz");
  if (!golden) return testing::skip("no golden results (PLIMSOLL_GOLDEN)");
  for (const char* list :
       {"tp1.json.xz", "tp2.json.xz", "tp4.json.xz", "pipeline/tp2pp2.json.xz"}) {
    check_variants(*golden, std::string("shards/") + list, "models");
  }
}

TEST_CASE("shards of multimodal models are vLLM's, byte for byte", "[multimodal]") {
  const auto golden = testing::golden_with("shards/multimodal/tp1.json.xz");
  if (!golden) return testing::skip("no golden results of multimodal models (PLIMSOLL_GOLDEN)");
  for (const char* list :
       {"multimodal/tp1.json.xz", "multimodal/tp2.json.xz", "multimodal/tp4.json.xz"}) {
    check_variants(*golden, std::string("shards/") + list, "multimodal");
  }
}

TEST_CASE("shards of further families are vLLM's, byte for byte") {
  const auto golden = testing::golden_folder();
  if (!golden || !fs::exists(*golden / "shards_more")) {
    WARN("no golden results of further families (PLIMSOLL_GOLDEN): skipped");
    return;
  }
  for (const char* list : {"tp1.json.xz", "tp2.json.xz", "tp4.json.xz"}) {
    check_variants(*golden, std::string("shards_more/") + list, "more_models", Unserved::left_out);
  }
}

TEST_CASE("shards joined again have the source's tensors under the source's names") {
  const auto golden = testing::golden_folder();
  if (!golden) return testing::skip("no golden results (PLIMSOLL_GOLDEN)");
  size_t joined = 0;
  for (const char* list : {"models", "more_models", "multimodal_run", "quantized"}) {
    for (const auto& recipe : fs::directory_iterator(*golden / list)) {
      if (!recipe.is_directory()) continue;
      INFO(recipe.path().string());
      const test::Scratch scratch;
      testing::write_checkpoint(recipe.path(), scratch.path("model"));
      try {
        const Source source(scratch.path("model"));
        write_shards(Job(source, {}), scratch.path("shards"), {.tool_version = "test"});
        unshard(scratch.path("shards"), scratch.path("joined"), {});
      } catch (const Error&) {
        continue;  // refused, so nothing has another name
      }
      ++joined;
      const auto before = checkpoint::Checkpoint::open(scratch.path("model"));
      const auto after = checkpoint::Checkpoint::open(scratch.path("joined"));
      for (const auto& [name, tensor] : after.tensors()) {
        INFO(name);
        CHECK(before.find(name) != nullptr);
      }
      const model::ModelSpec spec = model::read_model_folder(scratch.path("model")).spec;
      for (const model::WeightSpec& weight : spec.weights) {
        for (const model::Part& part : weight.parts) {
          const auto* used = checkpoint::find_tensor(before, spec, part.tensor);
          INFO(part.tensor);
          CHECK((used == nullptr || after.find(used->name) != nullptr));
        }
      }
    }
  }
  CHECK(joined > 100);
}

TEST_CASE("families that vLLM does not serve are refused") {
  const auto golden = testing::golden_folder();
  if (!golden || !fs::exists(*golden / "shards_more")) return;
  const test::Scratch scratch;
  for (const char* model : {"bamba", "codegen", "mpt", "olmo_hybrid", "stablelm_parallel"}) {
    INFO(model);
    testing::write_checkpoint(*golden / "more_models" / model, scratch.path(model));
    CHECK_THROWS_WITH(Source(scratch.path(model)),
                      Catch::Matchers::Contains("so there are no shards of it"));
  }
}

}  // namespace plimsoll::shard
