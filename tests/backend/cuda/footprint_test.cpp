// Sizes of the CUDA backend, without a device.
#include "backend/cuda/footprint.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "backend/cuda/packed_layout.h"
#include "backend/cuda/slices.h"
#include "backend/cuda/step_nodes.h"
#include "memory/device_overheads.h"

using namespace plimsoll;
using backend::CardFigures;
using backend::CudaFootprint;
using backend::StepShape;
namespace cuda = plimsoll::backend::cuda;

namespace {

constexpr CardFigures kHopper{.compute_capability = 90, .processors = 132};
constexpr CardFigures kAmpere{.compute_capability = 80, .processors = 108};

model::ModelSpec model_of(std::vector<int64_t> windows, int64_t head_dim = 128) {
  model::ModelSpec spec;
  spec.ropes.push_back({.rotary_dim = head_dim,
                        .table = {std::vector<float>(static_cast<size_t>(head_dim / 2), 1.f), 1},
                        .long_table = {}});
  for (const int64_t window : windows) {
    model::LayerSpec layer;
    layer.attention = {.heads = 32, .kv_heads = 8, .head_dim = head_dim, .window = window};
    spec.layers.push_back(layer);
  }
  return spec;
}

StepShape shape_of(const model::ModelSpec& spec, int64_t tokens, int64_t sequences,
                   int64_t stride) {
  return {.spec = &spec, .tokens = tokens, .sequences = sequences, .table_stride = stride};
}

}  // namespace

TEST_CASE("weights and KV blocks take what their elements take, from aligned addresses") {
  const CudaFootprint sizes(kHopper);
  const model::WeightSpec matrix{.name = "w", .shape = {4096, 14336}};
  CHECK(sizes.weight_bytes(matrix, DType::bf16) == size_t{4096} * 14336 * 2);
  CHECK(sizes.weight_bytes(matrix, DType::f32) == size_t{4096} * 14336 * 4);
  const model::WeightSpec bias{.name = "b", .shape = {3}};
  CHECK(sizes.weight_bytes(bias, DType::bf16) == memory::Arena::kAlignment);
  const model::AttentionSpec heads{.heads = 32, .kv_heads = 8, .head_dim = 128};
  // K and V of 16 tokens of 8 heads: 64 KiB in bf16; a layer of Llama-3-8B.
  CHECK(sizes.kv_bytes(heads, 16, DType::bf16) == size_t{64} << 10);
  CHECK(sizes.kv_bytes(heads, 16, DType::f8_e4m3) == size_t{32} << 10);
  // An indexer's keys have no values beside them; scores of 64 rows go together.
  model::AttentionSpec chosen = heads;
  chosen.indexer = {.most = 2048, .heads = 64, .head_dim = 128};
  CHECK(sizes.kv_bytes(chosen.index_heads(), 16, DType::bf16) == size_t{4} << 10);
  CHECK(sizes.choice_workspace(3, 1000) == 12000);
  CHECK(sizes.choice_workspace(8192, 1000) == 256000);
  CHECK(sizes.activation_dtype(DType::f32) == DType::f32);
  CHECK(sizes.activation_dtype(DType::bf16) == DType::bf16);
  CHECK(sizes.stores_kv(DType::f8_e4m3, DType::bf16));
  CHECK_FALSE(sizes.stores_kv(DType::f16, DType::bf16));
}

TEST_CASE("workspaces grow with the limits and do not depend on the context's length") {
  for (const bool deterministic : {false, true}) {
    CardFigures card = kHopper;
    card.deterministic = deterministic;
    const CudaFootprint sizes(card);
    const model::ModelSpec spec = model_of({0, 4096});
    const auto device = [&](int64_t tokens, int64_t sequences, int64_t stride) {
      return sizes.device_workspace_bytes(shape_of(spec, tokens, sequences, stride));
    };
    const auto plan = [&](int64_t tokens, int64_t sequences, int64_t stride) {
      return sizes.step_plan_bytes(shape_of(spec, tokens, sequences, stride));
    };
    size_t last_device = 0, last_plan = 0;
    for (const int64_t sequences : {1, 2, 64, 256, 1024}) {
      for (const int64_t tokens : {1024, 2048, 8192}) {
        CHECK(plan(tokens, sequences, 64) >= plan(1024, sequences, 64));
        CHECK(device(tokens, sequences, 64) == device(1024, sequences, 64));
      }
      CHECK(device(8192, sequences, 64) >= last_device);
      CHECK(plan(8192, sequences, 64) >= last_plan);
      last_device = device(8192, sequences, 64);
      last_plan = plan(8192, sequences, 64);
      CHECK(last_device % memory::Arena::kAlignment == 0);
      CHECK(last_plan % memory::Arena::kAlignment == 0);
    }
    if (!deterministic) CHECK(device(8192, 64, 8192) == device(8192, 64, 64));
  }
}

TEST_CASE("partial results of 1,024 decode rows of an 8B model take tens of megabytes") {
  // (1,024 + 4 x 132) rows x 32 heads x 129 floats; a planner that reserves per packed row of the
  // query tile would take ten times that.
  const model::ModelSpec spec = model_of({0});
  const size_t bytes =
      CudaFootprint(kHopper).device_workspace_bytes(shape_of(spec, 8192, 1024, 1024));
  const size_t products = backend::product_workspace_bytes(kHopper);
  CHECK(products == size_t{32} << 20);
  CHECK(bytes - products > size_t{1552} * 32 * 128 * 4);
  CHECK(bytes - products < size_t{30} << 20);
  CHECK(backend::product_workspace_bytes(kAmpere) == size_t{4} << 20);
}

TEST_CASE("each shape of attention has its own part of a step's plan") {
  model::ModelSpec spec = model_of({0, 1024, 0, 1024});
  spec.layers.push_back(model_of({0}, 64).layers[0]);
  const auto parts = backend::attention_parts(shape_of(spec, 2048, 64, 128), kHopper);
  REQUIRE(parts.size() == 3);
  size_t end = 0;
  for (const backend::AttentionPart& part : parts) {
    CHECK(part.flash_offset == end);
    CHECK(part.items_offset > part.flash_offset);
    CHECK(part.merges_offset > part.items_offset);
    end = part.end;
  }
  CHECK(CudaFootprint(kHopper).step_plan_bytes(shape_of(spec, 2048, 64, 128)) == end);
}

namespace {

model::WeightSpec packed_spec(const model::Packing& packing, int64_t rows, int64_t columns) {
  model::Part part{.tensor = "w.weight",
                   .stored_shape = {rows, columns},
                   .block_rows = rows,
                   .block_stride = rows};
  part.packing = packing;
  model::WeightSpec spec{.name = "w", .shape = {rows, columns}};
  spec.parts = {part};
  return spec;
}

}  // namespace

TEST_CASE("quantized weights on a card take little more than codes, scales and zero points") {
  using model::Code;
  using model::ScaleType;
  const CudaFootprint sizes(kHopper);
  struct Row {
    const char* name;
    model::Packing packing;
    double bytes;  // of a weight, as a checkpoint has it
  };
  for (const Row& row : {
           Row{"AWQ",
               {.bits = 4, .group = 32, .scale = ScaleType::f16, .zeros = true},
               0.5 + 2.5 / 32},
           Row{"activation order",
               {.bits = 4, .group = 128, .scale = ScaleType::f16, .zeros = true, .ordered = true},
               0.5 + 2.5 / 128},
           Row{"NVFP4",
               {.code = Code::table, .group = 16, .scale = ScaleType::e4m3, .factors = true},
               0.5 + 1.0 / 16},
           Row{"NF4",
               {.code = Code::table,
               .group = 64,
               .scale = ScaleType::nested,
               .block_inputs = 64 * 256},
               0.5 + 1.0 / 64 + 4.0 / 64 / 256},
           Row{"3 bits",
               {.bits = 3, .group = 128, .scale = ScaleType::f16, .zeros = true},
               3.0 / 8 + (2 + 3.0 / 8) / 128},
           Row{"2 bits", {.bits = 2, .group = 64, .scale = ScaleType::f16}, 0.25 + 2.0 / 64},
           Row{"float8", {.code = Code::e4m3, .bits = 8}, 1},
       }) {
    // 2880: the experts of gpt-oss, no multiple of a chunk.
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{4096, 4096}, {2880, 2880}}) {
      INFO(row.name << ", " << rows << " x " << columns);
      if (row.packing.group > 0 && columns % row.packing.group != 0) continue;
      const auto taken = static_cast<double>(
          sizes.weight_bytes(packed_spec(row.packing, rows, columns), DType::bf16));
      CHECK(taken <= 1.05 * row.bytes * static_cast<double>(rows * columns));
      CHECK(taken >= row.bytes * static_cast<double>(rows * columns));
    }
  }
}

TEST_CASE("rows are rewritten for formats that round them, activation order and odd widths") {
  const CudaFootprint sizes(kHopper);
  const auto bytes = [&](const model::Packing& packing, int64_t columns) {
    return sizes.linear_workspace(3, packed_spec(packing, 64, columns), DType::bf16);
  };
  CHECK(bytes({.bits = 4, .group = 32}, 96) == 0);
  CHECK(bytes({.bits = 4, .group = 32, .ordered = true}, 96) == 3 * 96 * 2);
  CHECK(bytes({.bits = 4, .group = 24}, 96) == 3 * 4 * 32 * 2);  // a group is two steps
  CHECK(bytes({.bits = 8}, 90) == 3 * 96 * 2);
  CHECK(bytes({.bits = 8, .inputs = model::InputRounding::int8_token}, 96) == 3 * 96 * 2);
  const model::MlpSpec mlp{.kind = model::MlpKind::experts, .experts = 8, .experts_per_token = 2};
  const model::WeightSpec plain{.name = "p", .shape = {8, 64, 96}};
  const model::WeightSpec rounded =
      packed_spec({.bits = 8, .inputs = model::InputRounding::fp8_token}, 64, 128);
  CHECK(sizes.expert_inputs_workspace(3, mlp, plain, plain, DType::bf16) == 0);
  CHECK(sizes.expert_inputs_workspace(3, mlp, plain, rounded, DType::bf16) == 3 * 2 * 128 * 2);
}

TEST_CASE("ranks of a card have an area to meet in, and more nodes") {
  const CudaFootprint sizes(kHopper);
  model::ModelSpec spec = model_of({0});
  model::WeightSpec& weight = spec.weights.emplace_back();
  weight.shape = {64, 32};
  weight.split = model::Split::row;
  StepShape shape{.spec = &spec, .tokens = 64, .sequences = 8, .logits_rows = 8, .table_stride = 4};
  const size_t alone = sizes.device_workspace_bytes(shape);
  const int64_t nodes = backend::more_step_nodes(spec, false);
  shape.tensor_ranks = 4;
  weight.ranks = 4;
  CHECK(backend::overhead_shape(spec, kHopper, 0).peers == 3);
  CHECK(sizes.device_workspace_bytes(shape) - alone == backend::cuda::rank_area_bytes(4));
  CHECK(backend::more_step_nodes(spec, false) >= nodes + 2 * std::ssize(spec.layers));
}

TEST_CASE("overheads: graphs by their nodes, contexts by the card") {
  memory::OverheadShape shape{.compute_capability = 90, .processors = 132, .layers = 32};
  const size_t eager = memory::overhead_bytes(shape);
  shape.graphs = 43;
  const size_t recorded = memory::overhead_bytes(shape);
  const auto nodes = static_cast<size_t>(memory::graph_nodes(shape));
  CHECK(recorded - eager == 43 * nodes * 1536);
  shape.peers = 3;
  CHECK(memory::overhead_bytes(shape) - recorded == 3 * (size_t{32} << 20));
  shape.peers = 0;
  const auto parts = memory::device_overheads(shape);
  CHECK(parts.front().name == "driver context");
  CHECK(parts.front().origin == memory::Origin::measured);
  shape.compute_capability = 80;
  CHECK(memory::device_overheads(shape).front().origin == memory::Origin::estimate);
}

TEST_CASE("deterministic products have room for their slices, whatever ranks have them") {
  CardFigures card = kHopper;
  card.deterministic = true;
  const CudaFootprint sizes(card);
  model::WeightSpec weight{.name = "w", .shape = {4096, 8192}};
  const auto bytes = [&](int64_t rows) {
    return sizes.linear_workspace(rows, weight, DType::bf16);
  };
  const auto trial = [](int64_t depth) { return cuda::pin_trial_bytes(depth, DType::bf16); };
  constexpr size_t kCopied = 64 * 4096 * 4;  // rows of the result that lie apart, and of inputs
  CHECK(bytes(1000) == std::max(64 * 8192 * 2 + kCopied, trial(8192)));
  weight.split = model::Split::row;
  weight.slices = 8;
  CHECK(bytes(1000) ==
        std::max(64 * 8192 * 2 + kCopied + size_t{8} * 256 * 4096 * 4, trial(2 * 1024)));
  CHECK(bytes(256) == bytes(1000));
  CHECK(bytes(200) < bytes(256));
  // One of eight ranks.
  weight.slices = 1;
  weight.ranks = 8;
  weight.shape.back() /= 8;
  CHECK(bytes(1000) == std::max(64 * 1024 * 2 + kCopied + size_t{256} * 4096 * 4, trial(2 * 1024)));
  const model::MlpSpec mlp{.kind = model::MlpKind::experts, .experts = 8, .experts_per_token = 2};
  constexpr auto kExperts = model::WeightUse::experts;
  const model::WeightSpec up{.name = "up", .shape = {8, 64, 96}, .use = kExperts};
  model::WeightSpec down{.name = "down", .shape = {8, 96, 64}, .use = kExperts};
  CHECK(sizes.expert_inputs_workspace(5, mlp, up, down, DType::bf16) == 0);
  down.split = model::Split::row;
  down.slices = 8;
  // The second product of each slot, and three sums that wait.
  const auto experts = [&](int64_t waiting) -> size_t {
    return (10 * 96 * 4 + 255) / 256 * 256 +
           static_cast<size_t>(waiting * 5 * 96 * 4 + 255) / 256 * 256;
  };
  CHECK(sizes.expert_inputs_workspace(5, mlp, up, down, DType::bf16) == experts(3));
  down.split = model::Split::experts;  // ranks share the sums of all slices
  down.ranks = 2;
  CHECK(sizes.expert_inputs_workspace(5, mlp, up, down, DType::bf16) == experts(8));
}

TEST_CASE("weights that deterministic ranks do not cut into slices are found") {
  model::ModelSpec spec;
  model::WeightSpec& out = spec.weights.emplace_back(
      packed_spec({.bits = 4, .group = 128, .zeros = true, .ordered = true}, 64, 512));
  out.split = model::Split::row;
  out.slices = 4;
  out.ranks = 2;
  CHECK(cuda::find_unpinned(spec) == nullptr);
  out.parts.front().packing->group = 42;  // not to be cut by four
  REQUIRE(cuda::find_unpinned(spec) == &out);
  out.ranks = 1;
  CHECK(cuda::find_unpinned(spec) == nullptr);
  out.ranks = 2;
  out.parts.front().packing.reset();
  out.parts.push_back(packed_spec({.bits = 4, .group = 128}, 64, 512).parts.front());
  CHECK(cuda::find_unpinned(spec) == &out);
}

TEST_CASE("a share in an activation order has room for any number of a group's inputs") {
  const model::Packing packing{
      .bits = 4, .group = 32, .scale = model::ScaleType::f16, .ordered = true, .scattered = true};
  const cuda::PackedMatrix layout(packed_spec(packing, 64, 1024).parts.front(), 1024);
  CHECK(layout.stored_groups == 32);
  CHECK(layout.steps == (1024 + 15 * 32) / 16);  // each group's last step has one input at least
  CHECK(layout.groups == layout.steps);
}

TEST_CASE("attention's class is that of the whole model's heads where chunks are fixed") {
  model::AttentionSpec spec{.heads = 4, .kv_heads = 1, .head_dim = 64};
  CHECK(cuda::flash_shape(spec).whole_group == 4);
  spec.whole_group = 32;  // of a rank that has four of 32 heads over one of keys
  CHECK(cuda::flash_shape(spec).whole_group == 32);
  CHECK(cuda::flash_shape(spec).group() == 4);
}
