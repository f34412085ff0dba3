// Values of any kind for each flag of each command, and flags misspelt: taken or refused, in the
// words of when tests/data/digests/flags.txt was written (README there).
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <CLI/CLI.hpp>

#include "cli/drawn_runs.h"
#include "cli/plan/options.h"
#include "cli/run/options.h"
#include "cli/shard/options.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Scratch;
using test::shell;

namespace {

using Words = std::vector<std::string>;

const Words kValues = {"",
                       "0",
                       "1",
                       "-1",
                       "2",
                       "7",
                       "0.5",
                       "1.5",
                       "1e3",
                       "auto",
                       "none",
                       "true",
                       "x",
                       "8GiB",
                       "1k",
                       "90%",
                       "{}",
                       "{\"a\":1}",
                       "[1]",
                       "[1,2]",
                       "a,b",
                       "0/2",
                       "fp8",
                       "all",
                       "1,2",
                       "in",
                       "missing/file",
                       "off",
                       "FP16",
                       "image=1",
                       "99999999999999999999"};

struct Command {
  const char* name;
  const char* line;
  std::function<void(CLI::App&)> declare;
};

Words flags_declared_by(const Command& command) {
  CLI::App app;
  command.declare(app);
  Words names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string quoted(const std::string& word) {
  return "'" + word + "'";
}

/// The flag as somebody wrote it in haste.
std::string misspelt(Draw& draw, std::string flag) {
  const size_t at = 2 + draw.below(flag.size() - 2);
  switch (draw.below(4)) {
    case 0:
      return flag.erase(at, 1);
    case 1:
      return flag.insert(at, 1, flag[at]);
    case 2:
      std::ranges::replace(flag, '-', '_');
      return "--" + flag.substr(2);
    default:
      return flag.substr(1);
  }
}

Words endings_of(const std::string& flag) {
  Draw draw(flag);
  Words endings = {flag, misspelt(draw, flag), "--no-" + flag.substr(2)};
  for (int i = 0; i < 3; ++i) endings.push_back(flag + " " + quoted(draw.of(kValues)));
  const std::string& value = draw.of(kValues);
  endings.push_back(fmt::format("{0}={1} {0} {2}", flag, quoted(value), quoted(draw.of(kValues))));
  return endings;
}

}  // namespace

TEST_CASE("flags with values of any kind are taken or refused as they were") {
  cli::RunOptions run_options;
  cli::PlanOptions plan_options;
  cli::ShardOptions shard_options;
  const Command commands[] = {
      {"plan",
       "plimsoll plan config.json --engine vllm --gpu h100 --vllm-version 0.20.0 --format json",
       [&](CLI::App& app) { cli::declare_plan_flags(app, plan_options); }},
      // What a dry run prints goes by this machine.
      {"run", "plimsoll run $MODEL -q -i in --dry-run --format ids >/dev/null",
       [&](CLI::App& app) { cli::declare_run_flags(app, run_options); }},
      {"shard", "plimsoll shard $MODEL -o out --dry-run",
       [&](CLI::App& app) { cli::declare_shard_flags(app, shard_options); }}};
  Digests digests("flags");
  size_t number = 0;
  for (const Command& command : commands) {
    for (const std::string& flag : flags_declared_by(command)) {
      if (!testing::is_taken(number++, 5)) continue;
      const Scratch scratch;
      scratch.write("in", "{\"prompt\":\"x\",\"max_tokens\":1}\n");
      scratch.write("config.json", read_text_file(test::kConfigs + "llama-3.1-8b.json"));
      const Words endings = endings_of(flag);
      std::string script = "exec 2>&1\n";
      for (const std::string& ending : endings)
        script += fmt::format("echo ==; {} {}; echo $?\n", command.line, ending);
      digests.compare(fmt::format("{}{}", command.name, flag),
                      {{script, plain(scratch, shell(scratch, alone(script)).out)}});
    }
  }
  digests.finish(testing::takes_all_cases());
}
