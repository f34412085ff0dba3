// Parts of an input, by hand and by the scheduler's variables; joined again.
#include <catch2/catch.hpp>

#include "cli/program.h"
#include "cli/run/options.h"
#include "cli/run/part.h"

using namespace plimsoll;
using cli::JobPlace;
using test::Outcome;
using test::Scratch;
using test::shell;

TEST_CASE("which part, by a flag or by a scheduler") {
  const auto resolve = [](const std::string& flag, const std::optional<JobPlace>& place) {
    return cli::resolve_part(cli::parse_part(flag), place);
  };
  const JobPlace array{.id = 3, .first = 1, .count = 4, .variable = "SLURM_ARRAY_TASK_ID"};
  const JobPlace gaps{.id = 5, .first = 0, .count = {}, .variable = "SLURM_ARRAY_TASK_ID"};
  CHECK(resolve("2/5", array) == std::pair<uint64_t, uint64_t>(2, 5));
  CHECK(resolve("auto", array) == std::pair<uint64_t, uint64_t>(2, 4));
  CHECK(resolve("auto/8", array) == std::pair<uint64_t, uint64_t>(3, 8));
  CHECK(resolve("auto/8", gaps) == std::pair<uint64_t, uint64_t>(5, 8));
  CHECK_THROWS_WITH(resolve("auto", gaps), Catch::Contains("auto/n"));
  CHECK_THROWS_WITH(resolve("auto/3", array), Catch::Contains("from 0 to 2"));
  CHECK_THROWS_WITH(resolve("auto", {}), Catch::Contains("RANK"));
  for (const char* wrong :
       {"", "1", "1/", "/2", "2/2", "0/0", "auto/", "auto/0", "auto/x", "-1/2"}) {
    INFO(wrong);
    CHECK_THROWS_AS(cli::parse_part(wrong), std::invalid_argument);
  }
}

TEST_CASE("names with the part's number") {
  const std::pair<uint64_t, uint64_t> part{7, 12};
  CHECK(cli::fill_name("out.{part}-of-{parts}", part) == "out.7-of-12");
  CHECK(cli::fill_name("{shard:05}/{nshards:03}.jsonl", part) == "00007/012.jsonl");
  CHECK(cli::fill_name("{part:03d}.{parts:04d}", part) == "007.0012");
  CHECK(cli::fill_name("{other}{part:x}{part", part) == "{other}{part:x}{part");
  CHECK(cli::fill_name("plain", {}) == "plain");
  cli::RunOptions options;
  options.wanted_part = cli::parse_part("1/2");
  options.errors = "bad.{part:3d}.jsonl";
  CHECK_THROWS_WITH(cli::resolve_part(options, {}),
                    "bad.{part:3d}.jsonl: {part:3d} is not understood; write {part}, or {part:05} "
                    "for a number with leading zeros");
  CHECK_THROWS_WITH(cli::fill_name("out.{part}", {}), Catch::Contains("--part"));
}

TEST_CASE("every file that a part writes may have its number in its name") {
  for (std::string cli::RunOptions::*name :
       {&cli::RunOptions::output, &cli::RunOptions::errors, &cli::RunOptions::report,
        &cli::RunOptions::metrics_file}) {
    cli::RunOptions options;
    options.quiet = true;
    options.*name = "file.{part}-of-{parts}";
    CHECK_THROWS_WITH(cli::resolve_part(options, {}), Catch::Contains("is a name for parts"));
    options.wanted_part = cli::parse_part("1/2");
    cli::resolve_part(options, {});
    CHECK(options.*name == "file.1-of-2");
    options.*name = "file.{part:3d}";
    CHECK_THROWS_WITH(cli::resolve_part(options, {}), Catch::Contains("is not understood"));
  }
}

TEST_CASE("parts under a scheduler's variables, joined, are the whole run") {
  const Scratch scratch;
  std::string input;
  for (int i = 0; i < 10; ++i) {
    input +=
        i == 6 ? "{broken\n"
               : "{\"id\":\"p" + std::to_string(i) + "\",\"prompt\":\"Enter\",\"max_tokens\":3}\n";
  }
  scratch.write("in", input);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q -i in -o whole").status == 3);
  const Outcome parts = shell(scratch,
                              "for i in 0 1 2; do SLURM_ARRAY_TASK_ID=$((i+1)) "
                              "SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=3 "
                              "SLURM_ARRAY_TASK_COUNT=3 plimsoll run $MODEL -i in --part auto -o "
                              "'out.{part:02}-of-{parts}'; "
                              "done");
  CHECK_THAT(parts.err, Catch::Contains("part 1 of 3, as SLURM_ARRAY_TASK_ID says"));
  const Outcome gaps = shell(scratch,
                             "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=5 "
                             "SLURM_ARRAY_TASK_COUNT=3 plimsoll run $MODEL -i in --part auto");
  CHECK(gaps.status == 2);
  CHECK_THAT(gaps.err, Catch::Contains("auto/n"));
  const Outcome missing = shell(scratch, "plimsoll run --merge out.00-of-3 out.02-of-3 -o all");
  CHECK(missing.status == 8);
  CHECK_THAT(missing.err, Catch::Contains("lines 5 to 7 are in none of the parts"));
  CHECK(shell(scratch, "plimsoll run --merge out.0?-of-3 -o all").status == 3);
  CHECK(scratch.read("all") == scratch.read("whole"));
  const Outcome again = shell(scratch, "plimsoll run $MODEL -i in -o all");
  CHECK(again.status == 3);
  CHECK_THAT(again.err, Catch::Contains("complete already"));
}
