// Launches of vLLM that were logged, and what of their machine decides: the sampler, what joins the
// cards, the first boot; and the bounds of what is estimated.
#include <array>
#include <catch2/catch.hpp>

#include "plan/configs.h"
#include "plan/log/vllm_log.h"
#include "plan/report/report.h"
#include "vllm/launch/machine.h"
#include "vllm/launch/sampler.h"
#include "vllm_config.h"

using namespace plimsoll;
using namespace plimsoll::plan;
using namespace plimsoll::vllm;

namespace {

Json qwen3(int64_t hidden, int64_t intermediate, int64_t layers, int64_t heads) {
  Json config = llama_8b();
  config.update({{"architectures", {"Qwen3ForCausalLM"}},
                 {"model_type", "qwen3"},
                 {"hidden_size", hidden},
                 {"intermediate_size", intermediate},
                 {"num_hidden_layers", layers},
                 {"num_attention_heads", heads},
                 {"head_dim", 128},
                 {"vocab_size", 151936},
                 {"max_position_embeddings", 40960}});
  return config;
}

Json qwen2_7b() {
  Json config = llama_8b();
  config.update({{"architectures", {"Qwen2ForCausalLM"}},
                 {"model_type", "qwen2"},
                 {"hidden_size", 3584},
                 {"intermediate_size", 18944},
                 {"num_hidden_layers", 28},
                 {"num_attention_heads", 28},
                 {"num_key_value_heads", 4},
                 {"vocab_size", 152064},
                 {"max_position_embeddings", 32768}});
  return config;
}

Json qwen3_32b_awq() {
  Json config = qwen3(5120, 25600, 64, 64);
  config["torch_dtype"] = "float16";
  config["quantization_config"] = {
      {"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"zero_point", true}};
  return config;
}

EngineArgs on_5090() {
  EngineArgs args = at({0, 24, 0});
  args.max_model_len = 32768;
  args.max_num_seqs = 256;
  args.max_num_batched_tokens = 2048;
  args.gpu_memory_utilization = 0.92;
  args.flashinfer_sampler = false;
  return args;
}

EngineArgs on_a100(double share, int64_t ranks) {
  EngineArgs args = at({0, 10, 1});
  args.max_model_len = 16384;
  args.max_num_batched_tokens = 2048;
  args.gpu_memory_utilization = share;
  args.tensor_parallel = ranks;
  args.flashinfer_sampler = true;
  return args;
}

EngineArgs on_4090_pair() {
  EngineArgs args = at({0, 28, 0});
  args.tensor_parallel = 2;
  args.max_model_len = 8192;
  args.max_num_seqs = 72;
  args.max_num_batched_tokens = 5120;
  args.gpu_memory_utilization = 0.85;
  args.flashinfer_sampler = false;
  return args;
}

}  // namespace

TEST_CASE("the second runner's sampler takes what vLLM 0.33's own takes") {
  // vLLM's Sampler run on the processor, bytes alive counted by a dispatch mode.
  struct Row {
    int64_t rows, vocabulary, tokens, hidden, element;
    int64_t first, flashinfer, filter, state;
  };
  const Row rows[] = {
      {64, 32000, 512, 256, 2, 4422656, 28974592, 12615680, 9603072},
      {128, 50257, 1024, 512, 2, 14133760, 91251200, 39866368, 28838400},
      {64, 32000, 512, 256, 4, 8813568, 33365504, 17006592, 9603072},
      {32, 151936, 256, 128, 2, 9862144, 68148224, 29310976, 20637184},
  };
  const hardware::Gpu& card = hardware::find_gpu("h100");
  for (const Row& row : rows) {
    INFO(row.rows << " x " << row.vocabulary);
    const Step step{row.tokens, row.rows, row.hidden, row.vocabulary, 0, row.element, false};
    const auto bytes = [&](VllmVersion version, bool flashinfer) {
      EngineArgs args = at(version);
      args.flashinfer_sampler = flashinfer;
      return static_cast<double>(second_runner_sampler(args, step, &card).bytes);
    };
    CHECK(bytes({0, 32, 0}, true) == Approx(row.first).epsilon(0.008));
    CHECK(bytes({0, 33, 0}, true) == Approx(row.flashinfer).epsilon(0.0004));
    CHECK(bytes({0, 33, 0}, false) == Approx(row.filter).epsilon(0.003));
    CHECK(static_cast<double>(sampler_state(step, row.rows).value()) ==
          Approx(row.state).epsilon(0.002));
  }
}

TEST_CASE("activation of 0.33 is the larger of the forward pass and the sampler's second pass") {
  const Json config = qwen3(4096, 12288, 36, 32);
  const PlanResult now = plan_of(config, at({0, 33, 0}));
  // (8192 + 1024) x 4096 x 2 + 1024 x 151936 x 14 bytes.
  CHECK(now.activation_peak_bytes == int64_t{9216} * 4096 * 2 + int64_t{1024} * 151936 * 14);
  const PlanResult before = plan_of(config, at({0, 32, 0}));
  CHECK(before.activation_peak_bytes < now.activation_peak_bytes);
  CHECK(now.persistent_bytes == before.persistent_bytes);
  CHECK(now.persistent_bytes > int64_t{1024} * 151936 * 4);
  // Before 0.27 what torch keeps beside the weights was not taken from the budget.
  const PlanResult old = plan_of(config, at({0, 26, 0}));
  CHECK(old.persistent_bytes == 0);
  CHECK(old.kv_cache_bytes > before.kv_cache_bytes);
}

TEST_CASE("logged caches lie near the middle of the plan, and inside its bounds") {
  struct Row {
    const char* name;
    Json config;
    EngineArgs args;
    const char* card;
    double gib;  // logged
    bool cold;
    double percent;
  };
  const Row rows[] = {
      {"A100, a quarter", qwen2_7b(), on_a100(0.25, 1), "A100-SXM4-80GB", 5.0133, false, 2},
      {"A100, a half", qwen2_7b(), on_a100(0.5, 1), "A100-SXM4-80GB", 24.826, false, 1},
      {"two A100", qwen2_7b(), on_a100(0.25, 2), "A100-SXM4-80GB", 12.0215, false, 1},
      {"5090, first boot", qwen3(4096, 12288, 36, 32), on_5090(), "5090", 12.229, true, 1.5},
      {"5090, second boot", qwen3(4096, 12288, 36, 32), on_5090(), "5090", 13.175, false, 1},
      {"two 4090, second boot", qwen3_32b_awq(), on_4090_pair(), "4090", 10.38, false, 1},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const PlanResult plan = plan_of(row.config, row.args, row.card);
    REQUIRE(plan.bounds);
    REQUIRE(plan.cold.has_value() == (row.args.version >= VllmVersion{0, 12, 0}));
    const int64_t middle = row.cold ? plan.cold->cache.kv_cache_bytes : plan.kv_cache_bytes;
    CHECK(std::abs(gib(middle) / row.gib - 1) * 100 < row.percent);
    CHECK(gib(row.cold ? plan.cold->kv_cache.low : plan.bounds->low.kv_cache_bytes) < row.gib);
    CHECK(gib(row.cold ? plan.cold->kv_cache.high : plan.bounds->high.kv_cache_bytes) > row.gib);
  }
}

TEST_CASE("the first boot pays for trial runs on the embedding table") {
  const Json config = qwen3(4096, 12288, 36, 32);
  const PlanResult plan = plan_of(config, on_5090(), "5090");
  REQUIRE(plan.cold);
  CHECK(plan.cold->activation_peak_bytes >= int64_t{151936} * 4096 * 2);
  CHECK(plan.cold->cache.kv_cache_bytes < plan.kv_cache_bytes);
  REQUIRE(plan.bounds);  // the lower edge has what the compiler loads besides, 600 MiB in logs
  const int64_t more = plan.bounds->middle.kv_cache_bytes - plan.cold->kv_cache.middle;
  CHECK(plan.bounds->low.kv_cache_bytes - plan.cold->kv_cache.low == more + 600 * kMiB);
  CHECK(plan.bounds->high.kv_cache_bytes - plan.cold->kv_cache.high == more);
  EngineArgs careful = on_5090();
  careful.assume = Assume::worst;
  CHECK(plan_of(config, careful, "5090").cold->cache.kv_cache_bytes == plan.cold->kv_cache.low);
  CHECK(parse_json<Json>(to_json(plan))["cold_boot"]["num_gpu_blocks"] ==
        plan.cold->cache.num_gpu_blocks);
  CHECK_THAT(to_text(plan, 80), Catch::Contains("First boot (empty compile cache)"));
  // What does not compile has one kind of boot; neither has a cache whose size is told.
  EngineArgs eager = on_5090();
  eager.enforce_eager = true;
  CHECK_FALSE(plan_of(config, eager, "5090").cold);
  CHECK_FALSE(plan_of(config, at({0, 11, 0}), "5090").cold);
  EngineArgs told = on_5090();
  told.kv_cache_memory = 8 * kGib;
  CHECK_FALSE(plan_of(config, told, "5090").cold);
}

TEST_CASE("a launch that fits at the middle alone may fit, and does not by the worst edge") {
  const Json config = qwen3(4096, 12288, 36, 32);
  EngineArgs args = on_5090();
  const PlanResult room = plan_of(config, args, "5090");
  REQUIRE_FALSE(room.may_fit);
  CHECK(verdict_name(room) == "fits");
  // A share of the card at which one request of the whole context just fits a warm boot.
  const double lacking = static_cast<double>(room.kv_cache_bytes) - 32768 * 147456.0;
  args.gpu_memory_utilization =
      0.92 - (lacking - 30.0 * 1024 * 1024) / static_cast<double>(room.total_bytes);
  const PlanResult tight = plan_of(config, args, "5090");
  CHECK(*tight.fits);
  CHECK(tight.may_fit);
  CHECK(verdict_name(tight) == "may fit");
  CHECK_THAT(to_text(tight, 80), Catch::Contains("MAY FIT"));
  REQUIRE(tight.cold);
  CHECK_FALSE(tight.cold->cache.fits);
  args.assume = Assume::worst;
  const PlanResult worst = plan_of(config, args, "5090");
  CHECK_FALSE(*worst.fits);
  CHECK(worst.kv_cache_bytes == worst.bounds->low.kv_cache_bytes);
  CHECK(worst.bounds->middle.kv_cache_bytes == tight.kv_cache_bytes);
  // Plans are compared by their middles.
  const std::string difference = diff_plans(to_json(tight), to_json(worst));
  CHECK_THAT(difference, Catch::Contains("verdict") && !Catch::Contains("kv_cache_bytes"));
}

TEST_CASE("what joins the ranks' cards moves what they hold outside torch") {
  EngineArgs args = at({0, 19, 0});
  args.tensor_parallel = 2;
  const auto outside = [&](Interconnect interconnect, const char* card) {
    args.interconnect = interconnect;
    return gib(plan_of(qwen2_7b(), args, card).non_torch_bytes);
  };
  CHECK(outside(Interconnect::automatic, "h100") == Approx(2.08).epsilon(0.01));
  CHECK(outside(Interconnect::pcie, "h100") == Approx(0.12).epsilon(0.01));
  CHECK(outside(Interconnect::automatic, "4090") == Approx(0.12).epsilon(0.01));
  CHECK(outside(Interconnect::nvlink, "3090") == Approx(0.55).epsilon(0.01));
  // Before 0.24 the fused all-reduce was off beside stages and copies.
  args.data_parallel = 2;
  CHECK(outside(Interconnect::automatic, "h100") == Approx(0.55).epsilon(0.01));
  args.data_parallel = 1;
  args.custom_all_reduce = false;
  CHECK(outside(Interconnect::automatic, "h100") == Approx(0.12).epsilon(0.01));
  const PlanResult plan = plan_of(qwen2_7b(), args, "h100");
  const auto fact = std::ranges::find(plan.machine, "interconnect", &MachineFact::name);
  REQUIRE(fact != plan.machine.end());
  CHECK(fact->value == "PCIe");
  CHECK(fact->source == "--disable-custom-all-reduce");
}

TEST_CASE("weights that are quantized while loading take more than they do later") {
  EngineArgs args = at({0, 16, 0});
  args.quantization = "fp8";
  args.max_model_len = 2048;
  // Before 0.17 the whole model stood on the card in 16 bits first: 15.0 GiB on one of 14.6.
  const PlanResult whole = plan_of(llama_8b(), args, "t4");
  CHECK(gib(whole.loading_peak_bytes) == Approx(15.1).epsilon(0.01));
  CHECK_FALSE(whole.fits.value_or(true));
  CHECK_THAT(whole.reason,
             Catch::Contains("CUDA out of memory while loading: weights of 15.") &&
                 Catch::Contains(" per GPU, with what is quantized or reordered meanwhile, on a "));
  args.version = {0, 17, 0};
  const PlanResult layers = plan_of(llama_8b(), args, "t4");
  CHECK(gib(layers.loading_peak_bytes - layers.weights_bytes) == Approx(0.41).epsilon(0.02));
  CHECK(layers.reason.find("while loading") == std::string::npos);
  CHECK_THAT(to_text(layers, 80), Catch::Contains("While loading: 8.9"));
  args.quantization.clear();
  CHECK(plan_of(llama_8b(), args, "h100").loading_peak_bytes <=
        plan_of(llama_8b(), args, "h100").weights_bytes);
}

TEST_CASE("the plan names what the host holds on all ranks together") {
  EngineArgs args;
  args.tensor_parallel = 2;
  args.cpu_offload = 2 * kGib;
  const PlanResult plan = plan_of(llama_8b(), args);
  const auto part = [&](const char* name) {
    const auto found = std::ranges::find(plan.host, name, &PlanPart::name);
    return found == plan.host.end() ? 0 : found->bytes;
  };
  CHECK(plan.host_processes == 4);
  CHECK(part("offloaded weights") == 4 * kGib);
  CHECK(part("tables of tokens") == int64_t{1024} * 131072 * 4 * 2);
  CHECK(part("bitmasks of grammars") == int64_t{1024} * (128256 / 32) * 4);
  CHECK(part("processed inputs") == 0);
  CHECK_THAT(to_text(plan, 80),
             Catch::Contains("Memory of the host") && Catch::Contains("own memory of 4 processes"));
  CHECK(parse_json<Json>(to_json(plan))["host"]["parts"].size() == 3);
  CHECK_THAT(to_html(plan), Catch::Contains("<p id=\"bounds\">KV cache"));
}

TEST_CASE("the host holds for all ranks what ranks hold, and for each engine what engines do") {
  EngineArgs args;
  args.tensor_parallel = 2;
  args.data_parallel = 3;
  args.draft_method = "ngram";
  args.draft_tokens = 4;
  const PlanResult plan = plan_of(llama_8b(), args);
  const auto part = [&](const char* name) {
    const auto found = std::ranges::find(plan.host, name, &PlanPart::name);
    return found == plan.host.end() ? 0 : found->bytes;
  };
  CHECK(plan.host_processes == 1 + 3 + 6);
  CHECK(part("tables of tokens") == int64_t{1024} * 131072 * 4 * 6);
  CHECK(part("bitmasks of grammars") == int64_t{1024} * 5 * (128256 / 32) * 4 * 3);
}

TEST_CASE("attention's backend decides whether FlashInfer's workspace is taken") {
  EngineArgs args = at({0, 26, 0});
  const auto graphs = [&](const char* backend) {
    args.attention_backend = backend;
    return plan_of(llama_8b(), args, "b200").cuda_graph_bytes;
  };
  CHECK(graphs("FLASHINFER") == graphs(""));
  CHECK(graphs("FLASHINFER") - graphs("FLASH_ATTN") == 394 * kMiB);
  CHECK(stated_backend("FLASH_ATTN", {0, 14, 0}) == "FLASH_ATTN");
  CHECK(stated_backend("FLASH_ATTN", {0, 15, 0}).empty());
}

TEST_CASE("caches of 8 bits are read with FlashInfer but on Hopper, on old cards until 0.24") {
  const auto attends = [](const char* card, const VllmVersion& version, bool fp8_cache) {
    return attends_with_flashinfer(at(version), &hardware::find_gpu(card), {}, fp8_cache);
  };
  for (const char* card : {"t4", "a100-80gb", "h100"}) {
    INFO(card);
    const std::string name = card;
    CHECK(attends(card, {0, 23, 9}, true) == (name != "h100"));
    CHECK(attends(card, {0, 24, 0}, true) == (name == "a100-80gb"));
    CHECK_FALSE(attends(card, {0, 23, 9}, false));
  }
}

TEST_CASE("a card without a name is no Hopper where it has not the memory") {
  const hardware::Gpu small = hardware::unnamed_gpu(6 * kGib);
  const hardware::Gpu large = hardware::unnamed_gpu(80 * kGib);
  CHECK(gemm_workspace(&small) == 8 * kMiB);
  CHECK(gemm_workspace(&large) == 32 * kMiB);
}

TEST_CASE("a log is compared with its plan part by part, and says which assumption was wrong") {
  const std::string cold =
      "INFO [utils.py:299] version 0.24.0\n"
      "INFO [gpu_model_runner.py:1] Model loading took 15.27 GiB memory and 3.5 seconds\n"
      "INFO [gpu_worker.py:1] Available KV cache memory: 12.23 GiB\n"
      "INFO [kv_cache_utils.py:1] GPU KV cache size: 89,040 tokens\n";
  REQUIRE(is_vllm_log(cold));
  CHECK_FALSE(is_vllm_log(R"({"memory": {"planned_bytes": 1}})"));
  const VllmLog log = read_vllm_log(cold);
  CHECK(log.version == "0.24.0");
  CHECK(log.weights == 15.27);
  CHECK(log.available == 12.23);
  CHECK(log.tokens == 89040);
  CHECK_FALSE(log.warm);
  const PlanResult plan = plan_of(qwen3(4096, 12288, 36, 32), on_5090(), "5090");
  const LogCheck check = check_log(log, plan);
  CHECK(check.inside);
  REQUIRE(check.causes.size() == 1);
  CHECK_THAT(check.causes.front(), Catch::Contains("cold boot"));
  // A warm boot with that little is outside.
  const LogCheck warm =
      check_log(read_vllm_log("Directly load the compiled graph(s)\n" + cold), plan);
  CHECK_FALSE(warm.inside);
  const VllmLog other = read_vllm_log(
      "Free memory on device cuda:0 (20.5/31.38 GiB) on startup. Desired GPU memory utilization is "
      "(0.9, 28.24 GiB). Actual usage is 15.4 GiB for consumed memory (weights + non-torch), 0.42 "
      "GiB for peak activation, and 0.07 GiB for CUDAGraph memory.");
  CHECK(other.consumed == 15.4);
  CHECK(other.activation == 0.42);
  CHECK(other.free_at_start == 20.5);
  const std::vector<std::string> causes = check_log(other, plan).causes;
  REQUIRE(causes.size() == 2);
  CHECK_THAT(causes.front(), Catch::Contains("--gpu-memory-utilization 0.9"));
  CHECK_THAT(causes.back(), Catch::Contains("10.88 GiB of the card were held before the launch"));
  CHECK_THAT(log_table(check, log, plan).back(), Catch::StartsWith("0.24.0,"));
}

TEST_CASE("the host of a GB10 holds a part of its memory; of other cards a context is taken") {
  const auto context = [](const char* gpu, int ranks) {
    EngineArgs args;
    args.tensor_parallel = ranks;
    return gib(context_bytes(args, &hardware::find_gpu(gpu)));
  };
  CHECK(context("gb10", 1) == Approx(8.45));
  CHECK(context("gb10", 2) == Approx(8.45));
  CHECK(context("gh200-144gb", 1) == context("h100", 1));  // unified too, but its host has its own
  CHECK(context("3090", 1) < context("h100", 1));
  CHECK(context("h100", 2) - context("h100", 1) == Approx(1.5));
  CHECK(context("3090", 2) - context("3090", 1) == Approx(0.5));
  CHECK(context("rtx-5080", 2) - context("rtx-5080", 1) == Approx(0.5));  // has no NVLink
  EngineArgs plain;  // the card's NVLink is there whatever the all-reduce is
  plain.tensor_parallel = 2, plain.custom_all_reduce = false;
  CHECK(gib(context_bytes(plain, &hardware::find_gpu("h100"))) == Approx(context("h100", 2)));
}

TEST_CASE("what a GB10's host takes in the meantime is gone from the card") {
  // Of 3.35 GiB that 0.27.1 consumed 1.12 were weights.
  const auto outside = [](const char* gpu, int ranks) {
    EngineArgs args = at({0, 27, 1});
    args.tensor_parallel = ranks;
    const PlanPart part = non_torch_part(args, &hardware::find_gpu(gpu));
    return std::array{gib(part.bytes - part.less), gib(part.bytes), gib(part.bytes + part.more)};
  };
  for (const char* gpu : {"gb10", "thor"}) {
    for (const int ranks : {1, 2}) {
      const auto [least, usual, most] = outside(gpu, ranks);
      CHECK(least == Approx(1.0));
      CHECK(usual == Approx(2.0));
      CHECK(most == Approx(5.7));
    }
  }
  CHECK(outside("gh200-144gb", 1) == outside("h100", 1));
}
