// Shards of text models. tests/data/text_shards.json holds recipes of tiny checkpoints that bring
// out one rule each, and SHA-256 of the files that vLLM 0.32.0's own classes, loader and saver
// wrote for them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"
#include "checkpoint/fused_experts.h"
#include "checkpoint/tied_head.h"
#include "model/config.h"
#include "shard/model_folder.h"
#include "shard/shard_reader.h"
#include "shard/unshard.h"
#include "shard/writer.h"

namespace plimsoll::shard {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

JobOptions options_of(const Json& shards) {
  JobOptions options{.tensor_parallel = shards.at("tensor_parallel_size").get<int64_t>(),
                     .pipeline_parallel = shards.at("pipeline_parallel_size").get<int64_t>(),
                     .dtype = shards.at("dtype").get<std::string>(),
                     .max_file_size = {},
                     .pipeline_partition = shards.value("partition", std::vector<int64_t>{})};
  if (!shards.at("max_file_size").is_null()) {
    options.max_file_size = shards.at("max_file_size").get<int64_t>();
  }
  return options;
}

void write_to(const Scratch& scratch, const JobOptions& options, const std::string& out) {
  const Source source(scratch.path("model"));
  write_shards(Job(source, options), scratch.path(out), {.tool_version = "test"});
}

Json find_case(const std::string& name) {
  const Json cases = read_fixture("text_shards.json");
  const auto at =
      std::ranges::find_if(cases, [&](const Json& each) { return each["name"] == name; });
  REQUIRE(at != cases.end());
  return *at;
}

constexpr const char* kOwnHead = "llama, tied in config.json, with a head of its own";
constexpr const char* kCopiedHead = "llama, tied, with a copy of the table as head";

std::vector<float> read(const checkpoint::WeightSource& source, const model::WeightSpec& weight) {
  std::vector<float> values(static_cast<size_t>(weight.elements()));
  source.read_rows(weight, 0, weight.matrices() * weight.rows(), DType::f32, values.data());
  return values;
}

}  // namespace

TEST_CASE("shards of text models are vLLM's") {
  for (const Json& model : read_fixture("text_shards.json")) {
    const Scratch scratch;
    write_model(scratch, model.at("config"), model.at("recipe"));
    const Source source(scratch.path("model"));
    for (const Json& shards : model.at("shards")) {
      INFO(model.at("name") << " " << shards.at("tensor_parallel_size") << " x "
                            << shards.at("pipeline_parallel_size") << " " << shards.at("dtype"));
      const Job job(source, options_of(shards));
      const fs::path out = scratch.path("out");
      fs::remove_all(out);
      write_shards(job, out, {.tool_version = "test"});
      Json digests = Json::object();
      for (const std::string& name : job.file_names()) digests[name] = file_sha256(out / name);
      CHECK(digests == shards.at("sha256"));
    }
  }
}

TEST_CASE("a head of the checkpoint's own comes back from its shards") {
  const Json model = find_case(kOwnHead);
  for (const auto& [ranks, stages] : {std::pair{2, 1}, std::pair{2, 2}}) {
    const Scratch scratch;
    write_model(scratch, model.at("config"), model.at("recipe"));
    write_to(scratch, {.tensor_parallel = ranks, .pipeline_parallel = stages}, "out");
    unshard(scratch.path("out"), scratch.path("joined"), {});
    CHECK(tensors_of(scratch.path("joined")) == tensors_of(scratch.path("model")));

    model::ModelSpec spec = model::read_model_folder(scratch.path("out")).spec;
    resolve_tied_head(scratch.path("out"), "", spec);
    REQUIRE(spec.head != spec.embedding);
    const ShardReader reader(scratch.path("out"), spec, {});
    CHECK(read(reader, spec.weight(spec.head)) != read(reader, spec.weight(spec.embedding)));
  }
}

TEST_CASE("a copy of the table as head stays one weight") {
  const Json model = find_case(kCopiedHead);
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  const Source source(scratch.path("model"));
  CHECK_FALSE(source.has_own_head());
  CHECK(source.spec().head == source.spec().embedding);
  write_to(scratch, {.pipeline_parallel = 2}, "out");
  model::ModelSpec spec = model::read_model_folder(scratch.path("out")).spec;
  resolve_tied_head(scratch.path("out"), "", spec);
  CHECK(spec.head == spec.embedding);
}

TEST_CASE("a head of the checkpoint's own is ignored for releases that did") {
  const Json model = find_case(kOwnHead);
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  CHECK(Source(scratch.path("model")).has_own_head());
  CHECK_FALSE(Source(scratch.path("model"), {.minor = 28}).has_own_head());
}

TEST_CASE("the engine computes with the head that the checkpoint has") {
  const Json model = find_case(kOwnHead);
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  model::ModelSpec spec = model::read_model_folder(scratch.path("model")).spec;
  REQUIRE(spec.head == spec.embedding);
  const auto checkpoint = checkpoint::Checkpoint::open(scratch.path("model"));
  checkpoint::resolve_tied_head(checkpoint, spec);
  REQUIRE(spec.head != spec.embedding);
  const checkpoint::WeightReader reader(checkpoint, spec);
  CHECK(read(reader, spec.weight(spec.head)) != read(reader, spec.weight(spec.embedding)));
}

TEST_CASE("biases that vLLM alone has are no part of what the engine computes") {
  Json model = find_case("mistral, attention biases");
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  CHECK(Source(scratch.path("model")).spec().layers.front().attention.out.bias == model::kNoWeight);

  Json& tensors = model.at("recipe").at("tensors");
  const auto bias = std::ranges::find_if(tensors, [](const Json& tensor) {
    return tensor.at("name").get<std::string>().ends_with("k_proj.bias");
  });
  tensors.erase(bias);
  write_model(scratch, model.at("config"), model.at("recipe"));
  CHECK_THROWS_WITH(Source(scratch.path("model")), Catch::Contains("self_attn.k_proj.bias"));
  const auto checkpoint = checkpoint::Checkpoint::open(scratch.path("model"));
  const model::ModelSpec spec = model::read_model_folder(scratch.path("model")).spec;
  CHECK_NOTHROW(checkpoint::WeightReader(checkpoint, spec));
}

TEST_CASE("a head that vLLM's class needs or has not is told of") {
  const auto without_head = [](Json model) {
    Json& tensors = model.at("recipe").at("tensors");
    tensors.erase(std::ranges::find_if(
        tensors, [](const Json& tensor) { return tensor.at("name") == "lm_head.weight"; }));
    return model;
  };
  const Json untying =
      without_head(find_case("gpt-oss, tied in config.json, with a head of its own"));
  const Scratch needs;
  write_model(needs, untying.at("config"), untying.at("recipe"));
  CHECK_THROWS_WITH(Source(needs.path("model")),
                    Catch::Contains("vLLM would leave it uninitialised"));

  const Json headless = find_case("cohere, with a head that vLLM has no place for");
  const Scratch scratch;
  write_model(scratch, headless.at("config"), headless.at("recipe"));
  write_to(scratch, {}, "out");
  const model::ModelSpec spec = model::read_model_folder(scratch.path("out")).spec;
  CHECK_THROWS_WITH(ShardReader(scratch.path("out"), spec, {}),
                    Catch::Contains("the shards hold no lm_head.weight"));
}

TEST_CASE("shards without a tensor that vLLM passes over are not read back") {
  struct Row {
    const char* name;
    const char* tensor;
  };
  const auto row =
      GENERATE(values<Row>({{"laguna, router biases that vLLM drops",
                             "model.layers.1.mlp.experts.e_score_correction_bias"},
                            {"qwen3, attention biases", "model.layers.0.self_attn.o_proj.bias"}}));
  INFO(row.name);
  const Json model = find_case(row.name);
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  CHECK(Source(scratch.path("model")).left_out().front() == row.tensor);
  write_to(scratch, {.tensor_parallel = 2}, "out");
  const model::ModelSpec spec = model::read_model_folder(scratch.path("out")).spec;
  const std::string why = fmt::format("the shards hold no {}", row.tensor);
  CHECK_THROWS_WITH(ShardReader(scratch.path("out"), spec, {}), Catch::Contains(why));
  CHECK_THROWS_WITH(unshard(scratch.path("out"), scratch.path("joined"), {}), Catch::Contains(why));
}

TEST_CASE("a router's biases that vLLM's class has no place for") {
  Json model = find_case("minimax m2, without biases of the choice");
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  const model::ModelSpec spec = model::read_model_folder(scratch.path("model")).spec;
  const model::WeightSpec& bias = spec.weight(spec.layers.front().mlp.router.choice_bias);
  const auto checkpoint = checkpoint::Checkpoint::open(scratch.path("model"));
  const checkpoint::WeightReader reader(checkpoint, spec);
  CHECK(read(reader, bias) == std::vector<float>{0, 0});
  CHECK(reader.stored_bytes(bias, 0, 2) == 0);

  model.at("recipe").at("tensors").push_back({{"name", bias.parts.front().tensor},
                                              {"shape", {2}},
                                              {"dtype", "F32"},
                                              {"mean", 1},
                                              {"amplitude", 0.5}});
  write_model(scratch, model.at("config"), model.at("recipe"));
  CHECK_THROWS_WITH(Source(scratch.path("model")), Catch::Contains("vLLM refuses it too"));
}

TEST_CASE("the engine reads experts that are stored as one tensor") {
  const Json model = find_case("qwen3-moe, experts in one tensor");
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  auto checkpoint = checkpoint::Checkpoint::open(scratch.path("model"));
  model::ModelSpec spec = model::read_model_folder(scratch.path("model")).spec;
  checkpoint::resolve_fused_experts(checkpoint, spec);
  const checkpoint::WeightReader reader(checkpoint, spec);
  const model::MlpSpec& mlp = spec.layers.front().mlp;
  for (const auto& [id, name] :
       {std::pair{mlp.up.weight, "gate_up_proj"}, std::pair{mlp.down.weight, "down_proj"}}) {
    const model::WeightSpec& weight = spec.weight(id);
    const auto* stored = checkpoint.find(std::string("model.layers.0.mlp.experts.") + name);
    REQUIRE(stored != nullptr);
    std::vector<float> expected(static_cast<size_t>(weight.elements()));
    convert(stored->data, stored->dtype, expected.data(), DType::f32, expected.size());
    CHECK(read(reader, weight) == expected);
  }
}

TEST_CASE("a mixture's stage without experts is refused, as vLLM refuses it") {
  const Json model = find_case("qwen3-moe, attention biases, one dense layer");
  const Scratch scratch;
  write_model(scratch, model.at("config"), model.at("recipe"));
  const Source source(scratch.path("model"));
  CHECK_THROWS_WITH(Job(source, {.pipeline_parallel = 2}),
                    Catch::Contains("stage 0 has 1 layers, none of which has experts"));
}

TEST_CASE("Gemma 2 has no head of its own in vLLM, and to 0.9.1 a factor of its embedding") {
  const Scratch scratch;
  const Json config = {{"architectures", {"Gemma2ForCausalLM"}},
                       {"model_type", "gemma2"},
                       {"hidden_size", 16},
                       {"intermediate_size", 16},
                       {"num_hidden_layers", 1},
                       {"num_attention_heads", 2},
                       {"num_key_value_heads", 1},
                       {"head_dim", 8},
                       {"vocab_size", 64}};
  Json tensors = Json::array();
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    tensors.push_back({{"name", name + ".weight"},
                       {"shape", shape},
                       {"dtype", "BF16"},
                       {"mean", 0},
                       {"amplitude", 1}});
  };
  add("lm_head", {64, 16});
  add("model.embed_tokens", {64, 16});
  add("model.norm", {16});
  const std::string layer = "model.layers.0.";
  for (const char* name : {"q_proj", "o_proj"}) add(layer + "self_attn." + name, {16, 16});
  for (const char* name : {"k_proj", "v_proj"}) add(layer + "self_attn." + name, {8, 16});
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    add(layer + "mlp." + name, {16, 16});
  }
  for (const char* name : {"input_layernorm", "post_attention_layernorm",
                           "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
    add(layer + name, {16});
  }
  write_model(scratch, config, {{"seed", 1}, {"tensors", tensors}});
  CHECK_THROWS_WITH(Source(scratch.path("model")), Catch::Contains("has no parameter"));
  tensors.erase(0);
  write_model(scratch, config, {{"seed", 1}, {"tensors", tensors}});
  for (const int64_t patch : {1, 2}) {
    const std::string out = "out" + std::to_string(patch);
    write_to(scratch, {.release = {.minor = 9, .patch = static_cast<int>(patch)}}, out);
    CHECK(tensors_of(scratch.path(out)).contains("model.normalizer") == (patch == 1));
  }
}

}  // namespace plimsoll::shard
