// `run --speculative-config`: answers as without it, in fewer steps; what has none is told.
#include <catch2/catch.hpp>

#include "cli/program.h"

using namespace plimsoll;
using Catch::Matchers::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

constexpr const char* kNgram =
    R"( --speculative-config '{"method":"ngram","num_speculative_tokens":6,"prompt_lookup_max":3}')";

/// Lines whose answers repeat words, greedy and sampled, with logprobs, penalties and a pattern.
/// The pattern's line is the longest and repeats itself whatever a processor's arithmetic makes of
/// the others.
constexpr const char* kLines =
    R"({"prompt":"To be, or not to be","max_tokens":60,"temperature":0,"ignore_eos":true}
{"prompt":"my lord, my lord, my","max_tokens":40,"temperature":0.6,"seed":3,"logprobs":2}
{"prompt":"the the the","max_tokens":30,"temperature":0,"repetition_penalty":1.3,"n":2}
{"prompt":"one","max_tokens":120,"temperature":0,"structured_outputs":{"regex":"(ab ){60}"}}
{"prompt":"no no no no","max_tokens":50,"temperature":0.3,"stop":["no no"],"min_tokens":9}
)";

}  // namespace

TEST_CASE("speculation changes no byte of the answers and saves steps") {
  const Scratch scratch;
  scratch.write("in", kLines);
  const auto run = [&](const std::string& name, const std::string& flags) {
    const Outcome outcome = shell(
        scratch, "plimsoll run $MODEL -q -i in -o " + name + " --report " + name + ".json" + flags);
    REQUIRE(outcome.status == 0);
    return parse_json<Json>(scratch.read(name + ".json"))["engine"];
  };
  for (const char* flags : {"", " -tp 2", " -pp 2", " -dp 2", " --max-num-seqs 2 --threads 2"}) {
    INFO(flags);
    const std::string name = std::to_string(std::hash<std::string>()(flags));
    const Json plain = run("plain" + name, flags);
    const Json fast = run("fast" + name, std::string(flags) + kNgram);
    CHECK(scratch.read("plain" + name) == scratch.read("fast" + name));
    CHECK(plain["drafted_tokens"] == 0);
    CHECK(fast["kept_drafted_tokens"] > 10);
    CHECK(fast["drafted_tokens"] >= fast["kept_drafted_tokens"]);
    CHECK(fast["generated_tokens"] == plain["generated_tokens"]);
    CHECK(fast["steps"] < plain["steps"]);
  }
}

TEST_CASE("the summary says how many proposed tokens were drawn") {
  const Scratch scratch;
  scratch.write("in", kLines);
  CHECK_THAT(shell(scratch, std::string("plimsoll run $MODEL -i in -o out") + kNgram).err,
             Contains("plimsoll: speculation: ") && Contains(" proposed tokens were drawn\n"));
  CHECK_THAT(shell(scratch, "plimsoll run $MODEL -i in -o plain").err, !Contains("speculation"));
  CHECK_THAT(shell(scratch, std::string("plimsoll plan $MODEL -i in --format json") + kNgram).out,
             Contains("forecast without speculation"));
}

TEST_CASE("speculation that our engine does not have is refused with the reason") {
  const Scratch scratch;
  const auto refused = [&](const std::string& config, const std::string& why,
                           const std::string& flags = "") {
    for (const char* command :
         {"plimsoll run $MODEL --dry-run -i /dev/null -o out", "plimsoll plan $MODEL"}) {
      INFO(command << config);
      const Outcome outcome =
          shell(scratch, std::string(command) + flags + " --speculative-config '" + config + "'");
      CHECK(outcome.status == 2);
      CHECK_THAT(outcome.err, Contains(why));
    }
  };
  refused(R"({"method":"eagle3","model":"x","num_speculative_tokens":2})",
          "the method ngram, not eagle3");
  refused(R"({"model":"x","num_speculative_tokens":2})", "the method ngram, not draft_model");
  refused(R"({"method":"ngram"})", "num_speculative_tokens says how many");
  refused(R"({"method":"ngram","num_speculative_tokens":2,"prompt_lookup_min":4,)"
          R"("prompt_lookup_max":3})",
          "prompt_lookup_min (4) is above prompt_lookup_max (3)");
  refused(R"({"method":"ngram","num_speculative_tokens":2,"prompt_lookup_min":0})",
          "prompt_lookup_min: expected 1 to");
  const Outcome card = shell(scratch, std::string("plimsoll plan $MODEL --gpu h100") + kNgram);
  CHECK(card.status == 2);
  CHECK_THAT(card.err, Contains("on the CPU alone"));
}
