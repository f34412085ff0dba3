// Configs with a value changed at random: each is planned or refused, never a crash, a hang or a
// negative size. And sizes against 128-bit arithmetic written apart.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <random>

#include "base/amount.h"
#include "base/error.h"
#include "base/json.h"
#include "like_cases.h"
#include "model/families/family.h"
#include "plan/vllm_plan.h"
#include "vllm_config.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

namespace fs = std::filesystem;

std::vector<Json> real_configs() {
  std::vector<Json> configs;
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  for (const char* folder : {"tests/data/configs", "samples/plans/configs"}) {
    for (const auto& entry : fs::directory_iterator(root / folder)) {
      if (entry.path().extension() == ".json") configs.push_back(test::vllm_config(entry.path()));
    }
  }
  return configs;
}

/// Every place that holds a value, nested ones too.
void collect(Json& value, std::vector<Json*>& places) {
  if (!value.is_structured()) return;
  for (Json& inner : value) {
    places.push_back(&inner);
    collect(inner, places);
  }
}

Json strange_value(std::mt19937& random) {
  static const std::vector<Json> kValues = {
      0,
      -1,
      1,
      2,
      3,
      7,
      1 << 20,
      2147483647,
      int64_t{1} << 40,
      int64_t{1} << 62,
      UINT64_MAX,
      INT64_MIN,
      0.5,
      1e300,
      -1e-300,
      "4096",
      "",
      true,
      nullptr,
      Json::array(),
      Json::object(),
      Json::array({1, -5, 1 << 30}),
      Json::array({"full_attention", "mamba"}),
      Json::object({{"rope_type", "yarn"}, {"factor", 1e18}}),
      Json::object({{"quant_method", "awq"}, {"group_size", 0}})};
  return kValues[random() % kValues.size()];
}

constexpr int64_t kLargest = INT64_MAX;

void plan_or_refuse(const Json& config, const EngineArgs& args) {
  try {
    const PlanResult result = plan_vllm({config, "config.json"}, args, &hardware::find_gpu("h100"));
    CHECK(result.parameter_bytes >= 0);
    CHECK(result.buffer_bytes >= 0);
    CHECK(result.activation_peak_bytes >= 0);
    CHECK(result.num_gpu_blocks >= 0);
    CHECK(result.kv_bytes_per_token >= 0);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).size() > 10);
  }
}

}  // namespace

TEST_CASE("configs with values changed at random are planned or refused") {
  const std::vector<Json> configs = real_configs();
  REQUIRE(configs.size() >= 8);
  std::mt19937 random(20260817);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 3000; ++round) {
    Json config = configs[random() % configs.size()];
    std::vector<Json*> places;
    for (int change = 0; change < 1 + static_cast<int>(random() % 3); ++change) {
      places.clear();
      collect(config, places);
      *places[random() % places.size()] = strange_value(random);
    }
    EngineArgs args;
    args.tensor_parallel = int64_t{1} << (random() % 4);
    if (random() % 4 == 0) args.quantization = "fp8";
    INFO("round " << round << ": " << config.dump());
    plan_or_refuse(config, args);
    // A change of a layer count may make a large plan; the whole test stays short.
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(3)) break;
  }
}

TEST_CASE("names of known architectures over configs that are not theirs") {
  const std::vector<Json> configs = real_configs();
  for (const model::Family& family : model::families()) {
    if (!family.counted) continue;
    for (Json config : configs) {
      config["architectures"] = Json::array({std::string(family.architecture)});
      INFO(family.architecture);
      plan_or_refuse(config, {});
    }
  }
}

TEST_CASE("weights of a Llama in 128-bit arithmetic") {
  std::mt19937_64 random(7);
  for (int round = 0; round < testing::times(400, 80); ++round) {
    const auto pick = [&](int most_bits) {
      return int64_t{1} << (random() % static_cast<uint64_t>(most_bits));
    };
    const int64_t heads = pick(10);
    const int64_t kv_heads = std::min(heads, pick(10));
    const int64_t size = 8 * pick(12);
    const int64_t hidden = heads * size;
    const int64_t width = 64 * pick(22);
    const int64_t vocabulary = 64 * pick(22);
    const int64_t layers = 1 + static_cast<int64_t>(random() % 300);
    const Json config = {{"architectures", {"LlamaForCausalLM"}},
                         {"torch_dtype", "bfloat16"},
                         {"hidden_size", hidden},
                         {"num_attention_heads", heads},
                         {"num_key_value_heads", kv_heads},
                         {"head_dim", size},
                         {"intermediate_size", width},
                         {"vocab_size", vocabulary},
                         {"num_hidden_layers", layers},
                         {"max_position_embeddings", 4096}};
    __extension__ typedef __int128 Wide;
    const Wide attention =
        Wide{hidden} * (heads + 2 * kv_heads) * size + Wide{heads} * size * hidden;
    const Wide layer = attention + Wide{3} * hidden * width + 2 * hidden;
    const Wide elements = layer * layers + Wide{2} * vocabulary * hidden + hidden;
    const Wide bytes = std::min<Wide>(elements * 2, Amount::kMost);
    const Wide token = Wide{layers} * 2 * kv_heads * size * 2;
    EngineArgs args;
    const PlanResult result = plan_vllm({config, "config.json"}, args, &hardware::find_gpu("h100"));
    INFO(config.dump());
    CHECK(result.parameter_bytes == static_cast<int64_t>(bytes));
    CHECK(result.kv_bytes_per_token == static_cast<int64_t>(std::min<Wide>(token, kLargest)));
  }
}
