// Each argument of a launch arrives in the options of shapes and caches, where its release heeds
// it; and the bounds of estimated parts, which the verdict goes by.
#include <catch2/catch.hpp>

#include "launches.h"
#include "vllm/launch/activation.h"
#include "vllm/launch/attention_room.h"
#include "vllm/launch/engine_choice.h"
#include "vllm/launch/stage_launch.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::at;

namespace {

KvOptions cache_options(const EngineArgs& args, const ModelShape& shape = {},
                        const ShapeOptions& layout = {}) {
  Terms terms;
  terms.max_model_len = 4096;
  terms.limits = {.max_num_seqs = 8, .max_num_batched_tokens = 1000};
  return kv_options(args, terms, shape, layout);
}

}  // namespace

TEST_CASE("options of shapes are those of the launch, each in its place") {
  EngineArgs args = at({0, 33, 0});
  args.tensor_parallel = 2;
  args.pipeline_parallel = 3;
  args.data_parallel = 5;
  args.pipeline_partition = {7, 8, 9};
  args.expert_parallel = true;
  args.state_dtype = "float16";
  args.draft_tokens = 4;
  args.lora_slots = 6;
  args.lora_rank = 32;
  args.limits["image"].count = 0;
  Terms terms;
  terms.element = 4;
  terms.runner = {.pools = true, .converts = Converts::to_classes};
  ShapeOptions options = shape_options(args, terms, &hardware::find_gpu("b200"));
  CHECK(options.tensor_parallel == 2);
  CHECK(options.pipeline_parallel == 3);
  CHECK(options.data_parallel == 5);
  CHECK(options.pipeline_partition == std::vector<int64_t>{7, 8, 9});
  CHECK(options.expert_parallel);
  CHECK(options.element == 4);
  CHECK(options.kv_element == 4);
  CHECK(options.version == args.version);
  CHECK(options.card == hardware::Architecture::blackwell);
  CHECK(options.absent == std::vector<std::string>{"image"});
  CHECK(options.ngrams_on_host);
  CHECK(options.ngram_replicas == 1);
  CHECK(options.draft_tokens == 4);
  CHECK_FALSE(options.first_engine);
  CHECK(options.pools);
  CHECK(options.converts == Converts::to_classes);
  CHECK(options.state_dtype == "float16");
  CHECK(options.lora_slots == 0);
  CHECK(options.lora_rank == 0);
  CHECK(options.mxfp4.hidden_multiple == 256);
  CHECK(options.refined_blocks);
  args.lora = true;
  args.tables.over_replicas = true;
  args.tables.offload = false;
  options = shape_options(args, terms, nullptr);
  CHECK(options.lora_slots == 6);
  CHECK(options.lora_rank == 32);
  CHECK(options.ngram_replicas == 5);
  CHECK_FALSE(options.ngrams_on_host);
  // The first engine has one replica, and experts of such slices are refused before 0.29.
  args.version = {0, 9, 0};
  args.first_engine = true;
  options = shape_options(args, terms, nullptr);
  CHECK(options.first_engine);
  CHECK(options.data_parallel == 1);
  CHECK_FALSE(options.refined_blocks);
  args.version = {0, 28, 9};
  CHECK_FALSE(shape_options(args, terms, nullptr).refined_blocks);
  args.version = {0, 29, 0};
  CHECK(shape_options(args, terms, nullptr).refined_blocks);
  args.version = {0, 28, 9};
  terms.quantization = Quantization::asked("fp8");
  CHECK(shape_options(args, terms, nullptr).refined_blocks);
}

TEST_CASE("options of caches are those of the launch, from the release on that has them") {
  EngineArgs args = at({0, 33, 0});
  args.block_size = 64;
  args.blocks_override = 77;
  args.context_ranks = 2;
  args.draft_tokens = 3;
  args.state_block_size = 128;
  ModelShape shape;
  shape.recurrent = true;
  const KvOptions options = cache_options(args, shape);
  CHECK(options.block_size == 64);
  CHECK(options.max_model_len == 4096);
  CHECK(options.blocks_override == 77);
  CHECK(options.context_ranks == 2);
  CHECK(options.encoder_tokens == 1000);
  CHECK(options.states.drafted == 3);
  CHECK(options.states.block_size == 128);
  CHECK(options.states.chunk == 128);
  CHECK_FALSE(options.attention_alone);
  struct Row {
    bool KvOptions::*option;
    VllmVersion since;
    bool value;  // from then on
  };
  for (const Row& row :
       {Row{&KvOptions::keeps_windows, {0, 8, 3}, true}, Row{&KvOptions::hybrid, {0, 9, 1}, true},
        Row{&KvOptions::states_last, {0, 11, 1}, false},
        Row{&KvOptions::estimates_by_layer, {0, 14, 0}, false},
        Row{&KvOptions::tokens_by_concurrency, {0, 20, 1}, true},
        Row{&KvOptions::override_checked, {0, 21, 0}, true},
        Row{&KvOptions::pages_apart, {0, 27, 0}, false},
        Row{&KvOptions::latents_first, {0, 29, 0}, false},
        Row{&KvOptions::null_block, {0, 29, 0}, true}}) {
    INFO(version_text(row.since));
    for (const VllmVersion version :
         {VllmVersion{0, 8, 0}, VllmVersion{0, row.since.minor - (row.since.patch > 0 ? 0 : 1),
                                            row.since.patch > 0 ? row.since.patch - 1 : 9}})
      CHECK(cache_options(at(version)).*row.option != row.value);
    CHECK(cache_options(at(row.since)).*row.option == row.value);
    CHECK(cache_options(at({0, 33, 0})).*row.option == row.value);
  }
  CHECK(cache_options(at({0, 17, 9})).group_factor == 1.25);
  CHECK(cache_options(at({0, 18, 0})).group_factor == 1.5);
}

TEST_CASE("tokens in flight are those of each stage's step, and of one that is planned ahead") {
  const auto steps = [](VllmVersion version, int64_t stages, bool ahead = true,
                        bool second = false) {
    EngineArgs args = at(version);
    args.pipeline_parallel = stages;
    args.async_scheduling = ahead;
    args.second_runner = second;
    ModelShape shape;
    shape.architecture = "LlamaForCausalLM";
    return cache_options(args, shape).in_flight_tokens / 1000;
  };
  CHECK(steps({0, 25, 9}, 1) == 1);
  CHECK(steps({0, 25, 9}, 4) == 1);
  CHECK(steps({0, 26, 0}, 1) == 2);
  CHECK(steps({0, 26, 0}, 1, false) == 1);
  CHECK(steps({0, 26, 0}, 4) == 4);
  CHECK(steps({0, 26, 0}, 4, true, true) == 5);
  CHECK(steps({0, 26, 0}, 4, false, true) == 4);
  ModelShape vectors;
  vectors.pools = true;
  CHECK(cache_options(at({0, 33, 0}), vectors).in_flight_tokens == 1000);
}

TEST_CASE("long blocks of FlashAttention 4 are those of caches of 8 bits on Hopper from 0.31 on") {
  const auto is_long = [](VllmVersion version, int64_t element, hardware::Architecture card) {
    ShapeOptions layout;
    layout.kv_element = element;
    layout.card = card;
    return cache_options(at(version), {}, layout).long_fp8_blocks;
  };
  using hardware::Architecture;
  CHECK(is_long({0, 31, 0}, 1, Architecture::hopper));
  CHECK_FALSE(is_long({0, 30, 9}, 1, Architecture::hopper));
  CHECK_FALSE(is_long({0, 31, 0}, 2, Architecture::hopper));
  CHECK_FALSE(is_long({0, 31, 0}, 1, Architecture::blackwell));
}

TEST_CASE("graphs take a fifth to eight fifths of what their number and the layers say") {
  const GraphPlan graphs{.piecewise = {1, 2, 4}, .full = 2, .kinds = 2};
  REQUIRE(graphs.count() == 10);
  const PlanPart part = graph_part(graphs, 40, false, false);
  const double each = (5 + 0.115 * 40) * 1024 * 1024;
  CHECK(static_cast<double>(part.bytes) == Approx(10 * each));
  CHECK(static_cast<double>(part.bytes - part.less) == Approx(10 * each / 5));
  CHECK(static_cast<double>(part.bytes + part.more) == Approx(10 * each * 8 / 5));
  CHECK(part.formula == "10 graphs x (5 MiB + 0.115 MiB x 40 layers)");
  // FlashInfer's workspaces are known.
  const PlanPart planned = graph_part(graphs, 40, true, true);
  CHECK(planned.bytes - part.bytes == (394 + 2 * 8) * kMiB);
  CHECK(planned.less == part.less);
  CHECK(planned.more == part.more);
  CHECK_THAT(planned.formula, Catch::EndsWith(" + 410 MiB (FlashInfer's workspaces)"));
  CHECK(graph_part({.piecewise = {1}, .full = 0, .kinds = 1}, 40, true, true).bytes ==
        graph_part({.piecewise = {1}, .full = 0, .kinds = 1}, 40, false, false).bytes);
}

TEST_CASE("the larger of two peaks is the plan's, with the bounds of both") {
  Stage stage;
  stage.shape.architecture = "LlamaForCausalLM";
  stage.shape.activation.hidden = 1024;
  stage.shape.activation.intermediate = 4096;
  stage.shape.activation.vocabulary = 100000;
  EngineArgs args = at({0, 33, 0});
  args.second_runner = true;
  const auto first_part = [&](int64_t sequences, const EncoderMemory& encoder = {}) {
    const EngineLimits limits{.max_num_seqs = sequences, .max_num_batched_tokens = 8192};
    return activation_parts(args, limits, stage, 2, &hardware::find_gpu("h100"), encoder, {})
        .front();
  };
  const PlanPart forward = first_part(1);
  CHECK(forward.name == "forward pass");
  CHECK(static_cast<double>(forward.less) == Approx(static_cast<double>(forward.bytes) * 0.02));
  CHECK(static_cast<double>(forward.more) == Approx(static_cast<double>(forward.bytes) * 0.05));
  const PlanPart sampler = first_part(210);
  CHECK(sampler.name == "sampler");
  CHECK(sampler.bytes > forward.bytes);
  CHECK(sampler.more > 0);
  CHECK(sampler.more == std::max<int64_t>(0, forward.bytes + forward.more - sampler.bytes));
  stage.last = false;
  CHECK(first_part(210).name == "forward pass");
  stage.last = true;
  stage.shape.pools = true;
  CHECK(first_part(210).name == "forward pass");
  stage.shape.pools = false;
  stage.shape.recurrent = true;
  CHECK(static_cast<double>(first_part(1).more) == Approx(static_cast<double>(forward.bytes)));
  // A tower whose peak is above it: three tenths less, but not less than without it.
  stage.shape.recurrent = false;
  EncoderMemory encoder;
  encoder.peak = 2 * forward.bytes;
  const PlanPart tower = first_part(1, encoder);
  CHECK(tower.name == "encoder");
  CHECK(static_cast<double>(tower.less) == Approx(0.3 * static_cast<double>(encoder.peak)));
  CHECK(static_cast<double>(tower.more) == Approx(1.3 * static_cast<double>(encoder.peak)));
  encoder.passing = encoder.peak * 4 / 10;
  CHECK(first_part(1, encoder).less == encoder.passing);
  encoder.passing = encoder.peak;
  CHECK(first_part(1, encoder).less == forward.bytes);
}
