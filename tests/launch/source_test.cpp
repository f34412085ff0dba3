// Where the weights of a launch come from, and what a plan keeps of a large mixture.
#include "launch/model_source.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "batch/scratch.h"
#include "launch/draft_source.h"
#include "launch/resolve.h"
#include "model/config.h"
#include "model/tiny_config.h"
#include "reference/drawn_recipe.h"
#include "reference/recipe.h"
#include "shard/model_folder.h"
#include "shard/writer.h"

using namespace plimsoll;
using namespace plimsoll::launch;
using Catch::Contains;
using testing::weight_named;

namespace {

const std::string kFirstShard = "model-rank-0-part-0.safetensors";  // vLLM's own name

/// A folder of a tiny Llama with its checkpoint, and empty folders beside it.
struct Folders {
  test::Scratch scratch;
  Json config = testing::tiny_config("LlamaForCausalLM");
  model::ModelSpec spec = model::make_model_spec(config);

  std::filesystem::path with_weights() const { return with_weights_of(config, config); }
  /// The weights of a model in a folder with the config of another.
  std::filesystem::path with_weights_of(const Json& weights, const Json& model) const {
    const model::ModelSpec stored = model::make_model_spec(weights);
    std::filesystem::create_directories(scratch.path("recipe"));
    scratch.write("recipe/config.json", model.dump());
    scratch.write("recipe/recipe.json", testing::drawn_recipe(stored, DType::f32).dump());
    testing::write_checkpoint(scratch.path("recipe"), scratch.path("model"));
    return scratch.path("model");
  }
  std::filesystem::path with_file(const std::string& name) const {
    const std::string folder = "of " + name;
    std::filesystem::create_directories(scratch.path(folder));
    scratch.write(folder + "/" + name, "");
    return scratch.path(folder);
  }
  ModelSource source(const std::filesystem::path& folder, Weights weights) const {
    return {spec, config, {folder, weights}, Experts::all};
  }
};

}  // namespace

TEST_CASE("a folder holds weights by the names of its files") {
  const Folders folders;
  struct Row {
    std::string name;
    bool holds;
  };
  for (const Row& row :
       {Row{"model.safetensors", true}, Row{"model.safetensors.index.json", true},
        Row{"config.json", false}, Row{kFirstShard, false}, Row{"pytorch_model.bin", false}}) {
    INFO(row.name);
    CHECK(holds_weights(folders.with_file(row.name)) == row.holds);
  }
  CHECK(holds_weights(folders.with_file("model.gguf") / "model.gguf"));
}

TEST_CASE("weights are looked for as the launch says") {
  const Folders folders;
  const auto bare = folders.with_file("config.json"), sharded = folders.with_file(kFirstShard);
  const auto whole = folders.with_weights();
  struct Row {
    const char* name;
    std::filesystem::path folder;
    Weights weights;
    bool has;
  };
  for (const Row& row : {Row{"a checkpoint", whole, Weights::checkpoint, true},
                         Row{"a checkpoint that may be there", whole, Weights::if_present, true},
                         Row{"random weights", whole, Weights::none, false},
                         Row{"none that may be there", bare, Weights::if_present, false},
                         Row{"shards that were not asked for", sharded, Weights::if_present, false},
                         Row{"shards", sharded, Weights::sharded_state, true}}) {
    INFO(row.name);
    CHECK(folders.source(row.folder, row.weights).has_weights() == row.has);
  }
  CHECK_THROWS_AS(folders.source(bare, Weights::checkpoint), Error);
  CHECK_THROWS_WITH(folders.source(sharded, Weights::checkpoint),
                    Contains("holds shards; give --load-format sharded_state"));
}

TEST_CASE("weights are read where there are some") {
  const Folders folders;
  ModelSource loaded = folders.source(folders.with_weights(), Weights::checkpoint);
  const model::ModelSpec spec = loaded.spec({});
  CHECK(loaded.reader(spec, {}) != nullptr);
  ModelSource random = folders.source({}, Weights::none);
  CHECK(random.reader(random.spec({}), {}) == nullptr);
}

TEST_CASE("a source refuses biases that the config does not name, and flags of vLLM alone") {
  const Folders folders;
  const auto biased = folders.with_weights_of(
      testing::tiny_config("LlamaForCausalLM", {{"attention_bias", true}}), folders.config);
  CHECK_THROWS_WITH(folders.source(biased, Weights::checkpoint).spec({}),
                    Contains("has no such bias"));
  EngineArgs args;
  args.lora = true;
  CHECK_THROWS_WITH(folders.source({}, Weights::none).spec(args), Contains("--enable-lora"));
}

TEST_CASE("shards are a source with the head that they hold, under the names of their pattern") {
  const Folders folders;
  const Json tied = testing::tiny_config("LlamaForCausalLM", {{"tie_word_embeddings", true}});
  const shard::Source whole(folders.with_weights_of(folders.config, tied));
  for (const char* pattern : {"", "r{rank}.{part}.safetensors"}) {
    INFO(pattern);
    const std::string out = folders.scratch.path(std::string("out") + pattern);
    shard::write_shards(shard::Job(whole, {.file_pattern = pattern}), out,
                        {.tool_version = "test"});
    const ModelFolder shards{out, Weights::sharded_state, pattern};
    ModelSource source(model::make_model_spec(tied), tied, shards, Experts::all);
    const model::ModelSpec spec = source.spec({});
    CHECK(spec.head != spec.embedding);
    CHECK(source.reader(spec, {}) != nullptr);
  }
}

TEST_CASE("a draft's table may have as many rows more or less as padding has") {
  const test::Scratch scratch;
  const auto refusal = [&](int64_t own, int64_t large) -> std::string {
    scratch.write("draft.json",
                  testing::tiny_config("LlamaForCausalLM", {{"vocab_size", own}}).dump());
    const model::ModelSpec model =
        model::make_model_spec(testing::tiny_config("LlamaForCausalLM", {{"vocab_size", large}}));
    try {
      DraftSource(scratch.path("draft.json"), Weights::none).spec(model, DType::f32);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal(3024, 2000).empty());
  CHECK(refusal(2000, 3024).empty());
  CHECK_THAT(refusal(3025, 2000), Contains("it has 3025 tokens, the model 2000"));
  CHECK_THAT(refusal(2000, 3025), Contains("it has 2000 tokens, the model 3025"));
}

TEST_CASE("stages hold the layers that the launch divides them into") {
  const Json config = testing::tiny_config("LlamaForCausalLM", {{"num_hidden_layers", 6}});
  ModelSource source(model::make_model_spec(config), config, {}, Experts::all);
  Arguments arguments;
  arguments.args.pipeline_parallel = 3;
  const auto first_layers = [&] {
    const ResolvedLaunch launch = resolve(source, arguments, backend::cpu_footprint());
    std::vector<int64_t> first;
    for (const engine::StageView& view : launch.stage_views()) first.push_back(view.first_layer);
    return first;
  };
  CHECK(first_layers() == std::vector<int64_t>{0, 2, 4});
  arguments.args.pipeline_partition = {1, 4, 1};
  CHECK(first_layers() == std::vector<int64_t>{0, 1, 5});
}

TEST_CASE("a plan keeps the parts of a mixture's first expert, where the others are like it") {
  const Json config = testing::tiny_config("MixtralForCausalLM",
                                           {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  const model::ModelSpec whole = model::make_model_spec(config);
  const std::string stack = std::ranges::find_if(whole.weights, &model::WeightSpec::is_stack)->name;
  REQUIRE(weight_named(whole, stack).parts.size() == 8);  // gate and up of four experts
  using Change = std::function<void(model::Part&)>;
  const auto kept = [&](Experts experts, const Change& change) {
    model::ModelSpec spec = whole;
    for (model::WeightSpec& weight : spec.weights)
      if (weight.name == stack) change(weight.parts.back());
    ModelSource source(spec, config, {}, experts);
    const model::ModelSpec planned = source.spec({});
    const model::WeightSpec& weight = weight_named(planned, stack);
    CHECK(weight.parts_of_first == (weight.parts.size() == 2));
    CHECK(weight.parts_in_matrix() == 2);
    for (const model::WeightSpec& other : planned.weights)
      CHECK((other.is_stack() || !other.parts_of_first));
    return weight.parts.size();
  };
  const Change same = [](model::Part& part) { part.tensor = "another"; };
  CHECK(kept(Experts::first_alone, same) == 2);
  CHECK(kept(Experts::all, same) == 8);
  const Change changes[] = {[](model::Part& part) { ++part.block_rows; },
                            [](model::Part& part) { ++part.stored_shape.back(); },
                            [](model::Part& part) { part.transposed = true; },
                            [](model::Part& part) { part.every_rank = true; },
                            [](model::Part& part) { part.packing = model::Packing(); }};
  for (const Change& change : changes) CHECK(kept(Experts::first_alone, change) == 8);
}

TEST_CASE("launches of one source differ by their arguments alone") {
  const Json config = testing::tiny_config("MixtralForCausalLM",
                                           {{"num_local_experts", 4}, {"num_experts_per_tok", 2}});
  ModelSource source(model::make_model_spec(config), config, {}, Experts::all);
  const auto spec_with = [&](bool divided, bool whole, const char* quantization) {
    EngineArgs args;
    args.expert_parallel = divided;
    if (whole) args.quantized_activations = "off";
    args.quantization = quantization;
    return source.spec(args);
  };
  const auto is_packed = [](const model::ModelSpec& spec) {
    return std::ranges::any_of(spec.weights, &model::WeightSpec::is_packed);
  };
  const auto rounds_inputs = [](const model::ModelSpec& spec) {
    return std::ranges::any_of(spec.weights, [](const model::WeightSpec& weight) {
      return std::ranges::any_of(weight.parts, [](const model::Part& part) {
        return part.packing && part.packing->inputs != model::InputRounding::none;
      });
    });
  };
  for (const bool whole : {false, true}) {
    for (const bool divided : {true, false}) {
      INFO(divided << whole);
      CHECK(spec_with(divided, whole, "").whole_experts == divided);
      CHECK(is_packed(spec_with(divided, whole, "fp8")));
      CHECK(rounds_inputs(spec_with(divided, whole, "fp8")) == !whole);
      CHECK(!is_packed(spec_with(divided, whole, "")));
    }
  }
  model::ModelSpec stated = model::make_model_spec(config);
  stated.quantization = "awq";
  ModelSource quantized(stated, config, {}, Experts::all);
  CHECK_THROWS_WITH(quantized.spec({}), Contains("which run does not have"));
}
