// Speculation by a draft model: what it proposes, what is kept, and that no answer changes.
#include "engine/speculation/drafter.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "engine/mixed_requests.h"
#include "engine/speculation/speculation.h"
#include "engine/tiny_model.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::greedy;
using testing::options_with;
using testing::print_all;
using testing::run_all;
using testing::TinyModel;

namespace {

/// A model's description with another number of layers and, where `changes` says so, other values.
model::ModelSpec with_layers(const TinyModel& model, int64_t layers, const Json& changes = {}) {
  Json config = model::read_config(model.folder());
  config["num_hidden_layers"] = layers;
  if (config.contains("layer_types")) {
    const Json types = config["layer_types"];
    config["layer_types"].clear();
    for (int64_t i = 0; i < layers; ++i) config["layer_types"].push_back(types[i % types.size()]);
  }
  if (!changes.is_null()) config.update(changes);
  return model::make_model_spec(config);
}

/// The weights of a checkpoint's first layer for all models with_layers(): every further layer adds
/// zeros, so that all of them give the same logits. Tokens and rows that the checkpoint does not
/// have are zeros, too.
class FirstLayer : public checkpoint::WeightSource {
 public:
  explicit FirstLayer(const TinyModel& model) : model_(model), reader_(model.reader()) {}

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    const size_t at = weight.name.find(".layers.");
    const bool is_further = at != std::string::npos && weight.name[at + 8] != '0';
    const int64_t there = is_further || weight.use == model::WeightUse::vector
                              ? count
                              : std::clamp<int64_t>(model_.spec().vocab_size - first, 0, count);
    const size_t row = static_cast<size_t>(weight.columns()) * dtype_size(dtype);
    std::memset(to, 0, static_cast<size_t>(count) * row);
    if (!is_further && there > 0) reader_.read_rows(weight, first, there, dtype, to);
  }

 private:
  const TinyModel& model_;
  checkpoint::WeightReader reader_;
};

/// A model of twelve layers that a model of its first layer proposes for.
class Pair {
 public:
  explicit Pair(const std::string& name, const Json& draft_changes = {})
      : tiny_(name),
        spec_(with_layers(tiny_, 12)),
        draft_(with_layers(tiny_, 1, draft_changes)),
        weights_(tiny_) {}

  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }
  [[nodiscard]] EngineOptions drafting(EngineOptions options, int64_t tokens = 4) const {
    options.draft = DraftModel{&draft_, &weights_, tokens};
    return options;
  }
  std::unique_ptr<Engine> engine(const EngineOptions& options) {
    return std::make_unique<Engine>(spec_, weights_, *backend_, nullptr, options);
  }
  backend::Backend& backend() { return *backend_; }
  [[nodiscard]] const checkpoint::WeightSource& weights() const { return weights_; }
  std::map<uint64_t, std::string> answers(const EngineOptions& options,
                                          const std::vector<Request>& requests,
                                          EngineStats& stats) {
    const auto engine = this->engine(options);
    auto answers = print_all(run_all(*engine, requests));
    stats = engine->stats();
    return answers;
  }

 private:
  TinyModel tiny_;
  model::ModelSpec spec_;
  model::ModelSpec draft_;
  FirstLayer weights_;
  std::unique_ptr<backend::Backend> backend_ = testing::cpu_backend();
};

/// A drafter by itself, whose pool has `blocks` blocks.
struct Direct {
  Direct(Pair& pair, int64_t blocks, int64_t step_tokens = 64, int64_t longest = 176)
      : layout(resolve_layout(pair.spec(), options_of(pair, blocks, step_tokens, longest),
                              pair.backend().footprint())),
        memory(plan_layout(pair.spec(), layout, pair.backend().footprint()), pair.backend()),
        launch(pair.spec(), layout, pair.backend(), memory.device()),
        drafter(pair.spec(), launch, layout, pair.backend()) {
    launch.draft->model.load(pair.weights());
  }

  static EngineOptions options_of(const Pair& pair, int64_t blocks, int64_t step_tokens,
                                  int64_t longest) {
    EngineOptions options = options_with(2, step_tokens, blocks, DType::f32);
    options.max_model_len = longest;
    return pair.drafting(options);
  }

  EngineLayout layout;
  LaunchMemory memory;
  Launch launch;
  Drafter drafter;
};

/// A sequence with its first token.
Sequence begun(uint64_t serial, std::span<const TokenId> prompt) {
  Sequence sequence;
  sequence.serial = serial;
  sequence.prompt = prompt;
  sequence.output = {5};
  sequence.max_length = 1000;
  return sequence;
}

}  // namespace

TEST_CASE("a draft model that is always right saves most steps, and changes no token") {
  Pair pair("llama");
  const EngineOptions options = options_with(4, 64, 200, DType::f32);
  std::vector<TokenId> long_prompt(100, 7);
  const std::vector<Request> requests = {greedy(0, {5, 6, 7}, 60), greedy(1, long_prompt, 61)};
  EngineStats plain, fast;
  const auto expected = pair.answers(options, requests, plain);
  CHECK(pair.answers(pair.drafting(options), requests, fast) == expected);
  CHECK(plain.drafted_tokens == 0);
  CHECK(fast.generated_tokens == 121);
  CHECK(fast.drafted_tokens > 60);
  CHECK(fast.kept_tokens == fast.drafted_tokens);
  CHECK(2 * fast.steps < plain.steps);
  CHECK(fast.preemptions == 0);
}

TEST_CASE("what a draft model proposes changes no bit of any kind of request") {
  const auto name =
      GENERATE(from_range(testing::names_taken({"llama", "mistral_swa", "gemma2"}, 3)));
  Pair pair(name);
  const std::vector<Request> requests = testing::mixed_requests(pair.spec().vocab_size);
  const EngineOptions options = options_with(2, 64, 1000, DType::f32);
  EngineStats plain, fast;
  const auto expected = pair.answers(options, requests, plain);
  CHECK(pair.answers(pair.drafting(options), requests, fast) == expected);
  INFO(name << ": " << fast.drafted_tokens << " drafted, " << fast.kept_tokens << " kept");
  CHECK(fast.kept_tokens > 20);
  // Logits of this gemma2 lie so far apart that sampled tokens are the greedy ones.
  if (name != "gemma2") CHECK(fast.drafted_tokens > fast.kept_tokens + 20);
}

TEST_CASE("a draft model with fewer tokens or a shorter context proposes as far as it reaches") {
  std::vector<Request> requests = {greedy(0, {5, 6, 7}, 60), greedy(1, {1000, 7}, 60)};
  for (Request& request : requests) request.sampling.allowed_token_ids = {11, 42};
  const EngineOptions options = options_with(4, 64, 200, DType::f32);
  const auto drafted = [&](const Json& changes) {
    Pair pair("llama", changes);
    EngineStats plain, fast;
    const auto expected = pair.answers(options, requests, plain);
    CHECK(pair.answers(pair.drafting(options), requests, fast) == expected);
    return fast.drafted_tokens;
  };
  const uint64_t both = drafted({});
  CHECK(both > 0);
  const uint64_t one = drafted({{"vocab_size", 900}});  // it does not know the token 1000
  CHECK(one > 0);
  CHECK(one < both);
  const uint64_t beginning = drafted({{"max_position_embeddings", 20}});
  CHECK(beginning > 0);
  CHECK(beginning < both);
}

TEST_CASE("the draft model's memory is planned and taken, and its cache follows the large one's") {
  Pair pair("llama");
  EngineOptions options = options_with(4, 64, 200, DType::f32);
  const auto engine = pair.engine(pair.drafting(options));
  size_t weights = 0, blocks = 0;
  for (const MeasuredRegion& region : engine->measured()) {
    CHECK(region.placed_bytes == region.planned_bytes);
    if (region.name == "draft weights") weights = region.placed_bytes;
    if (region.name == "draft kv blocks") blocks = region.placed_bytes;
  }
  CHECK(weights > 0);
  CHECK(blocks == 200 * engine->plan().kv_block_bytes / 12);  // of one layer
  // A pool of bytes is shared: of 13 layers' blocks one is the draft's.
  options.num_kv_blocks.reset();
  options.kv_cache_bytes = 10 * 13 * (engine->plan().kv_block_bytes / 12);
  options.max_model_len = 64;
  const auto shared = pair.engine(pair.drafting(options));
  CHECK(shared->plan().num_kv_blocks == 10);
  CHECK(pair.engine(options)->plan().num_kv_blocks == 10 * 13 / 12);
  // Where not one sequence fits, what would is said with the draft's share.
  options.kv_cache_bytes = 3 * 13 * (engine->plan().kv_block_bytes / 12);
  CHECK_THROWS_WITH(pair.engine(pair.drafting(options)),
                    Catch::Contains("the pool of") && Catch::Contains("holds 3 blocks"));
}

TEST_CASE("copies hold blocks until they are forgotten, and give way to sequences that decode") {
  Pair pair("llama");
  Direct direct(pair, 4, 64, 64);
  Drafter& drafter = direct.drafter;
  const std::vector<TokenId> prompt(40, 7), unlike(40, 8);  // which share no blocks
  Sequence a = begun(1, prompt), b = begun(2, unlike);
  drafter.propose(std::array{&a});
  CHECK(a.draft.size() == 4);
  CHECK(drafter.blocks_used() == 3);  // of 41 tokens and three of the draft
  a.draft.clear();
  drafter.propose(std::array{&a, &b});  // there is room for one
  CHECK(!a.draft.empty());
  CHECK(b.draft.empty());
  a.draft.clear();
  drafter.propose(std::array{&b});
  CHECK(b.draft.size() == 4);
  CHECK(drafter.blocks_used() == 3);
  drafter.forget(a);
  CHECK(drafter.blocks_used() == 3);
  drafter.forget(b);
  CHECK(drafter.blocks_used() == 0);
}

TEST_CASE("a copy that has proposed other tokens than came goes on as a new one would") {
  Pair pair("llama");
  Direct direct(pair, 64), fresh(pair, 64);
  std::vector<TokenId> prompt = {5, 6, 7};
  for (uint64_t serial = 0; serial < 8; ++serial) {
    prompt[0] = static_cast<TokenId>(5 + serial);
    Sequence sequence = begun(serial, prompt);
    direct.drafter.propose(std::array{&sequence});
    REQUIRE(sequence.draft.size() == 4);
    const TokenId other = (sequence.draft[1] + 1) % 1000;
    for (const TokenId token : {sequence.draft[0], other, 9, 11, 9})
      sequence.output.push_back(token);
    sequence.draft.clear();
    Sequence same = sequence;
    direct.drafter.propose(std::array{&sequence});
    fresh.drafter.propose(std::array{&same});
    CHECK(sequence.draft == same.draft);
  }
}

TEST_CASE("a draft model with a window drafts behind prompts that its pool never holds at once") {
  Pair pair("mistral_swa");
  Direct direct(pair, 6, 32);
  std::vector<TokenId> prompt(150, 7);
  Sequence sequence = begun(1, prompt);
  direct.drafter.propose(std::array{&sequence});
  CHECK(sequence.draft.size() == 4);
}

TEST_CASE("a draft is as long as it pays, the draft model's own time counted") {
  CHECK(worthwhile_length(1, 8, 1) == 8);
  CHECK(worthwhile_length(1, 8, 1, 0.1) == 8);
  CHECK(worthwhile_length(0.5, 8, 1) == 2);       // 1 in 7 must be kept
  CHECK(worthwhile_length(0.5, 8, 1, 0.2) == 1);  // 1 in 7 and 1 in 5
  CHECK(worthwhile_length(0.5, 8, 1, 0.4) == 0);
  CHECK(worthwhile_length(0.9, 8, 32, 0.1) == 0);  // 32 in 38 and 1 in 10
  CHECK(worthwhile_length(1, 8, 1, 1) == 0);       // as slow as the model itself
}
