// Bytes of a rank's parameters of each quantization format: those that plan counts and those that
// shard writes, equal to the byte.
#include <catch2/catch.hpp>
#include <numeric>

#include "model/class_defaults.h"
#include "shard/job.h"
#include "shard/model_folder.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::shard {
namespace {

/// Names the routers as whole, which AWQ's and GPTQ's checkpoints have so without a word in
/// config.json: shard sees their tensors.
void name_routers(Json& settings) {
  const std::string method = settings.at("quant_method");
  if (method == "awq") settings["modules_to_not_convert"] = {"mlp.gate"};
  if (method == "gptq") settings["dynamic"] = {{R"(-:.*mlp\.gate$)", {}}};
}

int64_t counted_of_format(Json config, int64_t ranks) {
  if (config.at("model_type") == "qwen3_moe") name_routers(config["quantization_config"]);
  model::complete_config(config, model::ConfigClasses::vllm);
  const ConfigView view(config, "config.json");
  const quantization::Quantization schemes(view.child({"quantization_config"}));
  vllm::ShapeOptions options;
  options.version = kNewestRelease;
  options.tensor_parallel = ranks;
  vllm::RankWeights weights(ranks, options.element, schemes);
  build_shape(view, options, weights);
  return weights.parameter_bytes().value();
}

/// The scales of an attention's cache whose names begin with "_" are buffers.
bool is_parameter(const ShardTensor& tensor) {
  return !tensor.name.substr(tensor.name.rfind('.') + 1).starts_with("_");
}

int64_t written_of_format(const Job& job) {
  const Stage& tensors = job.stages().front().tensors;
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [](int64_t sum, const ShardTensor& tensor) {
                           return sum + (is_parameter(tensor) ? tensor.bytes() : 0);
                         });
}

}  // namespace

TEST_CASE("what plan counts of a quantized rank's parameters, shard writes") {
  for (const Json& model : read_fixture("quantized_shards.json")) {
    const test::Scratch scratch;
    write_model(scratch, model.at("config"), model.at("recipe"));
    const Source source(scratch.path("model"));
    for (const Json& shards : model.at("shards")) {
      const auto ranks = shards.at("tensor_parallel_size").get<int64_t>();
      INFO(model.at("name") << " -tp " << ranks);
      const Job job(source, {.tensor_parallel = ranks});
      CHECK(counted_of_format(model.at("config"), ranks) == written_of_format(job));
    }
  }
}

}  // namespace plimsoll::shard
