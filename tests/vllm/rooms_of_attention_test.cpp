// What latent attention reserves beside the KV cache, and tables that go by requests: sums by hand.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "launches.h"
#include "vllm/launch/attention_room.h"
#include "vllm/launch/context_ranks.h"
#include "vllm/launch/tables.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::at;
using testing::layer_of;

namespace {

constexpr EngineLimits kRoomLimits{.max_num_seqs = 64, .max_num_batched_tokens = 1024};

AttentionRoom room(VllmVersion version, const ModelShape& shape, const hardware::Gpu* gpu,
                   int64_t length = 8192) {
  return attention_room(at(version), kRoomLimits, length, 2, shape, gpu);
}

/// A layer of latents and what its backend keeps, of no size yet.
ModelShape latent_shape() {
  ModelShape shape;
  shape.kernel = AttentionKernel::sparse_mla;
  shape.latent.block = 64;
  shape.latent.multiple = 64;
  shape.kv_layers = {layer_of(KvKind::latent, 1152)};
  shape.attention.heads = 16;
  return shape;
}

KvPlan cache_of_shape(const ModelShape& shape) {
  KvOptions options;
  options.max_model_len = 8192;
  return {shape, options};
}

/// The part of that name; one of no bytes: there is none.
PlanPart table(const EngineArgs& args, const ModelShape& shape, Made made, const char* name,
               EngineLimits limits = kRoomLimits, bool last = true) {
  const KvPlan kv = cache_of_shape(shape);
  const TableTerms terms{
      .args = args, .limits = limits, .element = 2, .max_model_len = 8192, .last = last};
  for (PlanPart& part : table_parts(made, terms, shape, kv)) {
    if (part.name == name) return part;
  }
  return {};
}

}  // namespace

TEST_CASE("queries of packed latents without positions have room for them from 0.32 on") {
  ModelShape shape;
  shape.latent.gathers = true;
  shape.latent.packed = true;
  shape.attention = {.heads = 16, .latent = 512, .row = 512, .chosen = 2048};
  // Queries, two outputs, a padded copy, and five contexts of rows in 16 bits.
  const auto bytes = [](int64_t row) {
    return 1024 * 16 * row * 2 + 5 * 8192 * row * 2 + 1024 * 64 * row * 2 + 1024 * 64 * 512 * 2 +
           1024 * 16 * 512 * 2;
  };
  const hardware::Gpu* h200 = &hardware::find_gpu("h200");
  CHECK(room({0, 31, 0}, shape, h200).shared.bytes.value() == bytes(512));
  CHECK(room({0, 32, 0}, shape, h200).shared.bytes.value() == bytes(512 + 64));
  shape.attention.row = 576;
  CHECK(room({0, 31, 0}, shape, h200).shared.bytes.value() == bytes(576));
  CHECK(room({0, 32, 0}, shape, h200).shared.bytes.value() == bytes(576));
}

TEST_CASE("decodes are divided by the context, at most into two parts a multiprocessor") {
  ModelShape shape;
  shape.latent.splits = true;
  shape.attention = {.heads = 16, .latent = 512, .row = 576};
  const auto parts = [&](const hardware::Gpu* gpu, int64_t length) {
    const int64_t each = 64 * 16 * (512 + 1) * 4;  // sequences, heads, outputs and their sum
    const int64_t bytes = room({0, 33, 0}, shape, gpu, length).shared.bytes.value();
    CHECK(bytes % each == 0);
    return bytes / each;
  };
  hardware::Gpu card;
  CHECK(parts(nullptr, 8192) == 16);
  CHECK(parts(&card, 8192) == 16);  // its multiprocessors are not known
  card.processors = 3;
  CHECK(parts(&card, 8192) == 6);
  CHECK(parts(&card, 512 * 3) == 4);
  CHECK(parts(&card, 511) == 1);
  // Until 0.32 they are made with the cache.
  CHECK(room({0, 32, 0}, shape, &card).shared.bytes == Amount{0});
  CHECK(room({0, 32, 0}, shape, &card).late.bytes > Amount{0});
}

TEST_CASE("FlashInfer has a workspace of its own for compressed attention from 0.24 on") {
  ModelShape shape;
  shape.attention = {.heads = 16, .row = 512, .compression = 4, .window = 128};
  const auto own = [&](VllmVersion version, const char* card) {
    return room(version, shape, &hardware::find_gpu(card)).own.bytes.value() / kMiB;
  };
  CHECK(own({0, 23, 9}, "5090") == 0);
  CHECK(own({0, 24, 0}, "5090") == 128);
  CHECK(own({0, 33, 0}, "b200") == 0);
  CHECK(own({0, 33, 0}, "h200") == 0);
}

TEST_CASE("masks of chosen keys are held for heads of two sizes alone") {
  const auto masks = [](AttentionSizes sizes, VllmVersion version = {0, 27, 0}, bool able = true) {
    ModelShape shape = latent_shape();
    shape.attention = sizes;
    shape.latent.masks = able;
    const PlanPart part =
        table(at(version), shape, Made::with_cache, "buffers of latent attention");
    CHECK((part.bytes == 0 || part.bytes == 128 * kMiB));
    return part.bytes > 0;
  };
  CHECK(masks({.heads = 128, .query = 192, .value = 128, .latent = 512}));
  CHECK(masks({.heads = 64, .query = 256, .value = 256, .latent = 512}));
  CHECK_FALSE(masks({.heads = 64, .query = 192, .value = 128, .latent = 512}));
  CHECK_FALSE(masks({.heads = 128, .query = 256, .value = 128, .latent = 512}));
  CHECK_FALSE(masks({.heads = 128, .query = 192, .value = 256, .latent = 512}));
  CHECK_FALSE(masks({.heads = 128, .query = 192, .value = 128, .latent = 256}));
  CHECK_FALSE(masks({.heads = 128, .query = 192, .value = 128, .latent = 512}, {0, 26, 0}));
  CHECK_FALSE(masks({.heads = 128, .query = 192, .value = 128, .latent = 512}, {0, 27, 0}, false));
}

TEST_CASE("sparse attention gathers the keys that are chosen, and a block at least") {
  constexpr int64_t kRow = 1 << 20;
  const auto rows = [](int64_t sequences, int64_t chosen, VllmVersion version = {0, 26, 0}) {
    ModelShape shape = latent_shape();
    shape.attention = {
        .heads = 16, .expanded = 256, .row = kRow, .index_key = 128, .chosen = chosen};
    shape.latent.expands = true;
    const EngineLimits limits{.max_num_seqs = sequences, .max_num_batched_tokens = 1024};
    const PlanPart part =
        table(at(version), shape, Made::with_cache, "buffers of latent attention", limits);
    if (part.bytes == 0) return int64_t{0};
    const int64_t gathered = part.bytes - 1024 * (8192 / 64) * 4;  // beside an indexer's table
    CHECK(gathered % (kRow * 2) == 0);
    return gathered / (kRow * 2);
  };
  CHECK(rows(1, 32) == 64);  // a block
  CHECK(rows(1, 65) == 65);
  CHECK(rows(3, 32) == 96);
  CHECK(rows(1024, 2048) == 65536);  // no more than vLLM gathers at once
  CHECK(rows(3, 32, {0, 25, 9}) == 0);
}

TEST_CASE("a model without a cache of latents has no buffers for them") {
  ModelShape shape = latent_shape();
  shape.latent.masks = true;
  shape.attention = {.heads = 128, .query = 192, .value = 128, .latent = 512};
  REQUIRE(table(at({0, 33, 0}), shape, Made::with_cache, "buffers of latent attention").bytes > 0);
  shape.kv_layers = {layer_of(KvKind::full, 1152)};
  CHECK(table(at({0, 33, 0}), shape, Made::with_cache, "buffers of latent attention").bytes == 0);
}

TEST_CASE("logits of drafts are held by the last stage, where a draft draws by them") {
  ModelShape shape;
  shape.architecture = "LlamaForCausalLM";
  shape.kv_layers = {layer_of(KvKind::full, 4096)};
  shape.activation.vocabulary = 128000;
  const auto bytes = [&](VllmVersion version, bool drawn, bool last) {
    EngineArgs args = at(version);
    args.draft_method = "eagle";
    args.draft_tokens = 3;
    args.draft_logits = drawn;
    return table(args, shape, Made::before_profile, "draft logits", kRoomLimits, last).bytes;
  };
  CHECK(bytes({0, 27, 0}, true, true) == 64 * 3 * 128000 * 4);
  CHECK(bytes({0, 27, 9}, true, true) == 64 * 3 * 128000 * 4);
  CHECK(bytes({0, 28, 0}, true, true) == 64 * 3 * 128000 * 2);
  CHECK(bytes({0, 28, 0}, false, true) == 0);
  CHECK(bytes({0, 28, 0}, true, false) == 0);
}

TEST_CASE("ranks divide the contexts of two groups of layers as the release lets them") {
  ModelShape shape;
  shape.attention_token_bytes = 1024;
  shape.kv_layers = {layer_of(KvKind::full, 1024), layer_of(KvKind::state, 10 * 1024)};
  shape.heads = 32;
  shape.kv_heads = 2;
  EngineArgs args;
  args.tensor_parallel = 8;
  args.context_ranks = 4;
  const auto refusal = [&](VllmVersion version, bool prefixes) -> std::string {
    args.version = version;
    const KvPlan kv = cache_of_shape(shape);
    try {
      check_context_ranks(shape, kv, args, prefixes);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return error.what();
    }
    return "";
  };
  REQUIRE(cache_of_shape(shape).groups().size() == 2);
  CHECK_THAT(refusal({0, 19, 9}, true), Catch::Contains("DCP not support hybrid attn now"));
  CHECK(refusal({0, 19, 9}, false).empty());
  CHECK_THAT(refusal({0, 20, 0}, false), Catch::Contains("multiple block sizes"));
  CHECK_FALSE(refusal({0, 25, 9}, false).empty());
  CHECK(refusal({0, 26, 0}, true).empty());
  // Heads are divided among ranks that would hold the same ones, and latents have none.
  shape.kv_heads = 8;
  CHECK_THAT(refusal({0, 26, 0}, false), Catch::Contains("KV heads (8)"));
  shape.kv_heads = 0;
  CHECK(refusal({0, 26, 0}, false).empty());
  shape.kv_heads = 8;
  shape.kv_layers = {layer_of(KvKind::full, 1024), layer_of(KvKind::latent, 1024)};
  shape.kv_layers[0].fixed_block = 64;
  CHECK(cache_of_shape(shape).groups().size() == 2);
  CHECK(refusal({0, 26, 0}, false).empty());
}
