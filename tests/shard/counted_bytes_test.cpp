// Bytes of a rank's parameters, those that plan counts and those that shard writes, equal to the
// byte: two walks over one description.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "model/class_defaults.h"
#include "model/config.h"
#include "model/tied_head.h"
#include "model/vllm/classes.h"
#include "shard/layout.h"
#include "vllm/shapes/model_shape.h"

using namespace plimsoll;

namespace {

constexpr int64_t kRefused = -1;

/// Configs of the golden results, in spellings that no class's defaults have.
void add_golden(std::map<std::string, Json>& configs) {
  const std::string golden = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/golden/";
  for (const char* part : {"models", "more_models"}) {
    for (const auto& folder : std::filesystem::directory_iterator(golden + part)) {
      Json config = read_json_file(folder.path() / "config.json");
      model::complete_config(config, model::ConfigClasses::vllm);
      configs[fmt::format("{} ({})", folder.path().filename().string(), part)] = std::move(config);
    }
  }
}

/// A config for each architecture, and some of other flags (tests/data/families); those whose
/// `quantization_config` decides are left to the quantized tests.
std::map<std::string, Json> configs() {
  std::map<std::string, Json> result;
  add_golden(result);
  for (const char* name : {"families", "changed"}) {
    std::istringstream lines(read_text_file(std::string(PLIMSOLL_SOURCE_DIR) +
                                            "/tests/data/families/" + name + ".jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json row = parse_json<Json>(line);
      if (!row.contains("config") || row["config"].contains("quantization_config")) continue;
      if (row.contains("refused")) continue;  // by vLLM

      model::complete_config(row["config"], model::ConfigClasses::vllm);
      result[fmt::format("{} ({})", row["name"].get<std::string>(), name)] =
          std::move(row["config"]);
    }
  }
  return result;
}

std::vector<int64_t> counted(const Json& config, int64_t tensor, int64_t pipeline) {
  std::vector<int64_t> stages;
  try {
    const ConfigView view(config, "config.json");
    const quantization::Quantization plain;
    vllm::ShapeOptions options;
    options.tensor_parallel = tensor;
    options.pipeline_parallel = pipeline;
    for (; options.pipeline_rank < pipeline; ++options.pipeline_rank) {
      vllm::RankWeights weights(tensor, options.element, plain);
      build_shape(view, options, weights);
      stages.push_back(weights.parameter_bytes().value());
    }
  } catch (const Error&) {
    return {kRefused};
  }
  return stages;
}

std::vector<int64_t> written(const model::ModelSpec& spec, int64_t tensor, int64_t pipeline) {
  std::vector<int64_t> stages;
  try {
    for (const shard::Stage& stage :
         shard::make_stages(spec, {.tensor_parallel = tensor, .pipeline_parallel = pipeline})) {
      stages.push_back(std::accumulate(
          stage.begin(), stage.end(), int64_t{0}, [](int64_t sum, const shard::ShardTensor& each) {
            // Constants are scales, which are buffers, but one.
            const bool counts =
                each.weight != nullptr ? !each.weight->is_buffer : each.name.ends_with("_bias");
            return sum + (counts ? each.bytes() : 0);
          }));
    }
  } catch (const Error&) {
    return {kRefused};
  }
  return stages;
}

}  // namespace

TEST_CASE("what plan counts of a stage's parameters, shard writes") {
  std::set<std::string> both;
  for (const auto& [name, config] : configs()) {
    model::ModelSpec spec;
    try {
      spec = model::make_model_spec(config);
    } catch (const Error&) {
      continue;  // plan alone knows it
    }
    // Without a stored head shard refuses it.
    if (spec.vllm.never_ties && spec.tied_head) model::untie_head(spec);
    if (!spec.vllm.refused.empty()) continue;  // by shard too
    both.insert(spec.architecture);
    if (spec.architecture == "PhiForCausalLM") continue;  // its head's bias comes with the tensors
    for (const int64_t tensor : {1, 2, 4, 8}) {
      if (tensor > 1 && !spec.vllm.whole.empty()) continue;  // shard has no ranks of it
      for (const int64_t pipeline : {1, 2, 3}) {
        const bool in_one_stage =
            spec.layer_inputs.width > 0 ||
            model::lacks_stages(spec.architecture, model::kNewestRelease) ||
            !model::loads_stages(spec.architecture, spec.embedding == spec.head);
        if (pipeline > 1 && in_one_stage) continue;  // shard refuses others
        INFO(name << " on " << tensor << " ranks in " << pipeline << " stages");
        CHECK(counted(config, tensor, pipeline) == written(spec, tensor, pipeline));
      }
    }
  }
  CHECK(both.size() >= 20);
}
