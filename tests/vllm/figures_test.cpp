// Figures of a stage beside its weights, at the releases and bounds at which they change.
#include <catch2/catch.hpp>

#include "base/json.h"
#include "launches.h"
#include "vllm/launch/activation.h"
#include "vllm/launch/defaults.h"
#include "vllm/launch/graphs.h"
#include "vllm/launch/host.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/prefixes.h"
#include "vllm/launch/stage_launch.h"
#include "vllm/launch/tables.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::at;

namespace {

constexpr EngineLimits kStageLimits{.max_num_seqs = 64, .max_num_batched_tokens = 1024};

/// The part of that name; one of no bytes: there is none.
PlanPart part_of(const std::vector<PlanPart>& parts, const char* name) {
  for (const PlanPart& part : parts) {
    if (part.name == name) return part;
  }
  return {};
}

PlanPart persistent(const EngineArgs& args, const Stage& stage, const char* name) {
  return part_of(persistent_parts(args, kStageLimits, stage, 2, {}), name);
}

hardware::Gpu card_of(int64_t bytes, double capability = 0) {
  hardware::Gpu card;
  card.name = "Card";
  card.memory_bytes = card.cuda_bytes = bytes;
  card.compute_capability = capability;
  return card;
}

}  // namespace

TEST_CASE("what a draft keeps of a step goes by release and by what it embeds") {
  Stage stage;
  stage.shape.architecture = "LlamaForCausalLM";
  stage.shape.draft.hidden = 512;
  constexpr int64_t kHidden = 1024 * 512 * 2;  // tokens, elements and their bytes
  const auto buffers = [&](VllmVersion version, bool second = false, int64_t images = 1) {
    EngineArgs args = at(version);
    args.draft_method = "eagle";
    args.second_runner = second;
    args.limits["image"].count = images;
    return persistent(args, stage, "draft buffers");
  };
  CHECK(buffers({0, 8, 9}).bytes == 0);
  CHECK(buffers({0, 9, 0}).bytes == kHidden);
  CHECK(buffers({0, 10, 0}).bytes == kHidden);
  CHECK(buffers({0, 10, 1}).bytes == 2 * kHidden);
  CHECK_FALSE(buffers({0, 26, 9}).inside_budget);
  CHECK(buffers({0, 27, 0}).inside_budget);
  // The second runner embeds images alone, where a request may hold some.
  constexpr bool kSecond = true;
  CHECK(buffers({0, 30, 0}, kSecond).bytes == kHidden);
  stage.shape.multimodal = true;
  CHECK(buffers({0, 30, 0}, kSecond).bytes == kHidden);
  stage.shape.draft.embeds_images = true;
  CHECK(buffers({0, 30, 0}, kSecond).bytes == 2 * kHidden);
  CHECK(buffers({0, 30, 0}, kSecond, 0).bytes == kHidden);
  stage.last = false;
  CHECK(buffers({0, 30, 0}, kSecond).bytes == 0);
}

TEST_CASE("chosen keys are copied for each group of layers from 0.30 on") {
  Stage stage;
  stage.shape.choice = {.token_bytes = 8192, .row_bytes = 4096, .copies = 3, .whole_steps = false};
  EngineArgs args = at({0, 29, 9});
  const auto bytes = [&] { return persistent(args, stage, "top-k indices").bytes; };
  CHECK(bytes() == 1024 * 8192);
  args.version = {0, 30, 0};
  CHECK(bytes() == 1024 * 8192 + 3 * (64 + 1) * 4096);
  args.draft_tokens = 3;
  CHECK(bytes() == 1024 * 8192 + 3 * (64 * 4 + 1) * 4096);
  args.draft_tokens = 99;  // no more than a step has tokens
  CHECK(bytes() == 1024 * 8192 + 3 * (1024 + 1) * 4096);
  args.draft_tokens = 0;
  stage.shape.choice.whole_steps = true;
  CHECK(bytes() == 1024 * 8192 + 3 * (1024 + 1) * 4096);
}

TEST_CASE("tables are taken from the budget from 0.27 on") {
  ModelShape shape;
  shape.architecture = "LlamaForCausalLM";
  KvLayer layer;
  layer.token_bytes = 4096;
  shape.kv_layers = {layer};
  shape.activation.vocabulary = 128000;
  KvOptions options;
  options.max_model_len = 8192;
  const KvPlan kv(shape, options);
  const auto logits = [&](VllmVersion version) {
    EngineArgs args = at(version);
    args.draft_method = "eagle";
    args.draft_tokens = 3;
    args.draft_logits = true;
    const TableTerms terms{.args = args, .limits = kStageLimits, .max_model_len = 8192};
    return part_of(table_parts(Made::before_profile, terms, shape, kv), "draft logits");
  };
  REQUIRE(logits({0, 26, 9}).bytes > 0);
  CHECK_FALSE(logits({0, 26, 9}).inside_budget);
  CHECK(logits({0, 27, 0}).inside_budget);
  // The shared workspace grows by what it lacks.
  const auto grown = [&](int64_t has) {
    const EngineArgs args = at({0, 33, 0});
    TableTerms terms{.args = args, .limits = kStageLimits, .max_model_len = 8192};
    terms.late.add(1, 100, kMiB, "parts");
    terms.workspace = has * kMiB;
    return part_of(table_parts(Made::with_cache, terms, shape, kv), "attention workspace");
  };
  CHECK(grown(0).bytes == 100 * kMiB);
  CHECK(grown(0).formula == "1 x 100 x 1048576 B (parts)");
  CHECK(grown(60).bytes == 40 * kMiB);
  CHECK_THAT(grown(60).formula, Catch::EndsWith(" - 62914560 B that it has by then"));
  CHECK(grown(100).bytes == 0);
}

TEST_CASE("embeddings of n-grams are divided, shared or held by each replica") {
  ModelShape shape;
  shape.host_table_bytes = 1000;
  const auto held = [&](VllmVersion version, std::optional<bool> shared, bool divided, bool huge) {
    EngineArgs args = at(version);
    args.tensor_parallel = 2;
    args.data_parallel = 5;
    args.tables = {.given = true, .over_replicas = divided, .shared = shared, .huge_pages = huge};
    return part_of(host_parts(args, {8, 1024, 0}, shape), "embeddings of n-grams").bytes;
  };
  CHECK(held({0, 30, 9}, {}, false, false) == 2 * 5 * 1000);
  CHECK(held({0, 31, 0}, {}, false, false) == 2 * 1000);
  CHECK(held({0, 31, 0}, {}, true, false) == 2 * 5 * 1000);  // of parts
  CHECK(held({0, 31, 0}, false, false, false) == 2 * 5 * 1000);
  CHECK(held({0, 31, 0}, {}, false, true) == 2 * 5 * 1000);
  CHECK(held({0, 30, 0}, true, false, false) == 2 * 1000);
}

TEST_CASE("inputs of 8 bits stand beside those of 16, and bitmasks may not be there at all") {
  const auto forward = [](bool int8) {
    Stage stage;
    stage.shape.activation = {.hidden = 1000, .intermediate = 3000, .int8_activations = int8};
    return activation_parts(at({0, 28, 0}), kStageLimits, stage, 2, &hardware::find_gpu("h100"), {},
                            {})
        .front();
  };
  REQUIRE(forward(true).name == "forward pass");
  CHECK(forward(true).bytes - forward(false).bytes == 1024 * (1000 + 3000));
  ModelShape shape;
  shape.vocabulary = 1000;
  EngineArgs args = at({0, 33, 0});
  args.draft_tokens = 2;
  args.data_parallel = 5;
  const PlanPart masks = part_of(host_parts(args, {8, 1024, 0}, shape), "bitmasks of grammars");
  CHECK(masks.bytes == 8 * 3 * 32 * 4 * 5);  // 1000 tokens in 32 words
  CHECK(masks.less == masks.bytes);
  const PlanPart tokens = part_of(host_parts(args, {8, 1024, 0}, shape), "tables of tokens");
  CHECK(tokens.bytes == 8 * 1024 * 4 * 5);
  CHECK(tokens.less == 0);
}

TEST_CASE("the first engine captures up to the first size that suffices") {
  ModelShape shape;
  shape.architecture = "LlamaForCausalLM";
  const auto count = [&](int64_t sequences) {
    return plan_graphs(at({0, 7, 3}), {.max_num_seqs = sequences, .max_num_batched_tokens = 8192},
                       nullptr, shape)
        .count();
  };
  for (const auto& [sequences, graphs] : {std::pair{1, 1},
                                          {2, 2},
                                          {3, 3},
                                          {4, 3},
                                          {5, 4},
                                          {8, 4},
                                          {9, 5},
                                          {8192, 3 + 1024},
                                          {9000, 3 + 1024}}) {
    INFO(sequences);
    CHECK(count(sequences) == graphs);
  }
}

TEST_CASE("blocks of hybrids with latent attention are multiples of what its kernels take") {
  const auto unit = [](VllmVersion version, AttentionKernel kernel) {
    ModelShape shape;
    shape.recurrent = true;
    shape.kernel = kernel;
    return resolve_prefixes(at(version), shape).states.unit;
  };
  for (const AttentionKernel latent : {AttentionKernel::mla, AttentionKernel::sparse_mla}) {
    CHECK(unit({0, 11, 0}, latent) == 16);
    CHECK(unit({0, 11, 1}, latent) == 64);
    CHECK(unit({0, 19, 9}, latent) == 64);
    CHECK(unit({0, 20, 0}, latent) == 16);
    CHECK(unit({0, 27, 0}, latent) == 128);
  }
  CHECK(unit({0, 19, 9}, AttentionKernel::flash) == 16);
  CHECK(unit({0, 27, 0}, AttentionKernel::deepseek_v4) == 16);
}

TEST_CASE("a step's defaults grow with the card, from 70 and from 160 GiB on") {
  const auto limits = [](int64_t bytes) {
    const hardware::Gpu card = card_of(bytes);
    const EngineLimits found = resolve_limits(at({0, 28, 0}), &card, 131072, 0);
    return std::pair{found.max_num_batched_tokens, found.max_num_seqs};
  };
  CHECK(limits(70 * kGiB - 1) == std::pair<int64_t, int64_t>{2048, 256});
  CHECK(limits(70 * kGiB) == std::pair<int64_t, int64_t>{8192, 1024});
  CHECK(limits(160 * kGiB - 1) == std::pair<int64_t, int64_t>{8192, 1024});
  CHECK(limits(160 * kGiB) == std::pair<int64_t, int64_t>{16384, 1024});
}

TEST_CASE("a card without a name is a large one from 64 GiB on, and joined by NVLink") {
  const hardware::Gpu large = card_of(64 * kGiB), small = card_of(64 * kGiB - 1);
  CHECK(at_least_hopper(&large));
  CHECK_FALSE(at_least_hopper(&small));
  CHECK(joins_ranks_by_nvlink(at({0, 33, 0}), &small));
  const hardware::Gpu known = card_of(64 * kGiB, 9.0);
  CHECK_FALSE(joins_ranks_by_nvlink(at({0, 33, 0}), &known));
}

TEST_CASE("the shape of all stages has what any of them needs") {
  std::vector<Stage> stages(3);
  const auto set = [&](size_t at, AttentionKernel kernel, int64_t latent, int64_t token,
                       int64_t multiple, int64_t table) {
    ModelShape& shape = stages[at].shape;
    shape.kernel = kernel;
    shape.latent.block = latent;
    shape.attention_token_bytes = token;
    shape.block_multiple = multiple;
    shape.host_table_bytes = table;
    shape.kv_layers.resize(at + 1);
  };
  set(0, AttentionKernel::flash, 16, 512, 8, 1);
  set(1, AttentionKernel::sparse_mla, 64, 2048, 32, 10);
  set(2, AttentionKernel::mla, 128, 1024, 4, 100);
  stages[1].shape.mixture = true;
  stages[2].shape.recurrent = true;
  stages[1].shape.packs_pages = true;
  stages[2].shape.flashinfer = false;
  for (int turn = 0; turn < 3; ++turn) {
    INFO(turn);
    const ModelShape whole = whole_shape(stages);
    CHECK(whole.kernel == AttentionKernel::sparse_mla);
    CHECK(whole.latent.block == 64);
    CHECK(whole.attention_token_bytes == Amount{2048});
    CHECK(whole.block_multiple == 32);
    CHECK(whole.host_table_bytes == Amount{111});
    CHECK(whole.kv_layers.size() == 6);
    CHECK(whole.mixture);
    CHECK(whole.recurrent);
    CHECK(whole.packs_pages);
    CHECK_FALSE(whole.flashinfer);
    std::ranges::rotate(stages, stages.begin() + 1);
  }
}

TEST_CASE("weights by a checkpoint's headers are a rank's share, and at least what stands apart") {
  EngineArgs args;
  args.tensor_parallel = 2;
  args.pipeline_parallel = 3;
  args.tensors = CheckpointTensors{.float_elements = 1000, .other_bytes = 101};
  for (const auto& [apart, left] : {std::pair{10, 10}, {1000, 351}}) {
    Stage stage;
    stage.shape.estimated = true;
    stage.apart = apart;
    weigh_by_headers(stage, args, 2);
    CHECK(stage.parameters == Amount{351});  // 2101 B among six ranks
    CHECK(stage.apart == Amount{left});
    CHECK(stage.layer_bytes() == Amount{351 - left});
  }
}

TEST_CASE("a stage is refused where the card has not the room for its weights, to the byte") {
  const hardware::Gpu card = card_of(20 * kGiB, 8.0);
  StageFigures stage;
  stage.weights_bytes = 20 * kGiB;
  const auto refusal = [&](const EngineArgs& args) {
    return start_refusal(args, {.utilization = 0.5}, card, stage, kMiB);
  };
  const EngineArgs args = at({0, 33, 0});
  CHECK(refusal(args).empty());
  stage.weights_bytes += 1;
  CHECK(refusal(args) ==
        "CUDA out of memory while loading: weights of 20.0 GiB per GPU on a card of 20.0 GiB.");
  // What is offloaded does not lie there, but one layer at a time does.
  stage.weights_bytes = 24 * kGiB;
  stage.offloaded_bytes = 8 * kGiB;
  stage.layer_bytes = 16 * kGiB;
  stage.layers = 4;
  CHECK(refusal(args).empty());
  stage.layers = 3;
  CHECK(refusal(args) ==
        "CUDA out of memory while loading: weights of 21.33 GiB per GPU beside what is offloaded "
        "on a card of 20.0 GiB.");
  stage.layers = 4;
  stage.loading_peak_bytes = 28 * kGiB + 1;
  CHECK(refusal(args) ==
        "CUDA out of memory while loading: weights of 20.0 GiB per GPU beside what is offloaded, "
        "with what is quantized or reordered meanwhile, on a card of 20.0 GiB.");
  // A cache of stated size is allocated without a look at what is left.
  stage = {};
  stage.weights_bytes = 10 * kGiB;
  stage.activation_peak_bytes = 2 * kGiB;
  stage.non_torch_bytes = kGiB;
  stage.persistent_bytes = kGiB;
  stage.kv_cache_bytes = 6 * kGiB;
  EngineArgs stated = args;
  stated.kv_cache_memory = 6 * kGiB;
  CHECK(refusal(stated).empty());
  stage.kv_cache_bytes += 1;
  CHECK(refusal(args).empty());
  CHECK(refusal(stated) ==
        "CUDA out of memory: a KV cache of 6.0 GiB, as --kv-cache-memory-bytes asks, beside 14.0 "
        "GiB of weights, activations and the rest, on a card of 20.0 GiB.");
  stage.kv_cache_bytes = 0;
  stage.num_gpu_blocks = 7 * 1024;
  stated.kv_cache_memory = 0;
  stated.blocks_override = 7 * 1024;
  CHECK(refusal(stated) ==
        "CUDA out of memory: a KV cache of 7.0 GiB, as --num-gpu-blocks-override asks, beside 14.0 "
        "GiB of weights, activations and the rest, on a card of 20.0 GiB.");
  stage.num_gpu_blocks = 6 * 1024;
  CHECK(refusal(stated).empty());
  stated.reserved = kGiB;
  CHECK_FALSE(refusal(stated).empty());
  // The budget must be free at the start, from 0.9.1 on.
  stated = at({0, 9, 1});
  stated.reserved = 12 * kGiB;
  CHECK_THAT(refusal(stated),
             Catch::StartsWith("Free memory on device (7.6/20.0 GiB) on startup is less than "
                               "desired GPU memory utilization (0.5, 10.0 GiB)."));
  stated.version = {0, 9, 0};
  CHECK(refusal(stated).empty());
}
