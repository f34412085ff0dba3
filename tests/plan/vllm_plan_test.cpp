// vLLM's launch from a config: weights of published models, defaults by card, refusals of hostile
// input.
#include "plan/vllm_plan.h"
#include "plan/configs.h"

#include <catch2/catch.hpp>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "plan/report/report.h"
#include "plan/solver.h"
#include "vllm/launch/defaults.h"
#include "vllm/launch/messages.h"
#include "vllm_config.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

Json llama() {
  return parse_json<Json>(
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","torch_dtype":"bfloat16",
    "hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
    "vocab_size":128256,"max_position_embeddings":131072,"rope_theta":500000.0,"tie_word_embeddings":false})");
}

}  // namespace

TEST_CASE("parameters and buffers of published models on one rank") {
  struct Case {
    const char* file;
    int64_t ranks, parameters, buffers;
  };
  const std::vector<Case> cases = {
      {"llama-3.1-8b", 1, 16060522496, 33554944},    {"llama-2-7b", 1, 13476831232, 1049088},
      {"qwen2.5-vl-3b", 1, 7509245952, 131727936},   {"gemma-3-27b-it", 1, 54864813280, 302023650},
      {"gemma-3-27b-it", 2, 27445541488, 302023650}, {"internvl2-2b", 1, 4411959296, 8388992},
      {"internvl2-2b", 8, 576950272, 8388992},
  };
  for (const Case& c : cases) {
    INFO(c.file << " on " << c.ranks);
    const Json config = test::vllm_config(kConfigs + c.file + ".json");
    EngineArgs args;
    args.tensor_parallel = c.ranks;
    args.available_kv = int64_t{40} << 30;
    const PlanResult result = plan_of(config, args);
    CHECK(result.parameter_bytes == c.parameters);
    CHECK(result.buffer_bytes == c.buffers);
  }
}

TEST_CASE("defaults step at 70 and at 160 GiB, and an A100 stays below") {
  const auto limits = [](const char* gpu, VllmVersion version) {
    EngineArgs args;
    args.version = version;
    return resolve_limits(args, &hardware::find_gpu(gpu), 32768);
  };
  const VllmVersion now{0, 32, 0};
  CHECK(limits("h100", now).max_num_seqs == 1024);
  CHECK(limits("h100", now).max_num_batched_tokens == 8192);
  CHECK(limits("a100-80gb", now).max_num_seqs == 256);
  CHECK(limits("a100-80gb", now).max_num_batched_tokens == 2048);
  CHECK(limits("4090", now).max_num_batched_tokens == 2048);
  CHECK(limits("b200", now).max_num_batched_tokens == 16384);
  CHECK(limits("b200", {0, 27, 0}).max_num_batched_tokens == 8192);
  const auto unnamed = [&](int64_t mib) {
    hardware::Gpu gpu = hardware::unnamed_gpu(mib << 20);
    EngineArgs args;
    return resolve_limits(args, &gpu, 32768).max_num_seqs;
  };
  CHECK(unnamed(60 * 1024) == 256);
  CHECK(unnamed(72 * 1024) == 1024);
  CHECK(limits("h100", {0, 19, 1}).utilization == 0.90);
  CHECK(limits("h100", {0, 20, 0}).utilization == 0.92);
  // Read off the releases' own arg_utils.py.
  CHECK(limits("a100-80gb", {0, 8, 5}).max_num_batched_tokens == 8192);
  CHECK(limits("a100-80gb", {0, 8, 4}).max_num_batched_tokens == 2048);
  CHECK(limits("a100-80gb", {0, 8, 4}).max_num_seqs == 256);
  CHECK(limits("a100-80gb", {0, 8, 3}).max_num_seqs == 1024);
  CHECK(limits("h100", {0, 8, 0}).max_num_batched_tokens == 8192);
}

TEST_CASE("steps of a large card are twice as large offline, and four times in a server") {
  struct Row {
    const char* card;
    Usage usage;
    int64_t tokens, sequences;
  };
  for (const Row& row :
       {Row{"h100", Usage::server, 8192, 1024}, Row{"h100", Usage::offline, 16384, 1024},
        Row{"a100-80gb", Usage::server, 2048, 256}, Row{"a100-80gb", Usage::offline, 8192, 256},
        Row{"h100", Usage::batch, 2048, 128}}) {
    INFO(row.card << " " << static_cast<int>(row.usage));
    EngineArgs args;
    args.usage = row.usage;
    const PlanResult plan = plan_of(llama_8b(), args, row.card);
    CHECK(plan.max_num_batched_tokens == row.tokens);
    CHECK(plan.max_num_seqs == row.sequences);
  }
}

TEST_CASE("the performance mode doubles defaults of a step, or records each small one") {
  const auto planned = [](Pace pace, const std::function<void(EngineArgs&)>& change) {
    EngineArgs args = at({0, 17, 0});
    args.pace = pace;
    change(args);
    return plan_of(llama_8b(), args, "l40s");
  };
  const auto steps = [&](Pace pace, const std::function<void(EngineArgs&)>& change) {
    const PlanResult plan = planned(pace, change);
    return std::pair(plan.max_num_batched_tokens, plan.max_num_seqs);
  };
  const auto nothing = [](EngineArgs&) {};
  using Steps = std::pair<int64_t, int64_t>;
  // Logged by 0.17.0: 4096 tokens, and graphs of whole steps up to 512 sequences.
  CHECK(steps(Pace::throughput, nothing) == Steps(4096, 512));
  CHECK(steps(Pace::interactivity, nothing) == Steps(2048, 256));
  const auto stated = [](EngineArgs& args) {
    args.max_num_seqs = 64, args.max_num_batched_tokens = 1024;
  };
  CHECK(steps(Pace::throughput, stated) == Steps(1024, 64));
  // Sizes 1, 2, 4, 8 ... 128, or 1 to 32 and 40 ... 128; each as a part and as a whole step, as
  // far as there are sequences for it.
  CHECK(planned(Pace::balanced, stated).cuda_graphs == 19 + 11);
  CHECK(planned(Pace::interactivity, stated).cuda_graphs == 44 + 36);
  CHECK(planned(Pace::throughput, stated).cuda_graphs == 19 + 11);
  EngineArgs older = at({0, 16, 0});
  older.pace = Pace::throughput;
  CHECK_THAT(refusal_of(llama_8b(), older), Catch::Contains("unrecognized arguments"));
}

TEST_CASE("hostile configs are refused by key, value and what was expected") {
  struct Case {
    const char* key;
    const char* value;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"vocab_size", "1099511627776", "vocab_size"},
      {"num_hidden_layers", "0", "num_hidden_layers"},
      {"num_hidden_layers", "1000000000", "num_hidden_layers"},
      {"num_attention_heads", "0", "num_attention_heads"},
      {"num_key_value_heads", "0", "num_key_value_heads"},
      {"num_key_value_heads", "5", "divisor"},
      {"num_attention_heads", "33", "divisor"},
      {"hidden_size", "-4096", "hidden_size"},
      {"hidden_size", "\"big\"", "hidden_size"},
      {"hidden_size", "4096.5", "hidden_size"},
      {"intermediate_size", "-1", "intermediate_size"},
      {"torch_dtype", "7", "torch_dtype"},
      {"architectures", "\"Llama\"", "architectures"},
      {"rope_scaling", R"({"rope_type":"linear","factor":"NaN"})", "factor"},
      {"quantization_config", R"({"quant_method":"fp8","weight_block_size":[0,128]})",
       "weight_block_size"},
      {"quantization_config", R"({"quant_method":"sorcery"})", "sorcery"},
      {"vocab_size", "null", "vocab_size"},
  };
  for (const Case& c : cases) {
    INFO(c.key << " = " << c.value);
    Json config = llama();
    config[c.key] = parse_json<Json>(c.value);
    try {
      plan_of(config);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::checkpoint_unusable);
      CHECK_THAT(error.what(), Catch::Contains(c.says));
    }
  }
}

TEST_CASE("absurd sizes never fit, and end in no crash") {
  Json config = llama();
  for (const char* key : {"hidden_size", "intermediate_size", "vocab_size"})
    config[key] = int64_t{1} << 31;
  config["num_attention_heads"] = 1 << 20;
  config["num_key_value_heads"] = 1 << 20;
  config["num_hidden_layers"] = 1000;
  const PlanResult result = plan_of(config);
  REQUIRE(result.fits);
  CHECK_FALSE(*result.fits);
  CHECK(result.parameter_bytes == Amount::kMost);
  CHECK_FALSE(to_json(result).empty());
  CHECK_FALSE(to_text(result, 80).empty());
}

TEST_CASE("tensor-parallel sizes that vLLM refuses are usage errors") {
  Json config = llama();
  for (const int64_t ranks : {3, 5, 7, 64}) {
    EngineArgs args;
    args.tensor_parallel = ranks;
    CHECK_THROWS_AS(plan_of(config, args), Error);
  }
}

TEST_CASE("more memory never holds less, at given sequences and tokens") {
  const Json config = llama();
  EngineArgs args;
  args.max_num_seqs = 128;
  args.max_num_batched_tokens = 4096;
  int64_t before = -1;
  for (int64_t gib = 8; gib <= 300; gib += 4) {
    const hardware::Gpu gpu = hardware::unnamed_gpu(gib << 30);
    const PlanResult result = plan_vllm({config, "config.json"}, args, &gpu);
    CHECK(result.num_gpu_blocks >= before);
    before = result.num_gpu_blocks;
  }
}

TEST_CASE("a longer context never needs less, and auto is the longest that fits") {
  const Json config = llama();
  EngineArgs args;
  args.available_kv = int64_t{3} << 30;
  const PlanResult whole = plan_of(config, args);
  REQUIRE(whole.auto_max_model_len > 0);
  args.max_model_len = whole.auto_max_model_len;
  CHECK(*plan_of(config, args).fits);
  args.max_model_len = whole.auto_max_model_len + 1;
  CHECK_FALSE(*plan_of(config, args).fits);
}

TEST_CASE("the most sequences fit, one more does not") {
  const Json config = llama();
  const PlanFunction plan = [&](const EngineArgs& a, const hardware::Gpu* gpu) {
    return plan_vllm({config, "config.json"}, a, gpu);
  };
  EngineArgs args;
  args.max_model_len = 8192;
  const hardware::Gpu& gpu = hardware::find_gpu("l40s");
  const PlanResult best = solve_sequences(plan, args, &gpu);
  CHECK(best.max_concurrency >= static_cast<double>(best.max_num_seqs));
  args.max_num_seqs = best.max_num_seqs + 1;
  CHECK(plan(args, &gpu).max_concurrency < static_cast<double>(args.max_num_seqs));
}

TEST_CASE("what a limit on images saves, and what saves nothing") {
  const Json config = test::vllm_config(kConfigs + "qwen2.5-vl-3b.json");
  EngineArgs args;
  args.max_model_len = 8192;
  const PlanResult all = plan_of(config, args);
  args.limits = {{"image", {3, 0, 0, 0}}, {"video", {1, 0, 0, 0}}};
  CHECK(plan_of(config, args).activation_peak_bytes == all.activation_peak_bytes);
  args.limits = {{"image", {1, 0, 0, 0}}, {"video", {0, 0, 0, 0}}};
  const PlanResult images = plan_of(config, args);
  CHECK(images.activation_peak_bytes <= all.activation_peak_bytes);
  args.limits = {{"image", {0, 0, 0, 0}}, {"video", {0, 0, 0, 0}}};
  CHECK(plan_of(config, args).weights_bytes < images.weights_bytes);
  args.version = {0, 14, 0};  // built whatever the limits
  CHECK(plan_of(config, args).parameter_bytes == images.parameter_bytes);
}

TEST_CASE("names of cards match loosely") {
  CHECK(hardware::find_gpu("H100-80GB").name == "H100-SXM5-80GB");
  CHECK(hardware::find_gpu("h100").name == "H100-SXM5-80GB");
  CHECK(hardware::find_gpu("NVIDIA H100 80GB HBM3").name == "H100-SXM5-80GB");
  CHECK(hardware::find_gpu("GeForce RTX 4090").name == "RTX-4090");
  CHECK(hardware::find_gpu("a100-40gb").name == "A100-SXM4-40GB");
  CHECK(hardware::find_gpu("h200 141gb").name == "H200-SXM5-141GB");
  // Whole words alone; a size is no card.
  for (const char* name : {"voodoo2", "x", "1", "h10", "h1000", "16GB", "a100 pcie", "rtx"})
    CHECK_THROWS_AS(hardware::find_gpu(name), Error);
  // A slice or a laptop's GPU is meant where its name says so, and no card is then.
  for (const auto& [name, row, mib] :
       {std::tuple{"NVIDIA H100 80GB HBM3 MIG 3g.40gb", "H100-SXM5-80GB-MIG-3g.40gb", 40448},
        std::tuple{"NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "H100-SXM5-80GB-MIG-1g.10gb", 9984},
        std::tuple{"h100 1g.10gb", "H100-SXM5-80GB-MIG-1g.10gb", 9984},
        std::tuple{"NVIDIA A100 80GB PCIe MIG 2g.20gb", "A100-80GB-MIG-2g.20gb", 19968},
        std::tuple{"NVIDIA GeForce RTX 4090 Laptop GPU", "RTX-4090-Laptop", 16376},
        std::tuple{"4070 laptop", "RTX-4070-Laptop", 8188},
        std::tuple{"4060 ti 8gb", "RTX-4060-Ti-8GB", 8188},
        std::tuple{"NVIDIA GeForce RTX 4090 D", "RTX-4090-D", 24564},
        std::tuple{"NVIDIA A2", "A2", 15356}, std::tuple{"h100 sxm5", "H100-SXM5-80GB", 81559}}) {
    INFO(name);
    CHECK(hardware::find_gpu(name).name == row);
    CHECK(hardware::find_gpu(name).memory_bytes == int64_t{mib} << 20);
  }
  const hardware::Gpu& slice = hardware::find_gpu("h200 1g.18gb");
  CHECK(slice.visible_bytes() == int64_t{16} << 30);
  for (const char* name : {"3070 ti", "1g.10gb", "a100 1g.10gb", "4090 laptop 8gb"})
    CHECK_THROWS_AS(hardware::find_gpu(name), Error);
  for (const char* name : {"gb10", "gh200-144gb", "b100", "orin", "thor", "5060"})
    CHECK(hardware::find_gpu(name).memory_bytes > 0);
  CHECK(hardware::gpu_note("h100", hardware::find_gpu("h100")).empty());
  CHECK(hardware::gpu_note("v100-16gb", hardware::find_gpu("v100-16gb")).empty());
  CHECK(hardware::find_gpu("v100 32").name == "V100-SXM2-32GB");
  CHECK(hardware::gpu_note("a100-80", hardware::find_gpu("a100-80")).empty());
  CHECK_THROWS_AS(hardware::find_gpu("v100 24"), Error);
  CHECK_FALSE(hardware::gpu_note("v100", hardware::find_gpu("v100")).empty());
  CHECK_FALSE(hardware::gpu_note("4060 ti", hardware::find_gpu("4060 ti")).empty());
  CHECK_THROWS_AS(hardware::find_gpu(""), Error);
}

TEST_CASE("every number of the text is in the JSON, and every part explains itself") {
  const PlanResult result = plan_of(llama());
  const Json json = parse_json<Json>(to_json(result));
  for (const char* key : {"fits",
                          "engine",
                          "gpu",
                          "total_bytes",
                          "budget_bytes",
                          "parameter_bytes",
                          "buffer_bytes",
                          "weights_bytes",
                          "activation_peak_bytes",
                          "non_torch_bytes",
                          "cuda_graph_bytes",
                          "kv_cache_bytes",
                          "kv_bytes_per_token",
                          "num_gpu_blocks",
                          "block_size",
                          "kv_tokens",
                          "max_concurrency",
                          "max_model_len",
                          "estimated_max_model_len",
                          "kv_kinds",
                          "group_sizes",
                          "parts"}) {
    CHECK(json.contains(key));
  }
  CHECK(json["weights_bytes"] == json["parameter_bytes"].get<int64_t>() +
                                     json["buffer_bytes"].get<int64_t>() +
                                     json.value("segment_bytes", int64_t{0}));
  for (const PlanPart& part : result.parts) {
    CHECK_THAT(explain_part(result, part.name), Catch::Contains(std::to_string(part.bytes)));
  }
  CHECK_THROWS_AS(explain_part(result, "flux capacitor"), Error);
  CHECK(diff_plans(to_json(result), to_json(result)) == "no difference\n");
}

TEST_CASE("lines of the text are at most 80 columns wide") {
  const std::string text = to_text(plan_of(test::vllm_config(kConfigs + "llama-2-70b.json")), 80);
  size_t from = 0;
  while (from < text.size()) {
    const size_t end = text.find('\n', from);
    CHECK(end - from <= 80);
    from = end + 1;
  }
}

TEST_CASE("a cache that is too small is answered in each release's own words") {
  constexpr int64_t kGib = int64_t{1} << 30;
  const auto text = [&](VllmVersion version, int64_t estimate) {
    EngineArgs args;
    args.version = version;
    return too_long_message(args, 8192, kGib, kGib / 2, estimate);
  };
  CHECK(text({0, 8, 3}, 4096) ==
        "To serve at least one request with the models's max seq len (8192), (1.00 GB KV cache is "
        "needed, which is larger than the available KV cache memory (0.50 GB). Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.");
  CHECK(text({0, 9, 0}, 4096) ==
        "To serve at least one request with the models's max seq len (8192), (1.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (0.50 GiB). Based on the "
        "available memory,  Try increasing `gpu_memory_utilization` or decreasing `max_model_len` "
        "when initializing the engine.");
  CHECK(text({0, 12, 0}, 0) ==
        "To serve at least one request with the models's max seq len (8192), (1.00 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (0.50 GiB).  Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.");
  CHECK(text({0, 21, 0}, 4096) ==
        "To serve at least one request with the models's max seq len (8192), (1.0 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (0.5 GiB). Based on the "
        "available memory, the estimated maximum model length is 4096. Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine. See "
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.");
  CHECK(no_memory_message({0, 12, 0}) ==
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.");
  CHECK_THAT(no_memory_message({0, 22, 0}),
             Catch::Contains("on the CPU backend, despite its name"));
}

TEST_CASE("a stated cache is planned without a card") {
  EngineArgs args;
  args.kv_cache_memory = int64_t{8} << 30;
  const PlanResult stated = plan_vllm({llama_8b(), "config.json"}, args, nullptr);
  CHECK(stated.kv_cache_bytes == args.kv_cache_memory);
  CHECK(stated.kv_tokens == args.kv_cache_memory / (32 * 2 * 8 * 128 * 2));
  CHECK(stated.gpu.empty());
  CHECK(stated.total_bytes == 0);
  const PlanResult none = plan_vllm({llama_8b(), "config.json"}, {}, nullptr);
  CHECK(none.kv_cache_bytes == 0);
  CHECK_FALSE(none.fits);
}
