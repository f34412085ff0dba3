// Advice about plans that are made up: which changes are proposed at each bound, what is lacking,
// and in which order they stand.
#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/configs.h"
#include "plan/solver.h"

using namespace plimsoll;
using namespace plimsoll::plan;

namespace {

/// A launch without a verdict whose parts take 20 GiB of a budget of 16.
PlanResult lacking_launch() {
  PlanResult result;
  result.engine = "vllm";
  result.fits = false;
  result.weights_bytes = 12 * kGib;
  result.activation_peak_bytes = 3 * kGib;
  result.non_torch_bytes = 2 * kGib;
  result.persistent_bytes = 2 * kGib;
  result.cuda_graph_bytes = kGib;
  result.budget_bytes = 16 * kGib;
  result.max_model_len = 4096;
  result.max_num_seqs = 256;
  result.max_num_batched_tokens = 8192;
  result.gpu_memory_utilization = 0.9;
  return result;
}

/// Advice where each change saves a byte, and fits where `fits` says so.
std::vector<Suggestion> advice_on(
    const PlanResult& base, const EngineArgs& args = {},
    const std::function<void(const EngineArgs&, PlanResult&)>& change = {}) {
  const PlanFunction plan = [&](const EngineArgs& changed, const hardware::Gpu*) {
    PlanResult result = base;
    result.activation_peak_bytes -= 1;
    if (change) change(changed, result);
    return result;
  };
  return advise(plan, args, &hardware::find_gpu("h100"), base);
}

bool proposes(const std::vector<Suggestion>& advice, const std::string& flag) {
  return std::ranges::any_of(advice, [&](const Suggestion& s) { return s.flag == flag; });
}

/// The flags of single changes that begin so.
std::vector<std::string> proposed(const std::vector<Suggestion>& advice, const std::string& start) {
  std::vector<std::string> flags;
  for (const Suggestion& suggestion : advice)
    if (suggestion.measures == 1 && suggestion.flag.starts_with(start))
      flags.push_back(suggestion.flag);
  return flags;
}

}  // namespace

TEST_CASE("half a context is proposed down to 256 tokens") {
  PlanResult base = lacking_launch();
  base.max_model_len = 512;
  CHECK(proposes(advice_on(base), "--max-model-len 256"));
  base.max_model_len = 511;
  CHECK(proposed(advice_on(base), "--max-model-len").empty());
  base.max_model_len = 4096;
  base.estimated_max_model_len = 4096;  // the longest is the launch's own
  CHECK(proposed(advice_on(base), "--max-model-len") ==
        std::vector<std::string>{"--max-model-len 2048"});
}

TEST_CASE("fewer sequences and tokens are proposed than the launch has") {
  using Flags = std::vector<std::string>;
  PlanResult base = lacking_launch();
  const auto sequences = [&](int64_t count) {
    base.max_num_seqs = count;
    return proposed(advice_on(base), "--max-num-seqs");
  };
  CHECK(sequences(65) == Flags{"--max-num-seqs 64"});
  CHECK(sequences(64) == Flags{"--max-num-seqs 16"});
  CHECK(sequences(17) == Flags{"--max-num-seqs 16"});
  CHECK(sequences(16).empty());
  const auto tokens = [&](int64_t count) {
    base.max_num_batched_tokens = count;
    return proposed(advice_on(base), "--max-num-batched-tokens");
  };
  CHECK(tokens(2049) == Flags{"--max-num-batched-tokens 2048"});
  CHECK(tokens(2048) == Flags{"--max-num-batched-tokens 512"});
  CHECK(tokens(512).empty());

  KvKindCount state;
  state.spec.kind = KvKind::state;
  base.kv_kinds = {state};
  base.num_gpu_blocks = 40;
  CHECK(sequences(41) == Flags{"--max-num-seqs 40", "--max-num-seqs 16"});
  CHECK(sequences(40) == Flags{"--max-num-seqs 16"});
  base.num_gpu_blocks = 0;
  CHECK(sequences(41) == Flags{"--max-num-seqs 16"});
}

TEST_CASE("what is lacking is kept on the host, in whole GiB") {
  PlanResult base = lacking_launch();  // 20 GiB of 16
  CHECK(proposes(advice_on(base), "--cpu-offload-gb 4"));
  base.persistent_bytes += 1;
  CHECK(proposes(advice_on(base), "--cpu-offload-gb 5"));
  base.offloaded_bytes = 1;  // they are not on the card
  CHECK(proposes(advice_on(base), "--cpu-offload-gb 4"));
  base.budget_bytes = 100 * kGib;  // nothing is lacking: a quarter of the weights
  CHECK(proposes(advice_on(base), "--cpu-offload-gb 3"));
  base.weights_bytes = 3 * kGib;
  CHECK(proposes(advice_on(base), "--cpu-offload-gb 1"));
  EngineArgs args;
  args.cpu_offload = kGib;
  CHECK(proposed(advice_on(base, args), "--cpu-offload-gb").empty());
}

TEST_CASE("a larger share is proposed below 0.95, and no quantization of quantized weights") {
  PlanResult base = lacking_launch();
  CHECK(proposes(advice_on(base), "--gpu-memory-utilization 0.95"));
  CHECK(proposes(advice_on(base), "--quantization fp8"));
  base.gpu_memory_utilization = 0.95;
  base.quantized = true;
  const std::vector<Suggestion> advice = advice_on(base);
  CHECK_FALSE(proposes(advice, "--gpu-memory-utilization 0.95"));
  CHECK(proposed(advice, "--quantization").empty());
}

TEST_CASE("the fewest cards that fit are proposed, of those whose part of the weights fits") {
  PlanResult base = lacking_launch();
  const auto from = [](int64_t least) {
    return [least](const EngineArgs& args, PlanResult& result) {
      result.fits = args.tensor_parallel >= least;
    };
  };
  CHECK(proposes(advice_on(base, {}, from(2)), "--tensor-parallel-size 2"));
  CHECK(proposes(advice_on(base, {}, from(3)), "--tensor-parallel-size 4"));
  CHECK(proposes(advice_on(base, {}, from(8)), "--tensor-parallel-size 8"));
  CHECK(proposes(advice_on(base, {}, from(9)), "--tensor-parallel-size 2"));  // none fits
  base.weights_bytes = 33 * kGib;  // a half is more than the budget
  CHECK(proposes(advice_on(base, {}, from(2)), "--tensor-parallel-size 4"));
}

TEST_CASE("a change after which vLLM runs its first engine says so") {
  PlanResult base = lacking_launch();
  const auto falls_back = [](const EngineArgs& args, PlanResult& result) {
    result.first_engine = args.kv_cache_dtype == "fp8";
  };
  const auto cost_of = [&](const std::string& flag) {
    for (const Suggestion& suggestion : advice_on(base, {}, falls_back))
      if (suggestion.flag == flag) return suggestion.cost;
    return std::string();
  };
  CHECK_THAT(cost_of("--kv-cache-dtype fp8"), Catch::EndsWith("vLLM falls back to its V0 engine"));
  CHECK_THAT(cost_of("--max-num-seqs 64"), !Catch::Contains("V0"));
  base.first_engine = true;
  CHECK_THAT(cost_of("--kv-cache-dtype fp8"), !Catch::Contains("V0"));
}

TEST_CASE("changes are combined where none alone is enough, but for more cards and the host") {
  const PlanResult base = lacking_launch();
  // Each of two takes half of what is lacking.
  const auto halves = [](const EngineArgs& args, PlanResult& result) {
    const int64_t changed =
        (args.max_num_seqs == 64 ? 1 : 0) + (args.kv_cache_dtype == "fp8" ? 1 : 0);
    result.activation_peak_bytes -= changed * 2 * kGib;
    result.fits = changed == 2 || args.cpu_offload > 0;
  };
  const std::vector<Suggestion> advice = advice_on(base, {}, halves);
  const auto pair =
      std::ranges::find_if(advice, [](const Suggestion& s) { return s.measures == 2 && s.fits; });
  REQUIRE(pair != advice.end());
  CHECK_THAT(pair->flag,
             Catch::Contains("--max-num-seqs 64") && Catch::Contains("--kv-cache-dtype fp8"));
  CHECK(proposes(advice, "--cpu-offload-gb 4"));
  const auto is_pair = [](const Suggestion& s) { return s.measures == 2; };
  const auto one = [](const EngineArgs& args, PlanResult& result) {
    result.fits = args.max_num_seqs == 64;
  };
  CHECK(std::ranges::none_of(advice_on(base, {}, one), is_pair));
}
