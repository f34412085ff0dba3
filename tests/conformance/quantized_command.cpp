// Quantized golden models as a user runs them: plan, run, shard, and run from the shards.
#include <fmt/ranges.h>

#include "cli/program.h"
#include "conformance/golden_models.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Outcome;
using test::shell;

namespace {

const std::string kFlags =
    " -q --skip-tokenizer-init --dtype float32 --quantized-activations off --served-model-name m";

std::string request_lines(const Golden& golden) {
  std::string lines;
  for (const Case& c : golden.cases) {
    const Json line = {{"prompt", c.prompt},       {"max_tokens", c.greedy.size()},
                       {"temperature", 0},         {"ignore_eos", true},
                       {"return_token_ids", true}, {"prompt_logprobs", 0}};
    lines += line.dump() + "\n";
  }
  return lines;
}

void check_line(const Json& line, const Case& c) {
  const Json& choice = line.at("choices").at(0);
  const Ids found = choice.at("token_ids").get<Ids>();
  REQUIRE(found.size() == c.greedy.size());
  const auto sure = static_cast<std::ptrdiff_t>(Answer::sure_tokens(c, 0.005));
  CHECK(Ids(found.begin(), found.begin() + sure) == Ids(c.greedy.begin(), c.greedy.begin() + sure));
  for (size_t i = 0; i + 1 < c.prompt.size(); ++i) {
    const std::string token = std::to_string(c.prompt[i + 1]);
    const Json& entry = choice.at("prompt_logprobs").at(i + 1).at(token);
    const double expected = c.prompt_logprobs[i];
    // Tolerance of check_float32, and of the six digits that are printed.
    CHECK(std::abs(entry.at("logprob").get<double>() - expected) <=
          5e-4 + 5e-5 * std::abs(expected) + 1e-6);
  }
}

int64_t planned_weights(const Json& report) {
  for (const Json& region : report.at("plan").at("regions")) {
    if (region.at("name") == "weights") return region.at("bytes").get<int64_t>();
  }
  return -1;
}

/// Returns what the run printed.
std::string check_run(const test::Scratch& scratch, const Golden& golden) {
  const Outcome run = shell(scratch, "plimsoll run model -i in --report report.json" + kFlags);
  INFO(run.err);
  REQUIRE(run.status == 0);
  const std::vector<Json> lines = test::json_lines(run.out);
  REQUIRE(lines.size() == golden.cases.size());
  for (size_t i = 0; i < lines.size(); ++i) check_line(lines[i], golden.cases[i]);
  const Json report = parse_json<Json>(scratch.read("report.json"));
  CHECK(report.at("memory").at("within_plan") == true);
  const Outcome plan = shell(
      scratch, "plimsoll plan model --dtype float32 --quantized-activations off --format json");
  INFO(plan.err);
  const Json planned = parse_json<Json>(plan.out);
  CHECK(planned.at("weights_bytes").get<int64_t>() == planned_weights(report));
  return run.out;
}

}  // namespace

TEST_CASE("quantized golden models through the command line, from shards too") {
  const std::vector<std::string> known = model::supported_architectures();
  int whole = 0, sharded = 0;
  for (const fs::path& folder : model_folders("quantized")) {
    const auto name = model::read_config(folder).at("architectures").at(0).get<std::string>();
    if (std::ranges::find(known, name) == known.end()) continue;
    const test::Scratch scratch;
    const Golden golden(folder);
    write_checkpoint(folder, scratch.path("model"));
    scratch.write("in", request_lines(golden));
    INFO(golden.name);
    const std::string expected = check_run(scratch, golden);
    ++whole;
    if (shell(scratch, "plimsoll shard model -q -o out -tp 2").status != 0) continue;
    const Outcome run =
        shell(scratch, "plimsoll run out --load-format sharded_state -i in" + kFlags);
    INFO(run.err);
    if (run.status == 5) {  // vLLM drops zero points where ranks cut groups of experts
      CHECK_THAT(run.err, Catch::Contains("do not join again"));
      CHECK(golden.name == "mixtral_awq");
      continue;
    }
    CHECK(run.status == 0);
    CHECK(run.out == expected);
    ++sharded;
  }
  fmt::print("{} models run, {} of them from shards of two ranks too\n", whole, sharded);
  if (golden_folder() && takes_all_cases()) CHECK(whole >= 34);
}
