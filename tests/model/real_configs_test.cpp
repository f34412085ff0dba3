// Configs of published models: those of supported architectures give a weight table whose sum is
// what their index files state. The data is not part of the repository: $PLIMSOLL_GOLDEN/../data,
// else shared/data beside the source tree; without it the test is skipped.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "skipped.h"

namespace fs = std::filesystem;
using namespace plimsoll;

namespace {

fs::path data_folder() {
  const char* golden = std::getenv("PLIMSOLL_GOLDEN");
  return golden != nullptr ? fs::path(golden) / "../data"
                           : fs::path(PLIMSOLL_SOURCE_DIR) / "../shared/data";
}

bool is_supported(const Json& config) {
  const std::vector<std::string> known = model::supported_architectures();
  const Json& names = config["architectures"];
  return names.is_array() && !names.empty() && names[0].is_string() &&
         std::ranges::find(known, names[0].get<std::string>()) != known.end();
}

int64_t stored_bytes(const model::ModelSpec& spec) {
  int64_t bytes = 0;
  for (const auto* table : {&spec.towers, &spec.weights}) {
    for (const model::WeightSpec& weight : *table) {
      bytes += weight.elements() * static_cast<int64_t>(dtype_size(spec.dtype));
    }
  }
  return bytes;
}

bool is_ignorable(const model::ModelSpec& spec, const std::string& name) {
  return name.ends_with(".bias") ||
         std::ranges::any_of(spec.ignored_suffixes,
                             [&](const std::string& suffix) { return name.ends_with(suffix); }) ||
         std::ranges::any_of(spec.ignored_prefixes,
                             [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// The spelling that the index has; the table's own where it has none.
std::string spelled(const model::ModelSpec& spec, const Json& weight_map, const std::string& name) {
  if (weight_map.contains(name)) return name;
  for (const auto& [first, second] : spec.tensor_prefixes) {
    if (!name.starts_with(first)) continue;
    std::string other = second + name.substr(first.size());
    if (weight_map.contains(other)) return other;
  }
  return name;
}

// Names that the weight table asks for and the index lacks, or the other way round.
std::vector<std::string> odd_names(const model::ModelSpec& spec, const Json& weight_map) {
  std::set<std::string> asked;
  std::vector<std::string> odd;
  for (const auto* table : {&spec.towers, &spec.weights}) {
    for (const model::WeightSpec& weight : *table) {
      for (const model::Part& part : weight.parts) {
        asked.insert(spelled(spec, weight_map, part.tensor));
      }
    }
  }
  for (const std::string& name : asked) {
    if (!weight_map.contains(name)) odd.push_back(name);
  }
  for (const auto& [name, file] : weight_map.items()) {
    if (!asked.contains(name) && !is_ignorable(spec, name)) odd.push_back(name);
  }
  return odd;
}

// Spec of a config; nullopt for what a family states that it does not run yet (experts of hybrids,
// quantized states).
std::optional<model::ModelSpec> make_spec(const Json& config) {
  try {
    return model::make_model_spec(config);
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains(" yet"));
    return std::nullopt;
  }
}

std::vector<fs::path> config_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE("published configs of supported architectures make the model that their index lists",
          "[published]") {
  const fs::path data = data_folder();
  if (!fs::is_directory(data / "configs")) {
    return testing::skip("no configs at " + data.string());
  }
  int models = 0;
  int indexes = 0;
  int right_sums = 0;
  for (const char* folder : {"configs", "configs_derived", "configs_from_docs"}) {
    for (const fs::path& file : config_files(data / folder)) {
      INFO(file.string());
      const Json config = model::read_config(file);
      if (!config.contains("architectures")) continue;
      if (!is_supported(config)) {
        CHECK_THROWS_AS(model::make_model_spec(config), Error);
        continue;
      }
      const auto spec_or_not = make_spec(config);
      if (!spec_or_not) continue;
      const model::ModelSpec& spec = *spec_or_not;
      CHECK(spec.max_position > 0);
      ++models;
      const fs::path index =
          data / "index" / (file.stem().string() + ".model.safetensors.index.json");
      if (!fs::exists(index) || !spec.quantization.empty()) continue;
      const Json listed = read_json_file(index);
      CHECK(odd_names(spec, listed.at("weight_map")).empty());
      ++indexes;
      right_sums += listed.at("metadata").value("total_size", int64_t{0}) == stored_bytes(spec);
    }
  }
  CHECK(models > 0);
  // Publishers' own sums are not all right: one is 0, one counts rotary tables, one is too large.
  CHECK(right_sums * 10 >= indexes * 7);
}

TEST_CASE("weight tables of published models sum to what their index files state") {
  struct Row {
    const char* name;
    int64_t bytes;
    int64_t context;
  };
  const Row row = GENERATE(values<Row>({
      {"Qwen__Qwen3-0.6B", 1192099840, 40960},
      {"Qwen__Qwen3-235B-A22B", 470187269120, 40960},
      {"microsoft__phi-3-mini-128k-instruct", 7642159104, 131072},
      {"mistralai__Mistral-7B-Instruct-v0.3", 14496047104, 32768},
      {"mistralai__Mixtral-8x7B-v0.1", 93405585408, 32768},
  }));
  INFO(row.name);
  const fs::path configs = fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/configs";
  const model::ModelSpec spec =
      model::make_model_spec(model::read_config(configs / (row.name + std::string(".json"))));
  CHECK(stored_bytes(spec) == row.bytes);
  CHECK(spec.max_position == row.context);
}
