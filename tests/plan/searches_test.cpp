// What searches say of their launches, and what they make of refusals and of errors.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "plan/configs.h"
#include "plan/solver.h"

namespace plimsoll::plan::searches {

using Catch::Contains;

namespace {

/// A plan whose launches all have room but for what `change` makes of them.
PlanFunction plan_with(const std::function<void(const EngineArgs&, PlanResult&)>& change) {
  return [=](const EngineArgs& args, const hardware::Gpu*) {
    PlanResult result;
    result.fits = true;
    result.max_concurrency = 1e9;
    result.max_num_seqs = args.max_num_seqs;
    result.max_model_len = 4096;
    result.gpus = args.tensor_parallel;
    if (change) change(args, result);
    return result;
  };
}

void refuse(PlanResult& result, const std::string& reason) {
  result.fits = false;
  result.refused = true;
  result.reason = reason;
}

}  // namespace

TEST_CASE("a search ends with an error that no other size mends") {
  const PlanFunction plan = plan_with([](const EngineArgs&, PlanResult&) {
    throw Error(ExitCode::checkpoint_unusable, "no such file");
  });
  CHECK_THROWS_WITH(solve_sequences(plan, {}, nullptr), "no such file");
  CHECK_THROWS_WITH(solve_gpus(plan, {}, nullptr, 8), "no such file");
  CHECK_THROWS_WITH(solve_card(plan, {}), "no such file");
  // It does not pass for a size that is refused, where other sizes are none.
  const PlanFunction later = plan_with([](const EngineArgs& args, PlanResult& result) {
    if (args.tensor_parallel == 2 || args.max_num_seqs > 300)
      throw Error(ExitCode::input_unusable, "the disk is gone");
    result.fits = args.tensor_parallel > 1 || args.max_num_seqs > 0;
  });
  CHECK_THROWS_WITH(solve_gpus(later, {}, nullptr, 8), "the disk is gone");
  CHECK_THROWS_WITH(solve_sequences(later, {}, nullptr), "the disk is gone");
  const PlanFunction large = [](const EngineArgs&, const hardware::Gpu* card) {
    if (card->memory_bytes > 40 * kGib) throw Error(ExitCode::input_unusable, "the disk is gone");
    PlanResult result;
    result.fits = false;
    return result;
  };
  CHECK_THROWS_WITH(solve_card(large, {}), "the disk is gone");
}

TEST_CASE("a search for sequences says what binds") {
  const auto solved = [](int64_t most, int64_t tokens) {
    EngineArgs args;
    args.max_num_batched_tokens = tokens;
    const PlanFunction plan = plan_with([most](const EngineArgs& asked, PlanResult& result) {
      if (asked.max_num_seqs > most) throw Error(ExitCode::usage, "too many");
      result.fits = true;
    });
    return solve_sequences(plan, args, nullptr).solved;
  };
  CHECK(solved(300, 512) ==
        "Most sequences at once, each of 4096 tokens: 300 (the KV cache holds no more).");
  CHECK(solved(300, 300) ==
        "Most sequences at once, each of 4096 tokens: 300 (each needs one token of "
        "--max-num-batched-tokens).");
  CHECK(solved(1 << 20, 512) ==
        "Most sequences at once, each of 4096 tokens: 65536 (the search goes no further).");
}

TEST_CASE("a search for GPUs names the size that it does not keep, and what lacks room") {
  const auto solved = [](int64_t asked, int64_t enough) {
    EngineArgs args;
    args.tensor_parallel = asked;
    const PlanFunction plan = plan_with([enough](const EngineArgs& tried, PlanResult& result) {
      result.fits = tried.tensor_parallel >= enough;
    });
    return solve_gpus(plan, args, nullptr, 8).solved;
  };
  CHECK(solved(1, 2) == "Fewest GPUs: 2 (with 1, weights and KV cache do not fit).");
  CHECK(solved(2, 2) == "Fewest GPUs: 2 (with 1, weights and KV cache do not fit).");
  CHECK(solved(4, 2) ==
        "Fewest GPUs: 2 (with 1, weights and KV cache do not fit), in place of "
        "--tensor-parallel-size 4.");
  CHECK(solved(2, 8) ==
        "Fewest GPUs: 8 (with 4, weights and KV cache do not fit), in place of "
        "--tensor-parallel-size 2.");
}

TEST_CASE("where an engine refuses every size, its first refusal is the answer") {
  const PlanFunction plan = plan_with([](const EngineArgs& args, PlanResult& result) {
    refuse(result, "refused on " + std::to_string(args.tensor_parallel));
  });
  EngineArgs args;
  args.tensor_parallel = 4;
  const PlanResult result = solve_gpus(plan, args, nullptr, 8);
  CHECK(result.refused);
  CHECK(result.reason == "refused on 1");
  CHECK(result.solved.empty());
  CHECK(solve_card(plan, args).reason == "refused on 4");
  // Sizes that are refused do not end the search.
  const PlanFunction later = plan_with([](const EngineArgs& tried, PlanResult& answer) {
    if (tried.tensor_parallel < 4) refuse(answer, "too few");
  });
  CHECK(solve_gpus(later, args, nullptr, 8).solved == "Fewest GPUs: 4. Refused sizes: 1, 2.");
  const PlanFunction never = plan_with([](const EngineArgs& tried, PlanResult& answer) {
    if (tried.tensor_parallel == 8) return refuse(answer, "too many");
    answer.fits = false;
  });
  CHECK(solve_gpus(never, args, nullptr, 8).solved ==
        "No number of these GPUs up to 8 is enough. Refused sizes: 8.");
}

TEST_CASE("no card is enough for one alone, or for each of several") {
  const PlanFunction never =
      plan_with([](const EngineArgs&, PlanResult& result) { result.fits = false; });
  EngineArgs args;
  CHECK(solve_card(never, args).solved == "It fits on no card of the catalogue alone.");
  args.tensor_parallel = 2;
  CHECK(solve_card(never, args).solved == "It fits on no card of the catalogue.");
}

}  // namespace plimsoll::plan::searches
