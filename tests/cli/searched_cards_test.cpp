// `plan --gpus auto` and `--gpu smallest`: what is searched, for every engine, and what is said of
// it.
#include <catch2/catch.hpp>

#include "cli/planned.h"

using namespace plimsoll;
using Catch::Contains;
using test::kConfigs;
using test::Outcome;
using test::plan_of;
using test::Scratch;
using test::shell;

namespace {

const std::string k8B = kConfigs + "llama-3.1-8b.json ";
const std::string k70B = kConfigs + "llama-2-70b.json ";

Outcome plan(const Scratch& scratch, const std::string& flags) {
  return shell(scratch, "COLUMNS=200 plimsoll plan " + flags);
}

}  // namespace

TEST_CASE("--gpus auto and --gpu smallest are searched for every engine") {
  const Scratch scratch;
  for (const char* engine : {"sglang", "lmdeploy", "tensorrt-llm", "transformers"}) {
    INFO(engine);
    const std::string of = k70B + "--engine " + engine;
    const Json few = plan_of(scratch, of + " --gpu h100 --gpus auto");
    const auto cards = few["gpus"].get<int64_t>();
    CHECK(cards > 1);
    const auto fits_on = [&](int64_t number) {
      return plan_of(scratch, of + " --gpu h100 --gpus " + std::to_string(number))["fits"];
    };
    CHECK(fits_on(cards) == true);
    CHECK(fits_on(cards / 2) == false);
    CHECK_THAT(few.value("solved", ""),
               Contains("Fewest GPUs: " + std::to_string(cards) + " (with "));
    CHECK_THAT(plan(scratch, of + " --gpu h100 --gpus auto --format args").out,
               Contains(" " + std::to_string(cards)));
    CHECK_THAT(plan(scratch, of + " --gpu h100 --gpus auto --free-memory after=9").err,
               Contains("--gpus auto tries several"));
    const Json small = plan_of(scratch, of + " --gpu smallest");
    CHECK(small["fits"] == true);
    CHECK_THAT(small.value("solved", ""), Contains(small.value("gpu", "none")));
  }
  const Outcome given = plan(scratch, k8B + "--engine sglang --gpu h100 --gpus auto --tp 2");
  CHECK_THAT(given.out, Contains("2 x H100") && Contains("--gpus auto: the launch's own flags"));
  CHECK_THAT(plan(scratch, k8B + "--engine sglang --gpus auto").err, Contains("name the card"));
  CHECK_THAT(plan(scratch, k8B + "--engine llamacpp --gguf-type Q4_K_M --gpu 4090 --gpus auto").err,
             Contains("give --gpus N"));
  const Outcome all = plan(scratch, k70B + "--engine all --gpu h100 --gpus auto");
  CHECK_THAT(all.out, Contains("2 x H100-SXM5-80GB") && Contains("4 x H100-SXM5-80GB"));
}

TEST_CASE("a launch that is refused on any card is not told to lack cards") {
  const Scratch scratch;
  Json config = read_json_file(kConfigs + "llama-3.1-8b.json");
  config["quantization"] = {{"group_size", 64}, {"bits", 4}};  // MLX
  scratch.write("config.json", config.dump());
  for (const char* cards : {"--gpu h100 --gpus auto", "--gpu smallest"}) {
    INFO(cards);
    const Outcome refused = plan(scratch, std::string("config.json --engine vllm ") + cards);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.out, Contains("DOES NOT LAUNCH") && Contains("1 x ") &&
                                !Contains("No number of") && !Contains("no card of"));
  }
}

TEST_CASE(
    "the fewest cards are counted with pipeline and replicas, and said beside what they replace") {
  const Scratch scratch;
  const auto solved = [&](const std::string& flags) {
    return plan_of(scratch, flags).value("solved", "");
  };
  CHECK(solved(k8B + "--gpu h100 -dp 3 --gpus auto") == "Fewest GPUs: 3.");
  CHECK(solved(k8B + "--engine vllm --gpu h100 -tp 4 --gpus auto") ==
        "Fewest GPUs: 1, in place of --tensor-parallel-size 4.");
  CHECK_THAT(solved(k8B + "--gpu h100 --gpus auto --num-gpu-blocks-override 10"),
             Contains("No number of these GPUs up to 64 is enough. Refused sizes: "));
}

TEST_CASE("advice is about the cards that a search took") {
  const Scratch scratch;
  const std::string asked = k8B + "--gpu 4090 --gpus auto --num-gpu-blocks-override 10";
  const Json plan = plan_of(scratch, asked);
  REQUIRE(plan["gpus"] == 8);
  const Json eight = plan_of(scratch, k8B + "--gpu 4090 -tp 8 --num-gpu-blocks-override 10");
  CHECK(plan["advice"] == eight["advice"]);
  const std::string large = k8B + "--gpu smallest --num-gpu-blocks-override 10";
  CHECK(!plan_of(scratch, large)["advice"].empty());
}

TEST_CASE("a search for cards keeps the search for the sequences") {
  const Scratch scratch;
  const Json known = plan_of(scratch, k8B + "--engine vllm --gpu h100 --max-num-seqs auto");
  for (const char* cards : {"--gpu h100 --gpus auto", "--gpu smallest"}) {
    INFO(cards);
    const Json plan =
        plan_of(scratch, k8B + "--engine vllm --max-num-seqs auto --max-model-len 32k " + cards);
    CHECK_THAT(plan.value("solved", ""), Contains(". Most sequences at once, each of 32000"));
    CHECK(plan["max_num_seqs"].get<double>() <= plan["max_concurrency"].get<double>());
  }
  CHECK(plan_of(scratch,
                k8B + "--engine vllm --gpu h100 --gpus auto --max-num-seqs auto")["max_num_seqs"] ==
        known["max_num_seqs"]);
  const std::string ceiling = k8B + "--engine vllm --max-model-len 4k --gpu smallest ";
  CHECK(plan_of(scratch, ceiling + "--gpu-memory 40GiB")["budget_bytes"] == 40LL << 30);
  CHECK_THAT(plan(scratch, ceiling + "--gpu-total-memory 40GiB").err,
             Contains("--gpu smallest chooses among the catalogue's cards"));
}

TEST_CASE("the table of all engines counts requests of one length") {
  const Scratch scratch;
  const std::string table =
      plan(scratch, k8B + "--engine all --gpu 4090 --available-kv-memory 5GiB").out;
  const size_t row = table.find("  vllm ");
  REQUIRE(row != std::string::npos);
  const std::string vllm = table.substr(row, table.find('\n', row) - row);
  CHECK_THAT(vllm, Contains("does not fit") && Contains("0.31"));
  CHECK_THAT(table, Contains("sglang: left out, not known") || Contains("--available-kv-memory"));
}

TEST_CASE(
    "a file that a flag of plan names may be a pipe, and a missing one is named with its flag") {
  const Scratch scratch;
  CHECK(shell(scratch, "plimsoll plan " + k8B + "--gpu h100 --format json >a; plimsoll plan " +
                           k8B + "--gpu 4090 --format json >b")
            .status == 6);
  const std::string files = shell(scratch, "plimsoll plan --diff a b").out;
  CHECK_THAT(files, Contains("gpu "));
  CHECK(shell(scratch, "plimsoll plan --diff <(cat a) <(cat b)").out == files);
  CHECK(shell(scratch, "plimsoll plan --diff a - <b").out == files);
  const auto said = [&](const std::string& flags) { return plan(scratch, flags).err; };
  CHECK_THAT(said("--check none"), Contains("--check none: "));
  CHECK_THAT(said("--diff a none"), Contains("--diff none: "));
  scratch.write("in", "\"a\"\n");
  CHECK_THAT(said(test::kModel + " -i in --rate none"), Contains("--tokens-per-second none: "));
  CHECK_THAT(said(k8B + "--engine sglang --gpu h100 -i in"),
             Contains("-i: goes with a plan of vllm or plimsoll"));
}
