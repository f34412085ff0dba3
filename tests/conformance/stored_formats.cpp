// Formats that no golden result has: a checkpoint's layers are stored in one of them and, in
// another folder, as the numbers that this stands for by the format's formula, in double precision.
// `run` answers alike from both, on ranks too, and takes the memory that `plan` says.
#include "cli/program.h"
#include "conformance/drawn_checkpoints.h"
#include "conformance/golden_models.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Outcome;
using test::shell;

namespace {

const char* const kFlags = " -q --skip-tokenizer-init --dtype float32 --served-model-name m";

Outcome run(const test::Scratch& scratch, const std::string& model, const std::string& flags) {
  return shell(scratch, "plimsoll run " + model + " -i in" + kFlags + flags);
}

void check_alike(const Outcome& found, const Outcome& expected) {
  const std::vector<Json> lines = test::json_lines(found.out),
                          others = test::json_lines(expected.out);
  REQUIRE(lines.size() == others.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json& one = lines[i].at("choices").at(0);
    const Json& other = others[i].at("choices").at(0);
    CHECK(one.at("token_ids") == other.at("token_ids"));
    const Json& logprobs = one.at("prompt_logprobs");
    REQUIRE(logprobs.size() == 33);
    for (size_t t = 1; t < logprobs.size(); ++t)
      for (const auto& [token, entry] : logprobs.at(t).items())
        // Sums of floats in another order: golden models' own tolerance.
        CHECK(entry.at("logprob").get<double>() ==
              Approx(other.at("prompt_logprobs").at(t).at(token).at("logprob").get<double>())
                  .margin(5e-4));
  }
}

void check_plan(const test::Scratch& scratch, const std::string& activations) {
  const Json report = parse_json<Json>(scratch.read("report.json"));
  CHECK(report.at("memory").at("within_plan") == true);
  int64_t measured = -1;
  for (const Json& region : report.at("plan").at("regions"))
    if (region.at("name") == "weights") measured = region.at("bytes").get<int64_t>();
  for (const char* folder : {"stored", "config"}) {
    const Outcome plan =
        shell(scratch, std::string("plimsoll plan ") + folder +
                           " --dtype float32 --format json --quantized-activations " + activations);
    INFO(plan.err);
    CHECK(parse_json<Json>(plan.out).at("weights_bytes").get<int64_t>() == measured);
  }
}

/// Checks that shards of `shard` give the same answers; formats that it does not cut are refused
/// with the reason.
void check_shards(const test::Scratch& scratch, const std::string& expected) {
  const Outcome shard = shell(scratch, "plimsoll shard stored -q -o out -tp 2");
  INFO(shard.err);
  if (shard.status == 0) {
    const Outcome sharded = run(scratch, "out", " --load-format sharded_state");
    INFO(sharded.err);
    CHECK(sharded.out == expected);
    return;
  }
  CHECK((shard.status == 2 || shard.status == 5));
  fmt::print("not sharded: {}", shard.err);
}

}  // namespace

TEST_CASE("formats of other tools answer as the numbers that they stand for") {
  for (const Row& row : kRows) {
    if (recipe_of(row).empty()) continue;
    DYNAMIC_SECTION(row.name) {
      const test::Scratch scratch;
      write_both(row, scratch.path(""));
      fs::create_directories(scratch.path("config"));
      fs::copy_file(scratch.path("stored/config.json"), scratch.path("config/config.json"));
      std::string lines;
      for (int i = 0; i < 3; ++i) {
        std::vector<int> prompt;
        for (int t = 0; t < 33; ++t) prompt.push_back((7 + 31 * i + t * (t + 3 * i)) % 200);
        lines += Json{{"prompt", prompt},   {"max_tokens", 6},          {"temperature", 0},
                      {"ignore_eos", true}, {"return_token_ids", true}, {"prompt_logprobs", 0}}
                     .dump() +
                 "\n";
      }
      scratch.write("in", lines);
      const Outcome plain = run(scratch, "plain", "");
      INFO(plain.err);
      REQUIRE(plain.status == 0);
      const Outcome whole =
          run(scratch, "stored", " --quantized-activations off --report report.json");
      INFO(whole.err);
      REQUIRE(whole.status == 0);
      check_alike(whole, plain);
      check_plan(scratch, "off");
      const Outcome rounded = run(scratch, "stored", " --report report.json");
      INFO(rounded.err);
      REQUIRE(rounded.status == 0);
      check_plan(scratch, "on");
      check_shards(scratch, rounded.out);
      for (const char* width : {" -tp 2", " -tp 2 -pp 2"}) {
        const Outcome ranks = run(scratch, "stored", width);
        INFO(ranks.err);
        CHECK(ranks.out == rounded.out);
      }
    }
  }
}
