// Files that a run uses, limits of this machine, and what a failure is told as: each by itself.
#include "cli/run/used_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "cli/failure.h"
#include "cli/host_limits.h"
#include "cli/program.h"
#include "cli/run/order.h"
#include "cli/run/part.h"

using namespace plimsoll;
using Catch::Contains;
using cli::RunOptions;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

/// The failure that a thrown exception is told as.
template <class Exception>
cli::Failure told(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return cli::failure_in_hand();
  }
}

}  // namespace

TEST_CASE("a file that a run writes under any of its names is no other file of the run") {
  const Scratch scratch;
  for (const char* name : {"in", "template", "form"}) scratch.write(name, "{}");
  for (const char* name : {"model", "words", "settings", "draft"})
    std::filesystem::create_directory(scratch.path(name));
  scratch.write("model/config.json", "{}");
  scratch.write("words/tokenizer.json", "{}");
  scratch.write("settings/generation_config.json", "{}");
  scratch.write("draft/config.json", "{}");
  RunOptions usual;
  usual.model = scratch.path("model");
  usual.inputs = {scratch.path("in")};
  usual.tokenizer = scratch.path("words");
  usual.generation_config = scratch.path("settings");
  usual.launch.args.draft_model = scratch.path("draft");
  usual.chat_template_given = scratch.path("template");
  usual.structured_outputs = scratch.path("form");
  usual.output = scratch.path("out");
  usual.errors = scratch.path("failed");
  usual.report = scratch.path("report");
  usual.metrics_file = scratch.path("metrics");
  const auto is_taken = [&](std::string RunOptions::*flag, const std::string& name) {
    RunOptions options = usual;
    options.*flag = scratch.path(name);
    try {
      cli::check_files(options, {});
    } catch (const Error& error) {
      return error.code() == ExitCode::usage;
    }
    return false;
  };
  CHECK_NOTHROW(cli::check_files(usual, {}));
  for (const char* name : {"in",
                           "template",
                           "form",
                           "model/config.json",
                           "words/tokenizer.json",
                           "settings/generation_config.json",
                           "draft/config.json",
                           "out",
                           "out.part",
                           "out.part.xxh3",
                           "out.ordered.part",
                           "out.run.json",
                           "out.run.json.part",
                           "out.run.texts",
                           "out.run.texts.part",
                           "out.running",
                           "failed",
                           "failed.part",
                           "failed.part.xxh3",
                           "failed.ordered.part",
                           "metrics",
                           "metrics.part"}) {
    INFO(name);
    CHECK(is_taken(&RunOptions::report, name));
  }
  CHECK(is_taken(&RunOptions::metrics_file, "report.part"));
  CHECK(is_taken(&RunOptions::errors, "out"));
  CHECK(is_taken(&RunOptions::output, "in"));
  CHECK(!is_taken(&RunOptions::report, "out.other"));
  CHECK_THROWS_AS(
      [&] {
        RunOptions options = usual;
        options.report = scratch.path("no/folder");
        cli::check_files(options, {});
      }(),
      Error);
}

TEST_CASE("an output does not have a table's name, and takes no link's place") {
  const Scratch scratch;
  RunOptions options;
  const auto told = [&](const std::string& name) -> std::string {
    options.output = scratch.path(name);
    try {
      cli::check_merge_files(options);
      return "";
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      return error.what();
    }
  };
  for (const char* table : {"out.csv", "out.TSV", "out.parquet", "out.xlsx"}) {
    INFO(table);
    CHECK_THAT(told(table), Contains("would hold JSON lines"));
  }
  const std::string file = scratch.write("file", "");
  std::filesystem::create_symlink(file, scratch.path("link"));
  CHECK(told("link").empty());  // a finished output may be moved, and a link to it left
  options.existing = files::Existing::replace;
  CHECK(told("file").empty());
  CHECK_THAT(told("link"), Contains("is a link, which the output would replace") && Contains(file));
  options.errors = scratch.path("link");
  CHECK_THAT(told("other"), Contains("--errors " + options.errors + ": is a link"));
}

TEST_CASE("--order auto looks at two lines and more, of a file up to its bound") {
  const Scratch scratch;
  const auto input_of = [&](uint64_t bytes) {
    const std::string path = scratch.write("in", "");
    std::filesystem::resize_file(path, bytes);  // sparse
    return files::InputFile::open(path);
  };
  constexpr uint64_t kMost = uint64_t{256} << 20;
  CHECK(cli::not_worth_a_look(input_of(kMost), true, 2).empty());
  CHECK_THAT(cli::not_worth_a_look(input_of(kMost + 1), true, 2), Contains("256 MiB"));
  CHECK(cli::not_worth_a_look(input_of(9), true, 500'000).empty());
  CHECK_THAT(cli::not_worth_a_look(input_of(9), true, 500'001), Contains("500000 lines"));
  CHECK_THAT(cli::not_worth_a_look(input_of(9), true, 1), Contains("one line"));
  CHECK_THAT(cli::not_worth_a_look(input_of(9), false, 2), Contains("no prefix cache"));
  CHECK(cli::bound_by_input(input_of(9)).empty());
  RunOptions options;
  options.output = scratch.path("out");
  CHECK(cli::bound_by_outputs(options).empty());
  options.errors = "/dev/null";
  CHECK(!cli::bound_by_outputs(options).empty());
  options.errors = scratch.path("failed");
  options.output = "-";
  CHECK(!cli::bound_by_outputs(options).empty());
}

TEST_CASE("threads and the cache are a flag's, else a variable's, else the machine's") {
  cli::Environment environment;
  CHECK(cli::host_threads(3, environment) == 3);
  CHECK(cli::host_threads({}, environment) >= 1);
  CHECK(cli::host_cache_bytes({}, environment) == 4 * kGiB);
  environment.threads = 5;
  environment.kv_cache_space = "2";
  CHECK(cli::host_threads({}, environment) == 5);
  CHECK(cli::host_threads(3, environment) == 3);
  CHECK(cli::host_cache_bytes({}, environment) == 2 * kGiB);
  CHECK(cli::host_cache_bytes(7, environment) == 7);
  environment.kv_cache_space = "much";
  CHECK_THROWS_WITH(cli::host_cache_bytes({}, environment), Contains("VLLM_CPU_KVCACHE_SPACE"));
}

TEST_CASE("each kind of failure has its status and says what to do") {
  CHECK(told(Error(ExitCode::does_not_fit, "x")).code == ExitCode::does_not_fit);
  CHECK(told(Error(ExitCode::does_not_fit, "x")).text == "x");
  const auto file = told(std::filesystem::filesystem_error(
      "y", "/a/b", std::make_error_code(std::errc::permission_denied)));
  CHECK(file.code == ExitCode::checkpoint_unusable);
  CHECK(file.text == "/a/b: Permission denied");
  CHECK(told(std::bad_alloc()).code == ExitCode::output_unwritable);
  CHECK_THAT(told(std::bad_alloc()).text, Contains("out of host memory"));
  const auto threads =
      told(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(threads.code == ExitCode::output_unwritable);
  CHECK_THAT(threads.text, Contains("no more threads"));
  CHECK(told(std::system_error(std::make_error_code(std::errc::io_error))).code == ExitCode::bug);
  CHECK(told(std::out_of_range("map::at")).text == "internal error: map::at");
}

TEST_CASE("numbers of parts in names have 1 to 20 digits, and 0 parts are none") {
  const std::pair<uint64_t, uint64_t> part{7, 12};
  CHECK(cli::fill_name("{part:01}", part) == "7");
  CHECK(cli::fill_name("{part:020}", part) == std::string(19, '0') + "7");
  for (const char* wrong : {"{part:021}", "{part:00}", "{part:0}", "{part:3}", "{part"})
    CHECK(cli::fill_name(wrong, part) == wrong);
  RunOptions options;
  options.wanted_part = cli::parse_part("1/2");
  options.output = "o{part}";
  options.errors = "e{part}";
  options.report = "r{parts}";
  options.metrics_file = "m{shard}";
  cli::resolve_part(options, {});
  CHECK(options.part == std::pair<uint64_t, uint64_t>(1, 2));
  CHECK(options.output + options.errors + options.report + options.metrics_file == "o1e1r2m1");
}

TEST_CASE("a run's report and record have what the run was given, each in its place") {
  const Scratch scratch;
  scratch.write("in", "{\"prompt\":\"a\",\"max_tokens\":1}\n{\"prompt\":\"b\",\"max_tokens\":2}\n");
  const Outcome outcome =
      shell(scratch,
            "plimsoll run $MODEL -q -i in -o out --errors failed --report r --threads 1 --seed 7 "
            "--cpu-isa portable --dtype float32 --max-num-seqs 3 --max-model-len 64");
  REQUIRE(outcome.status == 0);
  const Json report = parse_json<Json>(scratch.read("r"));
  CHECK(report["threads"] == 1);
  CHECK(report["seed"] == 7);
  CHECK(report["isa"] == "portable");
  CHECK(report["dtype"] == "float32");
  CHECK(report["device"] == "cpu");
  CHECK(report["model"] == test::kModel);
  CHECK(report["exit_status"] == 0);
  CHECK(report["plan"]["max_num_seqs"] == 3);
  CHECK(report["plan"]["max_model_len"] == 64);
  CHECK(report["tokens"]["completion"] == 3);
  CHECK(report["lines"]["total"] == 2);
  const Json record = parse_json<Json>(scratch.read("out.run.json"));
  const Json& notes = record["notes"];
  CHECK(notes["inputs"] == Json{scratch.path("in")});
  CHECK(notes["errors"] == scratch.path("failed"));
  CHECK(notes["model"] == test::kModel);
  CHECK(notes["threads"] == 1);
  CHECK(notes["max_num_seqs"] == 3);
  CHECK(notes["pid"] > 0);
  CHECK(!notes["host"].get<std::string>().empty());
  CHECK(notes["card"].is_null());
  CHECK(record["ok"] == 2);
  CHECK(record["failed"].get<int>() + record["missing"].get<int>() == 0);
  CHECK(record["output_bytes"] == scratch.read("out").size());
  CHECK(record["errors_bytes"] == 0);
  CHECK(record["job"]["errors"] == true);
  CHECK(record["job"]["launch"]["cpu_isa"] == "portable");
}

TEST_CASE("names that are not UTF-8 are names like others") {
  const Scratch scratch;
  const std::string names =
      "B=$'b\\xffd'; cp -r $MODEL \"m$B\"; touch \"m$B/$B.txt\"; printf '\"a\"\\n7\\n' > \"$B\"; ";
  const std::string run =
      "plimsoll run \"m$B\" -i \"$B\" -o \"o$B\" --errors \"e$B\" --stop \"$B\" --max-tokens 2 "
      "--report \"r$B\" --allowed-local-media-path \"m$B\"";
  const Outcome first = shell(scratch, names + run);
  CHECK(first.status == 3);
  CHECK_THAT(first.err, Catch::Contains("1 of 2 lines answered"));
  const Outcome second = shell(scratch, "B=$'b\\xffd'; " + run);
  CHECK_THAT(second.err, Catch::Contains("is complete already"));
  CHECK(shell(scratch, "B=$'b\\xffd'; " + run + " --retry-failed").status == 3);
  CHECK(shell(scratch, "B=$'b\\xffd'; " + run + " --dry-run --max-tokens 3").status == 8);
  CHECK(shell(scratch, "plimsoll run $MODEL -i $'b\\xffd' --served-model-name $'n\\xff' -o served")
            .status == 3);
  const Outcome shards =
      shell(scratch,
            "B=$'b\\xffd'; plimsoll shard \"m$B\" -o \"s$B\" -tp 2 && plimsoll shard --verify "
            "\"s$B\" --source \"m$B\" && plimsoll shard --unshard \"s$B\" -o \"u$B\"");
  INFO(shards.err);
  CHECK(shards.status == 0);
}
