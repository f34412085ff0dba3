// Outputs of parts, joined.
#include "batch/files/merge.h"

#include <catch2/catch.hpp>

#include "batch/scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Scratch;

namespace {

struct Slot {
  uint64_t first = 0;
  uint64_t count = 0;
};

std::string answer(uint64_t line) {
  return "{\"id\":\"a" + std::to_string(line) + "\",\"choices\":[],\"error\":null}\n";
}

std::string failure(uint64_t line) {
  return "{\"id\":\"a" + std::to_string(line) +
         "\",\"choices\":[],\"usage\":null,\"error\":{\"code\":\"bad_field\",\"message\":\"m\"," +
         "\"line\":" + std::to_string(line + 1) + "}}\n";
}

/// A finished part of an input of `of` lines.
std::string make_part(const Scratch& scratch, const std::string& name, Slot lines, int seed = 1,
                      int of = 10) {
  RunFilesOptions options;
  options.output = scratch.path(name);
  options.job = {{"seed", seed},
                 {"errors", false},
                 {"lines", {{"first", lines.first}, {"count", lines.count}, {"of", of}}}};
  RunFiles files(options, nullptr);
  for (uint64_t i = 0; i < lines.count; ++i) files.output().put(i, answer(lines.first + i));
  files.publish(lines.count, 0, 0);
  return options.output;
}

/// A finished part with all 10 lines, of which the third and the last failed into "bad".
std::string make_failures_apart(const Scratch& scratch) {
  RunFilesOptions options;
  options.output = scratch.path("out");
  options.errors = scratch.path("bad");
  options.job = {{"errors", true}, {"lines", {{"first", 0}, {"count", 10}, {"of", 10}}}};
  options.notes = {{"errors", options.errors}};
  RunFiles files(options, nullptr);
  for (uint64_t i = 0; i < 10; ++i) {
    const bool failed = i == 2 || i == 9;
    files.output().put(i, failed ? "" : answer(i));
    files.errors()->put(i, failed ? failure(i) : "");
  }
  files.publish(8, 2, 0);
  return options.output;
}

ExitCode code_of(const MergeOptions& options) {
  try {
    merge_parts(options);
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::done;
}

}  // namespace

TEST_CASE("parts in any order become what the whole run writes") {
  const Scratch scratch;
  const std::string a = make_part(scratch, "a", {0, 4});
  const std::string b = make_part(scratch, "b", {4, 3});
  const std::string c = make_part(scratch, "c", {7, 3});
  const std::string none = make_part(scratch, "none", {4, 0});
  const MergeOptions options{.parts = {c, none, a, b}, .output = scratch.path("out"), .errors = ""};
  const Merged merged = merge_parts(options);
  CHECK(merged.ok == 10);
  CHECK(merged.failed == 0);
  std::string expected;
  for (uint64_t line = 0; line < 10; ++line) expected += answer(line);
  CHECK(scratch.read("out") == expected);
  CHECK(read_manifest(manifest_path(scratch.path("out")))->state == RunState::complete);
  CHECK(merge_parts(options).was_there);
}

TEST_CASE("parts that are not one run are refused") {
  const Scratch scratch;
  const std::string a = make_part(scratch, "a", {0, 4});
  const std::string b = make_part(scratch, "b", {4, 6});
  const std::string but_last = make_part(scratch, "but_last", {0, 9});
  const std::string but_first = make_part(scratch, "but_first", {1, 9});
  const std::string behind_gap = make_part(scratch, "behind_gap", {5, 5});
  const std::string other_split = make_part(scratch, "s", {3, 7});
  const std::string other_seed = make_part(scratch, "o", {4, 6}, 2);
  const std::string other_input = make_part(scratch, "n", {4, 6}, 1, 12);
  const std::string changed = make_part(scratch, "changed", {4, 6});
  scratch.write("changed", answer(4));
  const std::string twice = make_part(scratch, "twice", {4, 6});
  std::string text;
  for (int i = 0; i < 6; ++i) text += answer(4);
  scratch.write("twice", text);
  const std::string open = scratch.write("open", "");
  Manifest manifest;
  manifest.job = {{"seed", 1}};
  write_manifest(manifest_path(open), manifest);
  struct Row {
    std::vector<std::string> parts;
    ExitCode code;
    const char* told;
  };
  for (const Row& row :
       {Row{{a}, ExitCode::foreign_output, "lines 5 to 10"},
        Row{{b}, ExitCode::foreign_output, "lines 1 to 4"},
        Row{{but_last}, ExitCode::foreign_output, "lines 10 to 10"},
        Row{{but_first}, ExitCode::foreign_output, "lines 1 to 1"},
        Row{{a, behind_gap}, ExitCode::foreign_output, "lines 5 to 5"},
        Row{{a, b, b}, ExitCode::foreign_output, "one of them twice"},
        Row{{a, other_split}, ExitCode::foreign_output, "another split"},
        Row{{a, other_seed}, ExitCode::foreign_output, "seed: 1 then, 2 now"},
        Row{{a, other_input}, ExitCode::foreign_output, "another run than"},
        Row{{a, other_input}, ExitCode::foreign_output, "(lines.of)"},
        Row{{a, changed}, ExitCode::foreign_output, "changed since"},
        Row{{a, twice}, ExitCode::foreign_output, "has one already"},
        Row{{a, open}, ExitCode::stopped_resumable, "has not ended"},
        Row{{a, scratch.path("nothing")}, ExitCode::foreign_output, "is missing"}}) {
    INFO(row.told);
    const MergeOptions options{.parts = row.parts, .output = scratch.path("out"), .errors = ""};
    CHECK(code_of(options) == row.code);
    CHECK_THROWS_WITH(merge_parts(options), Catch::Contains(row.told));
    CHECK(!scratch.has("out"));
  }
}

TEST_CASE("failures in a file of their own are joined, and counted as the part's record says") {
  struct Row {
    const char* name;
    std::vector<uint64_t> failures;
    std::string told;  // empty: they are joined
  };
  for (const Row& row : {Row{"whole", {2, 9}, ""}, Row{"one is missing", {2}, "8 answers and 1"},
                         Row{"none is left", {}, "8 answers and 0"},
                         Row{"one too many", {2, 5, 9}, "8 answers and 3"}}) {
    INFO(row.name);
    const Scratch scratch;
    const std::string part = make_failures_apart(scratch);
    std::string failures;
    for (const uint64_t line : row.failures) failures += failure(line);
    scratch.write("bad", failures);
    const MergeOptions options{
        .parts = {part}, .output = scratch.path("all"), .errors = scratch.path("all-bad")};
    if (row.told.empty()) {
      const Merged merged = merge_parts(options);
      CHECK(merged.ok == 8);
      CHECK(merged.failed == 2);
      CHECK(scratch.read("all-bad") == failures);
      continue;
    }
    CHECK(code_of(options) == ExitCode::foreign_output);
    CHECK_THROWS_WITH(merge_parts(options), Catch::Contains(row.told));
    CHECK(!scratch.has("all"));
  }
}

TEST_CASE("an answer that became a failure since the part ended is noticed") {
  const Scratch scratch;
  const std::string part = make_failures_apart(scratch);
  std::string answers;
  for (const uint64_t line : {0, 1, 3, 4, 5, 6, 7}) answers += answer(line);
  scratch.write("out", answers);
  scratch.write("bad", failure(2) + failure(8) + failure(9));
  const MergeOptions options{
      .parts = {part}, .output = scratch.path("all"), .errors = scratch.path("all-bad")};
  CHECK_THROWS_WITH(merge_parts(options), Catch::Contains("holds 7 answers and 3 failures"));
}

TEST_CASE("parts are joined over an interrupted join of them, and over no other run") {
  const auto unfinished = [](const Scratch& scratch, const OrderedJson& job) {
    RunFilesOptions options;
    options.output = scratch.path("out");
    options.job = job;
    RunFiles files(options, nullptr);
    files.output().put(0, answer(0));
    files.keep();
  };
  const OrderedJson joined = {
      {"seed", 1}, {"errors", false}, {"lines", lines_json({.first = 0}, 10)}};
  struct Row {
    const char* key;
    OrderedJson value;
    bool may;
  };
  for (const Row& row : {Row{"seed", 1, true}, Row{"seed", 2, false}, Row{"stranger", 1, false},
                         Row{"lines", lines_json({.first = 0}, 12), false}}) {
    INFO(row.key << ": " << row.value.dump());
    const Scratch scratch;
    const std::vector<std::string> parts = {make_part(scratch, "a", {0, 4}),
                                            make_part(scratch, "b", {4, 6})};
    OrderedJson job = joined;
    job[row.key] = row.value;
    unfinished(scratch, job);
    const std::string record = scratch.read("out.run.json");
    MergeOptions options{.parts = parts, .output = scratch.path("out"), .errors = ""};
    if (!row.may) {
      CHECK(code_of(options) == ExitCode::foreign_output);
      CHECK(scratch.read("out.part") == answer(0));
      CHECK(scratch.read("out.run.json") == record);
      CHECK(!scratch.has("out"));
      options.existing = files::Existing::replace;
    }
    CHECK(merge_parts(options).ok == 10);
    CHECK(!scratch.has("out.part"));
  }
}

TEST_CASE("parts are not joined over lines that have no record, nor over a file") {
  for (const char* name : {"out", "out.part"}) {
    INFO(name);
    const Scratch scratch;
    const std::string part = make_part(scratch, "a", {0, 10});
    scratch.write(name, answer(0));
    const MergeOptions options{.parts = {part}, .output = scratch.path("out"), .errors = ""};
    CHECK(code_of(options) == ExitCode::foreign_output);
    CHECK(scratch.read(name) == answer(0));
  }
}
