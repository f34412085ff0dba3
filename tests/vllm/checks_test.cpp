// Arguments that a release refuses, at their bounds, and what is noted of those that it takes.
#include <catch2/catch.hpp>

#include <fmt/format.h>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "hardware/gpu_catalogue.h"
#include "launches.h"
#include "vllm/launch/refusals.h"
#include "vllm/launch/terms.h"

using namespace plimsoll;
using namespace plimsoll::vllm;
using testing::at;
using testing::tiny_llama;

namespace {

/// The message with which something is refused; empty: it is taken.
std::string check_refusal(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return "";
}

std::string check_refusal(const EngineArgs& args, const Json& config = tiny_llama()) {
  return check_refusal([&] {
    resolve_terms({config, "config.json"}, args, &hardware::find_gpu("h100"));
  });
}

/// Bytes of an element of the cache, by its stated type.
int64_t cached(const char* cache, VllmVersion version, const char* dtype = "auto") {
  EngineArgs args = at(version);
  args.kv_cache_dtype = cache;
  args.dtype = dtype;
  const Json config = tiny_llama();
  const Terms terms = resolve_terms({config, "config.json"}, args, nullptr);
  return shape_options(args, terms, nullptr).kv_element;
}

}  // namespace

TEST_CASE("a cached element has the bytes of its type, and other types are said to be vLLM's") {
  for (const auto& [type, bytes] : {std::pair{"auto", 2},
                                    {"fp8", 1},
                                    {"fp8_e4m3", 1},
                                    {"fp8_e5m2", 1},
                                    {"bfloat16", 2},
                                    {"float16", 2},
                                    {"float32", 4}}) {
    INFO(type);
    CHECK(cached(type, {0, 32, 0}) == bytes);
  }
  CHECK(cached("auto", {0, 32, 0}, "float32") == 4);
  for (const char* type : {"fp8_per_token_head", "int8_per_token_head", "nvfp4", "turboquant_3bit",
                           "octave", "ultraquant_4"}) {
    INFO(type);
    CHECK_THAT(check_refusal([&] {
                 cached(type, {0, 32, 0});
               }),
               Catch::Contains(std::string("--kv-cache-dtype ") + type + ": vLLM has this type"));
  }
  CHECK_THAT(check_refusal([&] {
               cached("int4", {0, 32, 0});
             }),
             Catch::Contains("--kv-cache-dtype int4: expected auto, fp8,"));
}

TEST_CASE("from 0.33 on a cache of 16 bits is of the model's own type") {
  for (const auto& [cache, dtype, cure] :
       {std::tuple{"float16", "bfloat16", "to `auto` or `bfloat16`."},
        {"bfloat16", "float16", "to `auto` or `float16`."},
        {"bfloat16", "float32", "to `auto`."}}) {
    INFO(cache << " " << dtype);
    CHECK(cached(cache, {0, 32, 9}, dtype) == 2);
    CHECK_THAT(check_refusal([&, c = cache, d = dtype] {
                 cached(c, {0, 33, 0}, d);
               }),
               Catch::Contains("is incompatible with dtype") && Catch::EndsWith(cure));
  }
  CHECK(cached("float16", {0, 33, 0}, "float16") == 2);
  CHECK(cached("bfloat16", {0, 33, 0}, "bfloat16") == 2);
}

TEST_CASE("chunked attention has groups of its own from 0.14 on, but not with EAGLE") {
  ModelShape shape;
  shape.kv_layers.resize(2);
  const auto groups = [&](VllmVersion version, const char* draft, bool asked = true) {
    EngineArgs args = at(version);
    args.draft_method = draft;
    args.hybrid_kv = asked;
    return kv_options(args, {}, shape, {}).hybrid;
  };
  CHECK(groups({0, 33, 0}, "eagle3"));
  CHECK(groups({0, 13, 0}, ""));
  CHECK_FALSE(groups({0, 33, 0}, "", false));
  shape.kv_layers[0].kind = KvKind::chunked;
  CHECK_FALSE(groups({0, 13, 9}, ""));
  CHECK(groups({0, 14, 0}, ""));
  CHECK(groups({0, 33, 0}, "ngram"));
  CHECK_FALSE(groups({0, 33, 0}, "eagle"));
  CHECK_FALSE(groups({0, 33, 0}, "eagle3"));
}

TEST_CASE("adapters and drafts together need a step for each drafted token") {
  EngineArgs args = at({0, 33, 0});
  args.lora = true;
  args.max_num_seqs = 16;
  args.draft_method = "ngram";
  args.draft_tokens = 3;
  args.max_num_batched_tokens = 16 * (3 + 1);
  CHECK(check_refusal(args).empty());
  args.max_num_batched_tokens -= 1;
  CHECK_THAT(check_refusal(args), Catch::Contains("need --max-num-batched-tokens 64 at least"));
  args.version = {0, 11, 0};
  CHECK(check_refusal(args).empty());
}

TEST_CASE("a step holds one token more than a draft with a model of its own looks ahead") {
  struct Row {
    const char* method;
    int64_t tokens;  // of a step, at least
  };
  for (const Row& row : {Row{"eagle", 9}, Row{"eagle3", 9}, Row{"mtp", 9}, Row{"dspark", 9},
                         Row{"dflash", 10}, Row{"ngram", 1}, Row{"suffix", 1}}) {
    INFO(row.method);
    EngineArgs args = at({0, 33, 0});
    args.draft_method = row.method;
    args.draft_tokens = 8;
    args.max_num_seqs = 1;
    args.max_num_batched_tokens = row.tokens;
    args.graphs.mode = "NONE";
    CHECK(check_refusal(args).empty());
    args.max_num_batched_tokens = row.tokens - 1;
    if (row.tokens == 1) continue;
    CHECK_THAT(check_refusal(args),
               Catch::Contains(fmt::format("num_lookahead_tokens={}.", row.tokens - 1)) &&
                   Catch::Contains(fmt::format("tokens {} at least", row.tokens)));
    args.version = {0, 32, 9};
    CHECK(check_refusal(args).empty());
  }
}

TEST_CASE("flags of recurrent caches are checked for every model") {
  EngineArgs args = at({0, 14, 9});
  args.state_mode = "align";
  CHECK_THAT(check_refusal(args),
             Catch::Contains("unrecognized arguments: --mamba-cache-mode align"));
  args.version = {0, 15, 0};
  CHECK(check_refusal(args).empty());
}

TEST_CASE("a length beyond the model's is taken where a variable allows it") {
  EngineArgs args = at({0, 33, 0});
  args.max_model_len = 4097;
  CHECK_THAT(check_refusal(args), Catch::Contains("greater than the derived max_model_len"));
  args.allow_long_length = true;
  CHECK(check_refusal(args).empty());
}

TEST_CASE("tables of n-grams are refused to other models, from 0.30 on") {
  EngineArgs args = at({0, 29, 9});
  args.tables.given = true;
  CHECK(check_refusal(args).empty());
  args.version = {0, 30, 0};
  CHECK_THAT(check_refusal(args), Catch::Contains("EngramConfig requires a model"));
}

TEST_CASE("a stage without experts is refused from 0.10.2 on, where its class looks for some") {
  ModelShape stage;
  stage.architecture = "Glm4MoeForCausalLM";
  stage.lacks_mixture = true;
  stage.first_layer = 4;
  stage.stage_layers = 2;
  CHECK(check_refusal([&] { check_stage(stage, at({0, 10, 1})); }).empty());
  CHECK_THAT(check_refusal([&] {
               check_stage(stage, at({0, 10, 2}));
             }),
             Catch::Contains("Glm4MoeForCausalLM") && Catch::Contains("layers 4 to 5 have none"));
  stage.lacks_mixture = false;
  CHECK(check_refusal([&] { check_stage(stage, at({0, 33, 0})); }).empty());
}

TEST_CASE("Triton reads a cache of 8 bits from capability 8.9 on") {
  const auto refused = [](const ModelShape& shape, double capability,
                          VllmVersion version = {0, 24, 0}) {
    hardware::Gpu card;
    card.name = "Card";
    card.compute_capability = capability;
    return check_refusal([&] { check_fp8_cache(shape, at(version), &card); });
  };
  const ModelShape plain;
  CHECK_THAT(refused(plain, 7.5), Catch::EndsWith("Re-run with --kv-cache-dtype float16."));
  CHECK(refused(plain, 7.5, {0, 23, 9}).empty());
  CHECK(refused(plain, 8.9).empty());
  CHECK(refused(plain, 0).empty());
  CHECK(check_refusal([&] { check_fp8_cache(plain, at({0, 33, 0}), nullptr); }).empty());
  for (int which = 0; which < 5; ++which) {
    INFO(which);
    ModelShape other;
    other.attention_free = which == 0;
    other.encoder = which == 1;
    other.encoder_decoder = which == 2;
    if (which == 3) other.kernel = AttentionKernel::mla;
    if (which == 4) other.kernel = AttentionKernel::sparse_mla;
    CHECK(refused(other, 7.5).empty());
  }
  ModelShape sinks;
  sinks.flashinfer = false;
  CHECK_THAT(refused(sinks, 8.0), Catch::EndsWith("Re-run with --kv-cache-dtype bfloat16."));
}
