// A model on several ranks answers with the bits that it answers with on one.
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/error.h"
#include "conformance/golden.h"
#include "conformance/rank_subject.h"
#include "engine/tiny_model.h"
#include "like_cases.h"
#include "model/vllm/classes.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

using engine::EngineOptions;
using testing::Answers;
using testing::RankSubject;

// True where only the widest cases run: one type, a few requests, and of splits those that the
// others are parts of.
const bool kWidestAlone = !testing::takes_all_cases();

std::vector<DType> types() {
  return kWidestAlone ? std::vector{DType::bf16} : std::vector{DType::f32, DType::bf16};
}

std::vector<fs::path> served_models(const char* set = "models") {
  std::vector<fs::path> served;
  for (const fs::path& recipe : testing::model_folders(set)) {
    if (testing::is_served(recipe)) served.push_back(recipe);
  }
  return served;
}

/// True unless vLLM's class fails to load several stages; of the models here no other class fails.
bool loads_stages(const model::ModelSpec& spec) {
  return model::loads_stages(spec.architecture, spec.embedding == spec.head);
}

/// Answers on 2 stages, on one for each layer, and of replicas are those of one rank.
void check_stages(RankSubject& subject, DType dtype) {
  const Answers expected = subject.answers({}, dtype);
  REQUIRE(expected.size() > (kWidestAlone ? 3 : 20));
  const auto layers =
      loads_stages(subject.spec()) ? static_cast<int64_t>(subject.spec().layers.size()) : 1;
  const int64_t replicas = kWidestAlone ? 2 : 1;
  for (const int64_t stages : {int64_t{2}, layers}) {
    if (stages > layers || stages < 2 || (kWidestAlone && stages < layers)) continue;
    INFO(stages << " stages, " << torch_name(dtype));
    CHECK(subject.answers({.stages = stages, .replicas = replicas}, dtype) == expected);
    if (layers == 2) break;
  }
  if (kWidestAlone) return;
  CHECK(subject.answers({.replicas = 3}, dtype) == expected);
  if (layers >= 2) CHECK(subject.answers({.stages = 2, .replicas = 2}, dtype) == expected);
}

bool rounds_inputs(const model::ModelSpec& spec) {
  const auto rounds = [](const model::Part& part) {
    return part.packing && part.packing->inputs != model::InputRounding::none;
  };
  return std::ranges::any_of(spec.weights, [&](const model::WeightSpec& weight) {
    return std::ranges::any_of(weight.parts, rounds);
  });
}

/// The numbers of ranks that share a model's layers; others are refused.
std::vector<int64_t> widths_of(const model::ModelSpec& spec) {
  std::vector<int64_t> widths;
  for (const int64_t tensor : {2, 4, 8}) {
    const std::string refusal = shard::tensor_refusal(spec, tensor);
    if (refusal.empty()) {
      widths.push_back(tensor);
    } else {
      CHECK_THROWS_WITH(shard::stage_models(spec, {.tensor_parallel = tensor}), refusal);
    }
  }
  return widths;
}

/// Prints and returns the widths of the model.
std::vector<int64_t> print_widths(const fs::path& recipe, const RankSubject& subject) {
  const std::vector<int64_t> widths = widths_of(subject.spec());
  fmt::print("{:<28} {}\n", recipe.filename().string(),
             widths.empty() ? shard::tensor_refusal(subject.spec(), 2)
                            : fmt::format("on {} ranks", fmt::join(widths, ", ")));
  return widths;
}

/// True when a model has stages: not where vLLM has none, or where a stage would need another's
/// weights.
bool has_stages(const model::ModelSpec& spec) {
  try {
    return shard::stage_models(spec, {.pipeline_parallel = 2}).size() == 2;
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return false;
  }
}

/// Answers on ranks that share layers, of stages and replicas too, are those of one rank.
void check_shares(RankSubject& subject, const std::vector<int64_t>& widths, DType dtype) {
  const Answers expected = subject.answers({}, dtype);
  for (const int64_t tensor : widths) {
    if (kWidestAlone && tensor < widths.back()) continue;
    INFO(tensor << " ranks, " << torch_name(dtype));
    CHECK(subject.answers({.tensor = tensor}, dtype) == expected);
  }
  if (subject.spec().layers.size() < 2 || !loads_stages(subject.spec())) return;
  const int64_t replicas = dtype == DType::f32 ? 1 : 2;
  CHECK(subject.answers({.tensor = widths.front(), .stages = 2, .replicas = replicas}, dtype) ==
        expected);
}

}  // namespace

TEST_CASE("stages answer with the bits of one rank") {
  for (const fs::path& recipe : served_models()) {
    INFO("model " << recipe.filename());
    RankSubject subject(recipe);
    for (const DType dtype : types()) check_stages(subject, dtype);
  }
}

TEST_CASE("stages answer with the bits of one rank where sequences give their blocks back") {
  size_t number = 0;
  for (const char* model : {"llama", "gemma2", "qwen3_5"}) {
    if (!testing::is_taken(number++, 3)) continue;
    INFO(model);
    RankSubject subject(testing::TinyModel::recipe(model));
    subject.ask_all();  // fewer would not
    const Answers expected = subject.answers({}, DType::f32);
    const auto layers = static_cast<int64_t>(subject.spec().layers.size());
    for (const int64_t stages : {int64_t{1}, int64_t{2}, layers}) {
      CHECK(subject.answers({.stages = stages}, DType::f32, 24) == expected);
      CHECK(subject.preemptions() > 0);
    }
  }
}

TEST_CASE("each stage has a step of its own as long as there is work") {
  testing::TinyModel tiny("llama");
  const auto checkpoint = checkpoint::Checkpoint::open(tiny.folder());
  const checkpoint::WeightReader whole(checkpoint, tiny.spec());
  const testing::RankParts parts(tiny.spec(), whole, {.stages = 2}, DType::f32);
  engine::Engine engine(tiny.spec(), parts.ranks(), nullptr,
                        testing::options_with(8, 64, 100, DType::f32));
  const auto rounds_of = [&](int requests) {
    for (int i = 0; i < requests; ++i) {
      engine::Request request;
      request.prompt = {1, 2, 3};
      request.sampling.max_tokens = 20;
      request.sampling.ignore_eos = true;
      engine.add(std::move(request));
    }
    std::vector<engine::RequestOutput> finished;
    int rounds = 0;
    for (; !engine.idle(); ++rounds) engine.step(finished);
    CHECK(std::ssize(finished) == requests);
    return rounds;
  };
  CHECK(rounds_of(1) == 2 * 20);
  CHECK(engine.stats().steps == 20);
  // One round for the prompts, which enter together; one more to empty the pipeline.
  CHECK(rounds_of(6) == 2 * 20 + 1);
  CHECK(engine.stats().steps == 20 + 1 + 2 * 19);
}

TEST_CASE("stages of a model whose layers choose keys answer with the bits of one rank") {
  RankSubject subject(testing::TinyModel::recipe("glm_moe_dsa"));
  for (const DType dtype : types()) check_stages(subject, dtype);
}

TEST_CASE("no stage begins with a layer that sees what the one before chose") {
  Json config = model::read_config(testing::TinyModel::recipe("glm_moe_dsa"));
  config["indexer_types"] = {"full", "full", "shared"};
  const model::ModelSpec spec = model::make_model_spec(config);
  CHECK_THROWS_WITH(shard::stage_models(spec, {.pipeline_parallel = 3}),
                    Catch::Contains("begin with layer 2, which attends to the keys"));
  CHECK(shard::stage_models(spec, {.pipeline_parallel = 2, .pipeline_partition = {1, 2}}).size() ==
        2);
}

TEST_CASE("ranks that share layers answer with the bits of one rank") {
  int models = 0;
  for (const fs::path& recipe : served_models()) {
    INFO("model " << recipe.filename());
    RankSubject subject(recipe);
    const std::vector<int64_t> widths = print_widths(recipe, subject);
    if (widths.empty()) continue;
    ++models;
    for (const DType dtype : types()) check_shares(subject, widths, dtype);
  }
  CHECK(models > 1);
}

TEST_CASE("ranks answer with the bits of one rank, whatever the mechanisms of the layers") {
  size_t number = 0;
  for (const fs::path& recipe : served_models("more_models")) {
    INFO("model " << recipe.filename());
    RankSubject subject(recipe);
    const std::vector<int64_t> widths = print_widths(recipe, subject);
    REQUIRE_FALSE(widths.empty());
    // Types take turns, as all that differs between them is how weights are read and multiplied.
    const DType dtype = number++ % 2 == 0 ? DType::f32 : DType::bf16;
    const Answers expected = subject.answers({}, dtype);
    CHECK(subject.answers({.tensor = widths.front()}, dtype) == expected);
    const int64_t stages = has_stages(subject.spec()) ? 2 : 1;
    if (stages == 1 && widths.size() == 1) continue;
    CHECK(subject.answers({.tensor = widths.back(), .stages = stages}, dtype) == expected);
  }
}

TEST_CASE("stages of quantized models answer with the bits of one rank") {
  for (const fs::path& recipe : served_models("quantized")) {
    INFO("model " << recipe.filename());
    RankSubject subject(recipe);
    check_stages(subject, DType::bf16);
  }
}

TEST_CASE("ranks that share quantized layers answer with the bits of one rank") {
  int models = 0;
  bool rounds = false;
  for (const fs::path& recipe : testing::model_folders("quantized")) {
    for (const auto activations :
         {quantization::Activations::rounded, quantization::Activations::whole}) {
      INFO("model " << recipe.filename());
      RankSubject subject(recipe, activations);
      const bool rounded = activations == quantization::Activations::rounded;
      rounds = rounded ? rounds_inputs(subject.spec()) : rounds;
      if (!rounded && !rounds) continue;  // the same once more
      const std::vector<int64_t> widths = print_widths(recipe, subject);
      if (widths.empty()) continue;
      ++models;
      const Answers expected = subject.answers({}, DType::f32);
      CHECK(subject.answers({.tensor = widths.back()}, DType::f32) == expected);
      if (widths.size() > 1 && rounded) {
        CHECK(subject.answers({.tensor = 2, .stages = 2}, DType::f32) == expected);
      }
    }
  }
  CHECK(models > 1);
}

TEST_CASE("ranks that have experts each answer with the bits of one rank") {
  int models = 0;
  for (const char* set : {"models", "more_models", "quantized"}) {
    for (const fs::path& recipe : served_models(set)) {
      RankSubject subject(recipe);
      model::ModelSpec spec = subject.spec();
      if (std::ranges::none_of(spec.layers, &model::LayerSpec::has_experts)) continue;
      INFO("model " << recipe.filename());
      spec.whole_experts = true;
      const std::vector<int64_t> widths = widths_of(spec);
      if (widths.empty()) continue;
      const DType dtype = models++ % 2 == 0 ? DType::f32 : DType::bf16;
      fmt::print("{:<28} experts on {} ranks\n", recipe.filename().string(),
                 fmt::join(widths, ", "));
      const Answers expected = subject.answers({}, dtype);
      CHECK(subject.answers({.tensor = widths.back(), .whole_experts = true}, dtype) == expected);
    }
  }
  CHECK(models > 1);
}

TEST_CASE("a rank reads the experts that it has and no others") {
  RankSubject subject(testing::TinyModel::recipe("qwen3_moe"));
  (void)subject.answers({.tensor = 2}, DType::f32);
  const std::vector<uint64_t> shares = subject.read();
  (void)subject.answers({.tensor = 2, .whole_experts = true}, DType::f32);
  CHECK(subject.read() == shares);
}

TEST_CASE("ranks share weights that are quantized while they are read") {
  RankSubject subject(testing::TinyModel::recipe("qwen3_moe"));
  subject.quantize("fp8");
  const Answers expected = subject.answers({}, DType::bf16);
  CHECK(subject.answers({.tensor = 2}, DType::bf16) == expected);
}

TEST_CASE("each rank reads its own weights, and together they read the checkpoint once") {
  RankSubject subject(testing::TinyModel::recipe("llama"));
  (void)subject.answers({}, DType::bf16);
  const uint64_t whole = subject.read().at(0);
  (void)subject.answers({.stages = 2}, DType::bf16);
  CHECK(subject.read().at(0) + subject.read().at(1) == whole);
  CHECK(subject.read().at(0) < whole * 6 / 10);
  (void)subject.answers({.replicas = 2}, DType::bf16);
  CHECK(subject.read() == std::vector<uint64_t>{whole, 0});
  // A tied table is both the first stage's and the last one's.
  RankSubject tied(testing::TinyModel::recipe("llama3_tied"));
  (void)tied.answers({}, DType::bf16);
  const uint64_t once = tied.read().at(0);
  (void)tied.answers({.stages = 2}, DType::bf16);
  CHECK(tied.read().at(0) + tied.read().at(1) ==
        once + tied.bytes_of(tied.spec().weight(tied.spec().embedding).name));
}

TEST_CASE("ranks that share layers read their shares, and together the checkpoint once") {
  RankSubject subject(testing::TinyModel::recipe("llama"));
  (void)subject.answers({}, DType::bf16);
  const uint64_t whole = subject.read().at(0);
  uint64_t replicated = 0;
  for (const model::WeightSpec& weight : subject.spec().weights) {
    if (weight.split == model::Split::replicated) replicated += subject.bytes_of(weight.name);
  }
  REQUIRE(replicated > 0);
  (void)subject.answers({.tensor = 2}, DType::bf16);
  CHECK(subject.read().at(0) + subject.read().at(1) == whole + replicated);
}

TEST_CASE("ranks that share quantized layers read their shares alone") {
  const std::vector<fs::path> recipes = testing::model_folders("quantized");
  const auto recipe = std::ranges::find_if(recipes, [](const fs::path& folder) {
    return shard::tensor_refusal(RankSubject(folder).spec(), 2).empty();
  });
  REQUIRE(recipe != recipes.end());
  RankSubject subject(*recipe);
  (void)subject.answers({}, DType::bf16);
  const uint64_t whole = subject.read().at(0);
  uint64_t replicated = 0;
  for (const model::WeightSpec& weight : subject.spec().weights) {
    if (weight.split == model::Split::replicated) replicated += subject.bytes_of(weight.name);
  }
  (void)subject.answers({.tensor = 2}, DType::bf16);
  CHECK(subject.read().at(0) + subject.read().at(1) == whole + replicated);
}

TEST_CASE("a rank that fails while it loads ends the launch with its message") {
  class Torn final : public checkpoint::WeightSource {
   public:
    void read_rows(const model::WeightSpec& weight, int64_t, int64_t, DType, void*) const override {
      fail(ExitCode::checkpoint_unusable, "\"{}\" is torn", weight.name);
    }
  };
  testing::TinyModel tiny("llama");
  const auto stages = shard::stage_models(tiny.spec(), {.pipeline_parallel = 2});
  const auto checkpoint = checkpoint::Checkpoint::open(tiny.folder());
  const checkpoint::WeightReader whole(checkpoint, tiny.spec());
  const Torn torn;
  const auto first = testing::cpu_backend(), second = testing::cpu_backend();
  const std::vector<engine::Rank> ranks = {{&stages[0].spec, 0, first.get(), &whole},
                                           {&stages[1].spec, 1, second.get(), &torn}};
  const EngineOptions options = testing::options_with(4, 64, 40, DType::f32);
  CHECK_THROWS_WITH(engine::Engine(tiny.spec(), ranks, nullptr, options),
                    Catch::StartsWith("rank 1 of 2: \"model.layers.1."));
}

}  // namespace plimsoll
