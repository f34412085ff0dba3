// What a plan for vLLM says in words, and the figures of a stage that stand beside it.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/json.h"
#include "launches.h"
#include "vllm/launch/draft.h"
#include "vllm/launch/host.h"
#include "vllm/launch/length.h"
#include "vllm/launch/messages.h"
#include "vllm/launch/prefixes.h"
#include "vllm/launch/runner.h"
#include "vllm/launch/served.h"
#include "vllm/launch/stage_launch.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::at;
using testing::tiny_llama;

namespace {

bool notes_tower(const ModelShape& shape, const EngineArgs& args = {}) {
  Stage stage;
  stage.shape = shape;
  for (const std::string& note : launch_notes(stage, {}, args)) {
    if (note.find("encoder's own memory is not modelled") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a draft's method follows its model's name where none is stated") {
  struct Row {
    const char* model;
    const char* method;
  };
  for (const Row& row :
       {Row{"yuhuili/EAGLE-LLaMA3-Instruct-8B", "(eagle)"},
        Row{"yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "(eagle3)"},
        Row{"some/llama-1b", "(draft_model)"}, Row{"some/eagle", "(draft_model)"}}) {
    INFO(row.model);
    EngineArgs args;
    args.draft_method = "draft_model";
    args.draft_model = row.model;
    const Json config = tiny_llama();
    CHECK_THAT(draft_note({config, "config.json"}, args),
               Catch::StartsWith("not counted:") && Catch::Contains(row.method));
  }
}

TEST_CASE("a head of EAGLE is counted where its config is one, of a family that is known") {
  const Json config = tiny_llama();
  const auto counted = [&](const char* method, const Json& draft) {
    EngineArgs args;
    args.draft_method = method;
    args.draft_config = std::make_shared<const Json>(draft);
    return counts_draft({config, "config.json"}, args);
  };
  Json head = tiny_llama();
  head["hidden_size"] = 512;
  Json other = tiny_llama();
  other["architectures"] = {"WombatForCausalLM"};
  other["model_type"] = "wombat";
  CHECK(counted("eagle", head));
  CHECK_FALSE(counted("eagle", other));
  CHECK_FALSE(counted("eagle3", other));
  CHECK_FALSE(counted("medusa", head));
  CHECK(counted("draft_model", tiny_llama()));
  CHECK_FALSE(counted("draft_model", other));
}

TEST_CASE("the refusal of a draft model names the other methods of the release") {
  const Json config = tiny_llama();
  const ConfigView view(config, "config.json");
  for (const auto& [version, name] : {std::pair{VllmVersion{0, 10, 0}, ", or deepseek_mtp."},
                                      {{0, 10, 9}, ", or deepseek_mtp."},
                                      {{0, 11, 0}, ", or mtp."},
                                      {{0, 14, 9}, ", or mtp."}}) {
    INFO(version_text(version));
    EngineArgs args = at(version);
    args.draft_method = "draft_model";
    args.draft_model = "small";
    args.draft_config = std::make_shared<const Json>(tiny_llama());
    Stage stage;
    CHECK_THROWS_WITH(add_draft(stage, args, {}, {view, {}, 4096}), Catch::Contains(name));
  }
}

TEST_CASE("an estimate of a length is told from 0.8.4 on, and its number from 0.9.1 on") {
  const auto told = [](VllmVersion version, int64_t estimate) {
    return too_long_message(at(version), 8192, 2 * kGiB, kGiB, estimate);
  };
  CHECK_THAT(told({0, 8, 3}, 4096), Catch::Contains("(1.00 GB). Try increasing"));
  for (const VllmVersion version : {VllmVersion{0, 8, 4}, {0, 9, 0}}) {
    CHECK_THAT(told(version, 4096),
               Catch::Contains("(1.00 GiB). Based on the available memory,  Try increasing"));
    CHECK_THAT(told(version, 0), Catch::Contains("(1.00 GiB).  Try increasing"));
  }
  CHECK_THAT(told({0, 9, 1}, 4096),
             Catch::Contains("the estimated maximum model length is 4096. Try increasing"));
  CHECK_THAT(told({0, 9, 1}, 0), Catch::Contains("(1.00 GiB).  Try increasing"));
  CHECK_THAT(told({0, 14, 0}, 0), Catch::Contains("(1.0 GiB). Try increasing"));
}

TEST_CASE("a development build and a tower whose memory is not modelled are noted") {
  EngineArgs args = at({0, 20, 0});
  args.development_build = "0.20.1.dev7";
  const std::vector<std::string> notes = launch_notes({}, {}, args);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "vLLM 0.20.1.dev7 is a development build: planned as 0.20.0, the nearest older release");
  ModelShape shape;
  CHECK_FALSE(notes_tower(shape));
  shape.multimodal = true;
  CHECK(notes_tower(shape));
  args.limits["image"] = {};
  CHECK_FALSE(notes_tower(shape, args));
  shape.vision.kind = VisionShape::Kind::tiles;
  CHECK_FALSE(notes_tower(shape));
  shape.sound.tower.hidden = 1280;  // weights for sound, and no size of a clip
  CHECK(notes_tower(shape));
  CHECK(notes_tower(shape, args));
  shape.sound.tokens = 1500;
  CHECK_FALSE(notes_tower(shape));
  shape.vision.kind = VisionShape::Kind::none;
  CHECK_FALSE(notes_tower(shape));
  shape.vision.kind = VisionShape::Kind::other;
  CHECK(notes_tower(shape, args));
}

TEST_CASE("prefixes of recurrent models are cached from 0.28 on, where they have attention") {
  const auto on = [](VllmVersion version, bool attention, std::optional<bool> asked = {}) {
    ModelShape shape;
    shape.architecture = "WombatForCausalLM";  // of no release
    shape.recurrent = true;
    shape.attention_free = !attention;
    EngineArgs args = at(version);
    args.prefix_caching = asked;
    const PrefixCaching caching = resolve_prefixes(args, shape);
    CHECK((caching.states.mode == StateMode::none) == !caching.on);
    return caching.on;
  };
  CHECK_FALSE(on({0, 27, 9}, true));
  CHECK(on({0, 28, 0}, true));
  CHECK_FALSE(on({0, 28, 0}, false));
  CHECK(on({0, 28, 0}, false, true));
  CHECK_FALSE(on({0, 28, 0}, true, false));
  CHECK(on({0, 15, 0}, true, true));
  CHECK_FALSE(on({0, 14, 9}, true, true));
  for (bool ModelShape::*lacking :
       {&ModelShape::attention_free, &ModelShape::encoder_decoder, &ModelShape::encoder}) {
    ModelShape shape;
    CHECK(resolve_prefixes(at({0, 33, 0}), shape).on);
    shape.*lacking = true;
    CHECK_FALSE(resolve_prefixes(at({0, 33, 0}), shape).on);
  }
}

TEST_CASE("modes of recurrent caches are those of the release") {
  const auto check = [](VllmVersion version, const char* mode) {
    EngineArgs args = at(version);
    args.state_mode = mode;
    check_state_flags(args);
  };
  for (const char* mode : {"all", "align", "none"}) CHECK_NOTHROW(check({0, 31, 9}, mode));
  for (const char* mode : {"align", "none"}) CHECK_NOTHROW(check({0, 32, 0}, mode));
  CHECK_THROWS_WITH(check({0, 32, 0}, "all"), Catch::Contains("(choose from 'align', 'none')"));
  CHECK_THROWS_WITH(check({0, 31, 9}, "some"),
                    Catch::Contains("(choose from 'align', 'all', 'none')"));
  ModelShape shape;
  shape.recurrent = true;
  PrefixCaching caching;
  caching.states.mode = StateMode::align;
  const auto whole_prompts = [&](VllmVersion version) {
    EngineArgs args = at(version);
    args.chunked_prefill = false;
    check_prefixes(args, shape, caching, 4096);
  };
  CHECK_THROWS_WITH(whole_prompts({0, 31, 9}), Catch::Contains("for mamba cache mode 'align'."));
  CHECK_THROWS_WITH(whole_prompts({0, 32, 0}), Catch::Contains("for Mamba prefix caching."));
}

TEST_CASE("positions that their config has stretched are not stretched again") {
  Json config = {{"max_position_embeddings", 131072}};
  const auto most = [&](const char* type, VllmVersion version = {0, 33, 0}) {
    config["rope_scaling"] = {{"rope_type", type}, {"factor", 4.0}};
    return model_length({config, "config.json"}, version).most;
  };
  for (const char* type : {"llama3", "deepseek_llama_scaling", "longrope"}) {
    INFO(type);
    CHECK(most(type) == 131072);
  }
  CHECK(most("linear") == 4 * 131072);
  // By layer type: longrope in one of them is longrope, whatever stands behind it.
  config = {{"max_position_embeddings", 131072}, {"original_max_position_embeddings", 4096}};
  config["rope_scaling"] = {{"a", {{"rope_type", "longrope"}}}, {"b", {{"rope_type", "default"}}}};
  CHECK(model_length({config, "config.json"}, {0, 11, 1}).usual == 4096);
  CHECK(model_length({config, "config.json"}, {0, 11, 0}).usual == 131072);
}

TEST_CASE("tasks of older releases are the runner and the conversion of newer ones") {
  using Flags = std::vector<std::pair<std::string, std::string>>;
  CHECK(flags_of_task("auto").empty());
  for (const char* task : {"generate", "transcription", "draft"})
    CHECK(flags_of_task(task) == Flags{{"--runner", "generate"}});
  for (const char* task : {"classify", "score"})
    CHECK(flags_of_task(task) == Flags{{"--runner", "pooling"}, {"--convert", "classify"}});
  for (const char* task : {"embed", "embedding", "reward"})
    CHECK(flags_of_task(task) == Flags{{"--runner", "pooling"}});
}

TEST_CASE("a task decides what a class that generates answers with, and how prompts are read") {
  const Json config = tiny_llama();
  const auto asked = [&](const char* task, VllmVersion version) {
    EngineArgs args = at(version);
    args.pooling.task = task;
    return args;
  };
  for (const char* task : {"generate", "transcription", "draft"})
    CHECK_FALSE(runner_of({config, "config.json"}, asked(task, {0, 10, 0})).pools);
  CHECK(runner_of({config, "config.json"}, asked("reward", {0, 10, 0})).converts ==
        Converts::to_vectors);
  CHECK(runner_of({config, "config.json"}, asked("score", {0, 10, 0})).converts ==
        Converts::to_classes);
  // A reward is of each token: of a prompt in parts, from 0.13 on.
  CHECK_FALSE(pools_in_parts({config, "config.json"}, asked("reward", {0, 12, 0})));
  CHECK(pools_in_parts({config, "config.json"}, asked("reward", {0, 13, 0})));
  CHECK(pools_in_parts({config, "config.json"}, asked("embed", {0, 12, 0})));
  CHECK(stated_pooling({{"pooling_mode", 3}, {"pooling_mode_mean_tokens", true}}) == "MEAN");
  CHECK(stated_pooling({{"pooling_mode", true}}).empty());
  CHECK(stated_pooling({{"model_type", "mean"}}).empty());
}

TEST_CASE("a generator that no release knows is noted, whatever it reads") {
  for (const char* name : {"WombatForCausalLM", "WombatForConditionalGeneration"})
    CHECK_THAT(served_note(name, {0, 33, 0}),
               Catch::Contains(std::string("has a class for ") + name));
  CHECK(served_note("WombatModel", {0, 33, 0}).empty());
  CHECK(served_note("LlamaForCausalLM", {0, 33, 0}).empty());
}

TEST_CASE("inputs that the host keeps are counted for each process, without end too") {
  ModelShape shape;
  shape.multimodal = true;
  const auto kept = [&](VllmVersion version, double gib) {
    EngineArgs args = at(version);
    args.data_parallel = 3;
    args.processor_cache_gib = gib;
    int64_t bytes = 0;
    for (const PlanPart& part : host_parts(args, {8, 1024, 0}, shape)) {
      if (part.name == "processed inputs") bytes = part.bytes;
    }
    return bytes;
  };
  CHECK(kept({0, 33, 0}, 4) == 4 * 4 * kGiB);
  CHECK(kept({0, 33, 0}, 0.5) == 2 * kGiB);
  CHECK(kept({0, 33, 0}, 0) == 0);
  CHECK(kept({0, 33, 0}, 1e18) == int64_t{1} << 61);
}
