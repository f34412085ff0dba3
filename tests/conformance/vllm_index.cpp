// Weights of published checkpoints against the total that their own index states, and the cache of
// one token against a formula of its own for each kind of attention. Prints a table.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "golden.h"
#include "plan/vllm_plan.h"
#include "skipped.h"
#include "vllm_config.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

/// Indexes whose total disagrees with the tensors that they list: an output matrix counted twice,
/// and MLX's packed weights.
const std::set<std::string> kOffByThemselves = {"Orenguteng__Lexi-Llama-3-8B-Uncensored",
                                                "mlx__Qwen3-14B-MLX-4bit", "Qwen2.5-14B_mpx",
                                                "mistral3_delsakov"};

std::string unpacked(const fs::path& file) {
  if (file.extension() != ".gz") return testing::read_file(file);
  std::string text;
  FILE* pipe = popen(("gzip -dc '" + file.string() + "'").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 65536> buffer{};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    text.append(buffer.data(), got);
  pclose(pipe);
  return text;
}

double total_size(const Json& index) {
  const Json metadata = index.value("metadata", Json::object());
  const auto at = metadata.find("total_size");
  return at != metadata.end() && at->is_number() ? at->get<double>() : 0.0;
}

int64_t integer(const Json& config, std::initializer_list<const char*> keys, int64_t fallback) {
  for (const char* key : keys) {
    const auto at = config.find(key);
    if (at != config.end() && at->is_number()) return at->get<int64_t>();
  }
  return fallback;
}

/// Layers that keep every token.
int64_t full_layers(const Json& config) {
  const int64_t layers = integer(config, {"num_hidden_layers", "n_layer", "num_layers"}, 0);
  const auto list = config.find("attn_type_list");  // 1: softmax attention, 0: lightning
  if (list != config.end()) return std::count(list->begin(), list->end(), Json(1));
  const std::string type = config.value("model_type", "");
  const bool windowed = config.value("sliding_window", Json()).is_number() &&
                        (type == "mistral" || type == "phi3");  // all layers
  return windowed ? 0 : layers;
}

/// Bytes that one more token adds, by the textbook: 2 x heads x head size, or the latent vector.
int64_t token_bytes(Json config, int64_t element) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    if (config.contains(key) && config[key].is_object()) config = Json(config[key]);
  }
  const int64_t layers = full_layers(config);
  const int64_t rank = integer(config, {"kv_lora_rank"}, 0);
  if (rank > 0) return layers * (rank + integer(config, {"qk_rope_head_dim"}, 64)) * element;
  const int64_t heads = integer(config, {"num_attention_heads", "n_head"}, 1);
  const int64_t hidden = integer(config, {"hidden_size", "n_embd"}, 0);
  const int64_t size = integer(config, {"head_dim", "kv_channels"}, hidden / heads);
  const int64_t grouped = integer(
      config, {"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"}, heads);
  return layers * 2 * grouped * size * element;
}

struct Sizes {
  double weights = 0;
  int64_t token = 0;
  int64_t element = 2;
};

Sizes planned(const Json& config, const std::string& file, const char* dtype) {
  vllm::EngineArgs args;
  args.dtype = dtype;
  const plan::PlanResult result = plan::plan_vllm({config, file}, args, nullptr);
  return {static_cast<double>(result.parameter_bytes), result.kv_bytes_per_token,
          result.dtype == "float32" ? 4 : 2};
}

fs::path config_of(const fs::path& data, std::string name) {
  for (const char* tail :
       {".gz", ".model.safetensors.index.json", ".pytorch_model.bin.index.json"}) {
    if (name.ends_with(tail)) name.resize(name.size() - std::string(tail).size());
  }
  return data / "configs" / (name + ".json");
}

TEST_CASE("weights by the checkpoints' indexes, and the cache of a token") {
  const auto data = testing::data_with("index");
  if (!data) return testing::skip("no indexes (PLIMSOLL_GOLDEN)");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(*data / "index")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  int compared = 0;
  fmt::print("{:52} {:>16} {:>16} {:>7} {:>12}\n", "config", "index", "plan", "error", "B/token");
  for (const fs::path& file : files) {
    const fs::path config_file = config_of(*data, file.filename().string());
    if (!fs::exists(config_file)) continue;
    const double stated = total_size(parse_json<Json>(unpacked(file)));
    const std::string name = config_file.stem().string();
    if (stated <= 0 || kOffByThemselves.count(name) > 0) continue;
    INFO(name);
    const Json config = test::vllm_config(config_file);
    Sizes sizes = planned(config, config_file.string(), "bfloat16");
    if (stated > 1.5 * sizes.weights) sizes = planned(config, config_file.string(), "float32");
    const double error = 100.0 * (sizes.weights - stated) / stated;
    fmt::print("{:52.52} {:16.0f} {:16.0f} {:+6.2f}% {:12}\n", name, stated, sizes.weights, error,
               sizes.token);
    CHECK(std::abs(error) <= 0.5);
    CHECK(sizes.token == token_bytes(config, sizes.element));
    ++compared;
  }
  CHECK(compared >= (testing::golden_folder() ? 26 : 3));
}

}  // namespace
}  // namespace plimsoll
