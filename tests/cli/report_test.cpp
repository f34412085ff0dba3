// After a run: plan against measured, in the summary, in the report, and by `plan --check`.
#include <catch2/catch.hpp>
#include <fstream>

#include "batch/memory_report.h"
#include "cli/program.h"

using namespace plimsoll;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

constexpr const char* kInput =
    "{\"prompt\":\"Enter the king\",\"max_tokens\":12,\"ignore_eos\":true}\n"
    "{\"prompt\":\"Exit, pursued by a bear\",\"max_tokens\":3}\n";

/// A run of two lines and its report.
Json run_report(const Scratch& scratch, const std::string& flags = "") {
  scratch.write("in", kInput);
  REQUIRE(shell(scratch, "plimsoll run $MODEL -q --overwrite -i in -o out --report r " + flags)
              .status == 0);
  return parse_json<Json>(scratch.read("r"));
}

const Json& part_of(const Json& report, const std::string& name) {
  for (const Json& part : report["memory"]["parts"]) {
    if (part["part"] == name) return part;
  }
  FAIL("no part " << name);
  return report;
}

}  // namespace

TEST_CASE("a report holds plan and measured line by line") {
  const Scratch scratch;
  const Json report = run_report(scratch);
  CHECK(report["schema_version"] == 1);
  CHECK(report["memory"]["within_plan"] == true);
  CHECK_FALSE(report["memory"].contains("device"));
  uint64_t planned = 0;
  for (const Json& part : report["memory"]["parts"]) {
    INFO(part.dump());
    CHECK(part["planned_bytes"] == part["measured_bytes"]);
    planned += part["planned_bytes"].get<uint64_t>();
  }
  CHECK(planned == report["memory"]["planned_bytes"]);
  CHECK(planned == report["plan"]["total_bytes"]);
  CHECK(report["measured_peak_bytes"] <= planned);
  CHECK(report["measured_peak_bytes"] == report["arena_peak_bytes"]);
  CHECK(report["notes"].is_array());
  CHECK(report["peak_rss_bytes"] > 0);
  const Json& blocks = part_of(report, "kv blocks");
  CHECK(blocks["used_bytes"] == report["engine"]["kv_blocks_peak"].get<uint64_t>() *
                                    report["plan"]["kv_block_bytes"].get<uint64_t>());
  // Two short prompts need little of the scratch of the largest step.
  const Json& scratch_part = part_of(report, "step scratch");
  CHECK(scratch_part["used_bytes"] > 0);
  CHECK(scratch_part["used_bytes"] < scratch_part["planned_bytes"]);
}

TEST_CASE("weights quantized while loading take what plan says, and little more than half") {
  const Scratch scratch;
  const auto weights = [&](const std::string& flags) {
    const Json part = part_of(run_report(scratch, flags), "weights");
    CHECK(part["planned_bytes"] == part["measured_bytes"]);
    return part["measured_bytes"].get<double>();
  };
  const double whole = weights("");
  const double halved = weights("--quantization fp8");
  CHECK(halved < 0.8 * whole);  // tables and norms stay whole
  CHECK(halved > 0.5 * whole);
}

TEST_CASE("the largest step uses all of the planned scratch") {
  const Scratch scratch;
  const Json report = run_report(scratch, "--max-num-seqs 1 --max-num-batched-tokens 1");
  const Json& part = part_of(report, "step scratch");
  CHECK(part["used_bytes"] == part["planned_bytes"]);
  CHECK(report["measured_peak_bytes"] == report["memory"]["planned_bytes"]);
}

TEST_CASE("the summary shows the table") {
  const Scratch scratch;
  scratch.write("in", kInput);
  const auto outcome = shell(scratch, "plimsoll run $MODEL -i in -o out --progress none");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.err, Catch::Contains("planned") && Catch::Contains("reserved"));
  for (const char* part : {"weights", "kv blocks", "step scratch", "process on the host"}) {
    INFO(part);
    CHECK_THAT(outcome.err, Catch::Contains(part));
  }
  std::istringstream lines(outcome.err);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("MiB") != std::string::npos) CHECK(line.size() <= 80);
  }
}

TEST_CASE("plan --check accepts a run within its plan and refuses one beyond it") {
  const Scratch scratch;
  Json report = run_report(scratch);
  const auto within = shell(scratch, "plimsoll plan --check r");
  CHECK(within.status == 0);
  CHECK_THAT(within.out, Catch::Contains("within the plan") && Catch::Contains("step scratch"));

  const auto check = [&](const Json& changed) {
    scratch.write("changed", changed.dump());
    return shell(scratch, "plimsoll plan --check changed");
  };
  Json peak = report;
  peak["measured_peak_bytes"] = report["memory"]["planned_bytes"].get<uint64_t>() + 1;
  const auto exceeded = check(peak);
  CHECK(exceeded.status == 6);
  CHECK_THAT(exceeded.out, Catch::Contains("exceeded") && Catch::Contains("step scratch"));

  Json one_part = report;
  Json& first = one_part["memory"]["parts"][0];
  for (const char* key : {"measured_bytes", "used_bytes"}) {
    INFO(key);
    first[key] = first["planned_bytes"].get<uint64_t>() + 1;
    CHECK(check(one_part).status == 6);
    first[key] = first["planned_bytes"];
    CHECK(check(one_part).status == 0);
  }

  Json card = report;
  card["memory"]["device"] = {{"name", "x"},
                              {"total_bytes", 10},
                              {"budget_bytes", 9},
                              {"free_at_start_bytes", 10},
                              {"peak_bytes", 9}};
  CHECK(check(card).status == 0);
  card["memory"]["device"]["peak_bytes"] = 10;
  CHECK(check(card).status == 6);
}

TEST_CASE("plan --check names what is missing from a file that is no report") {
  const Scratch scratch;
  for (const char* text : {"{}", "[]", "3", "{\"memory\":{\"planned_bytes\":-1}}",
                           "{\"memory\":{\"planned_bytes\":5},\"measured_peak_bytes\":\"6\"}"}) {
    INFO(text);
    scratch.write("file", text);
    const auto outcome = shell(scratch, "plimsoll plan --check file");
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Catch::Contains("not a report of run"));
  }
  scratch.write("file",
                "{\"memory\":{\"planned_bytes\":5,\"parts\":[3,{}]},"
                "\"measured_peak_bytes\":5}");
  CHECK(shell(scratch, "plimsoll plan --check file").status == 0);
}

TEST_CASE("lines outside the arena stand beside it; a side that does not exist is left out") {
  batch::MemoryReport report;
  report.lines = {{"weights", 100 << 20, 100 << 20, {}},
                  {"context", 500 << 20, {}, {}},
                  {"modules", {}, 3 << 20, {}}};
  report.planned = 600 << 20;
  report.measured_peak = 590 << 20;
  CHECK_FALSE(batch::exceeds_plan(report));
  batch::JsonText out;
  out.begin_object();
  batch::write_memory(out, report);
  out.end_object();
  const Json json = parse_json<Json>(out.text());
  const Json& parts = json["memory"]["parts"];
  CHECK(parts[1] == Json{{"part", "context"}, {"planned_bytes", 500 << 20}});
  CHECK(parts[2] == Json{{"part", "modules"}, {"measured_bytes", 3 << 20}});
  CHECK(batch::memory_table(report).size() == 6);
}

TEST_CASE("reports and metrics replace none but their own kind") {
  const Scratch scratch;
  scratch.write("in", "\"Speak\"\n");
  scratch.write("notes", "of mine\n");
  const std::string run = "plimsoll run $MODEL -q --max-tokens 2 -i in -o ";
  REQUIRE(shell(scratch, run + "answers").status == 0);
  for (const std::string flag : {"--report ", "--metrics-file "}) {
    for (const std::string file : {"notes", "answers"}) {
      INFO(flag << file);
      const std::string before = scratch.read(file);
      const Outcome refused = shell(scratch, run + "others " + flag + file);
      CHECK(refused.status == 8);
      CHECK_THAT(refused.err, Catch::Contains(flag + file));
      CHECK(scratch.read(file) == before);
    }
    for (int time = 0; time < 2; ++time) {
      CHECK(shell(scratch, run + "others --overwrite " + flag + "own" + flag.substr(2, 3)).status ==
            0);
    }
  }
}

TEST_CASE("where a report cannot be written nothing else is missing, and the message says so") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1}\n");
  const std::string run = "plimsoll run $MODEL -q -i in ";
  const Outcome full = shell(scratch, run + "-o out --report /dev/full");
  CHECK(full.status == 9);
  CHECK_THAT(full.err,
             Catch::Contains("only the report is missing, which the same command writes"));
  CHECK(scratch.has("out"));
  CHECK(shell(scratch, run + "-o out --report report").status == 0);
  CHECK_THAT(scratch.read("report"), Catch::Contains("\"schema_version\""));
  CHECK_THAT(shell(scratch, run + "-o /dev/null --report /dev/full").err,
             Catch::EndsWith("only the report is missing\n"));
}
