// What our own engine makes of a launch's arguments, one by one.
#include "launch/arguments.h"

#include <catch2/catch.hpp>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/footprint.h"
#include "base/error.h"
#include "launch/images.h"
#include "launch/sequences.h"
#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using namespace plimsoll::launch;
using Catch::Contains;

namespace {

const backend::CudaFootprint kCard({});

const backend::Footprint& cpu() {
  return backend::cpu_footprint();
}

model::ModelSpec tiny(DType dtype = DType::bf16) {
  model::ModelSpec spec = model::make_model_spec(testing::tiny_config("LlamaForCausalLM"));
  spec.dtype = dtype;
  return spec;
}

/// The engine's options for arguments that `change` has changed.
template <class Change>
engine::EngineOptions options_with(Change change, const backend::Footprint& footprint = cpu(),
                                   DType dtype = DType::bf16) {
  Arguments arguments;
  change(arguments);
  return engine_options(arguments, dtype, footprint);
}

template <class Change>
EngineArgs args_with(Change change) {
  EngineArgs args;
  change(args);
  return args;
}

}  // namespace

TEST_CASE("each argument reaches its option of the engine") {
  const engine::EngineOptions usual = options_with([](Arguments&) {}, cpu(), DType::f16);
  CHECK(usual.dtype == DType::f16);
  CHECK(usual.max_model_len == 0);
  CHECK(!usual.auto_model_len);
  CHECK(usual.prefix_caching);
  CHECK(usual.block_size == 16);
  CHECK(usual.kv_cache_bytes == uint64_t{4} << 30);
  CHECK(!usual.kv_cache_memory);
  CHECK(!usual.num_kv_blocks);
  CHECK(!usual.capture_sizes);
  CHECK(!usual.kv_dtype);
  CHECK(usual.ngram.num_speculative_tokens == 0);

  const engine::EngineOptions asked = options_with([](Arguments& a) {
    a.args.data_parallel = 2;
    a.args.tensor_parallel = 4;
    a.threads = 9;
    a.args.max_model_len = 77;
    a.args.max_num_seqs = 5;
    a.args.max_num_batched_tokens = 333;
    a.args.prefix_caching = false;
    a.host_cache = 12345;
    a.args.kv_cache_memory = 1;
    a.args.block_size = 32;
    a.args.blocks_override = 1;
    a.args.capture_sizes = {1, 2};
  });
  CHECK(asked.replicas == 2);
  CHECK(asked.tensor_ranks == 4);
  CHECK(asked.threads == 4);  // of each replica
  CHECK(asked.max_model_len == 77);
  CHECK(asked.max_num_seqs == 5);
  CHECK(asked.max_num_batched_tokens == 333);
  CHECK(!asked.prefix_caching);
  CHECK(asked.kv_cache_bytes == 12345);
  CHECK(asked.kv_cache_memory == 1u);
  CHECK(asked.block_size == 32);
  CHECK(asked.num_kv_blocks == 1);
  CHECK(asked.capture_sizes == std::vector<int64_t>{1, 2});

  const auto longest = options_with([](Arguments& a) { a.args.max_model_len = -1; });
  CHECK(longest.auto_model_len);
  CHECK(longest.max_model_len == 0);
  const auto eager = options_with([](Arguments& a) {
    a.args.enforce_eager = true;
    a.args.capture_sizes = {1, 2};
  });
  REQUIRE(eager.capture_sizes);
  CHECK(eager.capture_sizes->empty());
  const auto graphs_with = [](std::string mode, std::optional<int64_t> level) {
    return options_with([&](Arguments& a) {
             a.args.capture_sizes = {1, 2};
             a.args.graphs.mode = std::move(mode);
             a.args.graphs.level = level;
           })
        .capture_sizes->size();
  };
  CHECK(graphs_with("", {}) == 2);
  CHECK(graphs_with("NONE", {}) == 0);
  CHECK(graphs_with("", 0) == 0);
  CHECK(graphs_with("", 1) == 2);
  const auto largest = [](int64_t stated, int64_t up_to) {
    return options_with([&](Arguments& a) {
             a.args.graphs.largest = stated;
             a.args.graphs.up_to = up_to;
           })
        .largest_recorded;
  };
  CHECK(largest(0, 0) == 0);
  CHECK(largest(8, 0) == 8);
  CHECK(largest(0, 16) == 16);
  CHECK(largest(8, 16) == 8);
}

TEST_CASE("every replica computes with its share of the threads, and with one at least") {
  CHECK(threads_of_replica(8, 1) == 8);
  CHECK(threads_of_replica(8, 3) == 2);
  CHECK(threads_of_replica(2, 3) == 1);
}

TEST_CASE("of two bounds of prompt lookup, one alone is both") {
  const auto ngram = [](int64_t least, int64_t most) {
    return options_with([&](Arguments& a) {
             a.args.draft_method = "ngram";
             a.args.draft_tokens = 3;
             a.args.lookup_min = least;
             a.args.lookup_max = most;
           })
        .ngram;
  };
  CHECK(ngram(0, 0).num_speculative_tokens == 3);
  CHECK(ngram(0, 0).prompt_lookup_min == 5);
  CHECK(ngram(0, 0).prompt_lookup_max == 5);
  CHECK(ngram(2, 0).prompt_lookup_min == 2);
  CHECK(ngram(2, 0).prompt_lookup_max == 2);
  CHECK(ngram(0, 7).prompt_lookup_min == 7);
  CHECK(ngram(0, 7).prompt_lookup_max == 7);
  CHECK(ngram(2, 7).prompt_lookup_min == 2);
  CHECK(ngram(2, 7).prompt_lookup_max == 7);
}

TEST_CASE("speculation that our engine does not have is refused") {
  const auto check = [](const std::string& method, int64_t tokens, int64_t least, int64_t most) {
    check_supported(args_with([&](EngineArgs& args) {
                      args.draft_method = method;
                      args.draft_tokens = tokens;
                      args.lookup_min = least;
                      args.lookup_max = most;
                    }),
                    tiny());
  };
  CHECK_NOTHROW(check("", 0, 0, 0));
  CHECK_NOTHROW(check("ngram", 1, 3, 3));
  CHECK_THROWS_WITH(check("eagle", 1, 0, 0), Contains("not eagle"));
  CHECK_THROWS_WITH(check("ngram", 0, 0, 0), Contains("num_speculative_tokens"));
  CHECK_THROWS_WITH(check("ngram", 1, 4, 3),
                    Contains("prompt_lookup_min (4) is above prompt_lookup_max (3)"));
  EngineArgs drafting;
  drafting.draft_method = "ngram";
  drafting.draft_tokens = 1;
  const model::ModelSpec recurrent = model::make_model_spec(read_json_file(
      std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/golden/models/mamba/config.json"));
  CHECK_THROWS_WITH(check_supported(drafting, recurrent), Contains("cannot go back"));
  const auto on_card = [](int64_t tokens) {
    return options_with(
        [&](Arguments& a) {
          a.args.draft_method = "ngram";
          a.args.draft_tokens = tokens;
        },
        kCard);
  };
  CHECK_NOTHROW(on_card(0));
  CHECK_THROWS_WITH(on_card(1), Contains("--device cpu"));
}

TEST_CASE("features of vLLM that our engine lacks are refused by their flag") {
  const auto refused = [](auto change) {
    try {
      check_supported(args_with(change), tiny());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused([](EngineArgs&) {}).empty());
  CHECK_THAT(refused([](EngineArgs& a) { a.cpu_offload = 1; }), Contains("--cpu-offload-gb"));
  CHECK_THAT(refused([](EngineArgs& a) { a.overrides = std::make_shared<const Json>(); }),
             Contains("--hf-overrides") && Contains("--rope-scaling"));
  CHECK_THAT(refused([](EngineArgs& a) { a.lora = true; }), Contains("--enable-lora"));
  CHECK(refused([](EngineArgs& a) { a.quantization = "fp8"; }).empty());
  CHECK_THAT(refused([](EngineArgs& a) { a.quantization = "awq"; }),
             Contains("quantizes with fp8 alone"));
  model::ModelSpec quantized = tiny();
  quantized.quantization = "gptq_marlin";
  EngineArgs args;
  for (const char* alike : {"", "gptq", "gptq_marlin", "gptq_bitblas"}) {
    INFO(alike);
    args.quantization = alike;
    CHECK_NOTHROW(check_supported(args, quantized));
  }
  args.quantization = "fp8";
  CHECK_THROWS_WITH(check_supported(args, quantized),
                    Contains("the checkpoint is quantized with gptq_marlin"));
}

TEST_CASE("a context has room for a token of the prompt and one of the answer") {
  const auto check = [](int64_t length) {
    check_values(args_with([&](EngineArgs& args) { args.max_model_len = length; }));
  };
  CHECK_THROWS_WITH(check(1), Contains("at least 2"));
  for (const int64_t length : {-1, 0, 2}) CHECK_NOTHROW(check(length));
  EngineArgs args;
  args.kv_cache_dtype = "fp8_e5m2";
  CHECK_THROWS_WITH(check_values(args), Contains("--kv-cache-dtype fp8_e5m2"));
}

TEST_CASE("the dtype of a run is the one that is asked for, else the model's") {
  const auto dtype = [](const char* asked, DType stored) {
    return run_dtype(tiny(stored), args_with([&](EngineArgs& args) { args.dtype = asked; }));
  };
  CHECK(dtype("auto", DType::bf16) == DType::bf16);
  CHECK(dtype("auto", DType::f64) == DType::f32);
  CHECK(dtype("float16", DType::bf16) == DType::f16);
  CHECK(dtype("float32", DType::f64) == DType::f32);
  const auto notes = [](DType stored, const char* cache, const backend::Footprint& footprint) {
    return dtype_notes(
        tiny(stored), args_with([&](EngineArgs& args) { args.kv_cache_dtype = cache; }), footprint);
  };
  CHECK(notes(DType::bf16, "auto", cpu()).empty());
  CHECK(notes(DType::bf16, "bfloat16", cpu()).empty());
  CHECK(notes(DType::bf16, "fp8", cpu()).empty());
  REQUIRE(notes(DType::f64, "auto", cpu()).size() == 1);
  CHECK_THAT(notes(DType::f64, "auto", cpu()).front(), Contains("float64"));
  REQUIRE(notes(DType::bf16, "float16", cpu()).size() == 1);
  CHECK_THAT(notes(DType::bf16, "float16", cpu()).front(), Contains("keeps the cache in"));
  CHECK(notes(DType::bf16, "float16", kCard).empty());
}

TEST_CASE("the cache has the dtype that is asked for, on the processor where it keeps that") {
  const auto cache = [](const char* asked, const backend::Footprint& footprint) {
    return options_with([&](Arguments& a) { a.args.kv_cache_dtype = asked; }, footprint).kv_dtype;
  };
  for (const backend::Footprint* footprint :
       {&cpu(), static_cast<const backend::Footprint*>(&kCard)}) {
    CHECK(cache("auto", *footprint) == std::nullopt);
    CHECK(cache("fp8", *footprint) == DType::f8_e4m3);
    CHECK(cache("fp8_e4m3", *footprint) == DType::f8_e4m3);
    CHECK(cache("bfloat16", *footprint) == DType::bf16);
  }
  CHECK(cache("float32", cpu()) == std::nullopt);
  CHECK(cache("float32", kCard) == DType::f32);  // refused by the card's limits
}

TEST_CASE("a card's budget is its share, a ceiling, and what other processes leave") {
  const auto budget = [](double share, int64_t ceiling, int64_t reserved) {
    Arguments arguments;
    arguments.args.gpu_memory_utilization = share;
    arguments.ceiling = ceiling;
    arguments.args.reserved = reserved;
    return budget_bytes(arguments, 1000);
  };
  CHECK(budget(0, 0, 0) == 900);
  CHECK(budget(0.5, 0, 0) == 500);
  CHECK(budget(0.5, 1, 0) == 1);
  CHECK(budget(0.5, 2000, 0) == 1000);
  CHECK(budget(0.5, 900, 100) == 900);
  CHECK(budget(0.5, 950, 100) == 900);
  CHECK(budget(0, 0, 100) == 900);
  CHECK(budget(0, 0, 101) == 899);
  CHECK(budget(0, 0, 2000) == 0);
}

TEST_CASE("weights are kept as the flags say") {
  CHECK(keeping({}).activations == quantization::Activations::rounded);
  CHECK(keeping({}).online.empty());
  const auto kept = keeping(args_with([](EngineArgs& args) {
    args.quantized_activations = "off";
    args.quantization = "fp8";
  }));
  CHECK(kept.activations == quantization::Activations::whole);
  CHECK(kept.online == "fp8");
  const auto rounded =
      keeping(args_with([](EngineArgs& args) { args.quantized_activations = "on"; }));
  CHECK(rounded.activations == quantization::Activations::rounded_blocks);
}

TEST_CASE("experts are divided where there are some and the flag asks for it") {
  model::ModelSpec dense = tiny();
  EngineArgs args;
  divide_experts(args, dense);
  CHECK(!dense.whole_experts);
  args.expert_parallel = true;
  CHECK_THROWS_WITH(divide_experts(args, dense), Contains("LlamaForCausalLM has no experts"));
  model::ModelSpec mixture = model::make_model_spec(testing::tiny_config(
      "MixtralForCausalLM", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}}));
  divide_experts(args, mixture);
  CHECK(mixture.whole_experts);
  args.expert_parallel = false;
  divide_experts(args, mixture);
  CHECK(!mixture.whole_experts);
}

TEST_CASE("the most sequences are the last count that holds") {
  for (const int64_t last : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{255}, int64_t{256},
                             kMostSequences - 1, kMostSequences}) {
    CHECK(most_sequences([&](int64_t count) { return count <= last; }) == last);
  }
  CHECK(most_sequences([](int64_t) { return true; }) == kMostSequences);
}

TEST_CASE("how many images and videos a prompt may have, and whether towers are needed") {
  struct Row {
    const char* name;
    std::map<std::string, vllm::ModalityLimit> limits;
    bool language_only;
    int64_t images, videos;
  };
  for (const Row& row : {Row{"no limit", {}, false, 999, 999}, Row{"text alone", {}, true, 0, 0},
                         Row{"text alone over a limit", {{"image", {3}}}, true, 0, 0},
                         Row{"images", {{"image", {3}}}, false, 3, 999},
                         Row{"no images, and so no videos", {{"image", {0}}}, false, 0, 0},
                         Row{"videos alone", {{"image", {0}}, {"video", {2}}}, false, 0, 2},
                         Row{"no videos", {{"video", {0}}}, false, 999, 0}}) {
    INFO(row.name);
    EngineArgs args;
    args.limits = row.limits;
    args.language_only = row.language_only;
    CHECK(most_items(args, "image") == row.images);
    CHECK(most_items(args, "video") == row.videos);
    CHECK((wanted_towers(args) == checkpoint::Towers::wanted) == (row.images + row.videos > 0));
  }
}

TEST_CASE("a draft model has a name") {
  const EngineArgs args = args_with([](EngineArgs& a) {
    a.draft_method = "draft_model";
    a.draft_tokens = 2;
  });
  CHECK_THROWS_WITH(check_supported(args, tiny()), Contains("must name the draft model"));
}

TEST_CASE("a draft model runs beside a model on one rank alone") {
  const auto check = [](int64_t tensor_parallel, int64_t pipeline_parallel) {
    check_supported(args_with([&](EngineArgs& args) {
                      args.draft_method = "draft_model";
                      args.draft_model = "draft";
                      args.draft_tokens = 2;
                      args.tensor_parallel = tensor_parallel;
                      args.pipeline_parallel = pipeline_parallel;
                    }),
                    tiny());
  };
  CHECK_NOTHROW(check(1, 1));
  for (const auto& [tensor, pipeline] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
    INFO(tensor << " x " << pipeline);
    CHECK_THROWS_WITH(check(tensor, pipeline), Contains("on one rank alone"));
  }
}
