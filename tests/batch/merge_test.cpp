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

/// A finished part of an input of 10 lines.
std::string make_part(const Scratch& scratch, const std::string& name, Slot lines, int seed = 1) {
  RunFilesOptions options;
  options.output = scratch.path(name);
  options.job = {{"seed", seed},
                 {"errors", false},
                 {"lines", {{"first", lines.first}, {"count", lines.count}, {"of", 10}}}};
  RunFiles files(options, nullptr);
  for (uint64_t i = 0; i < lines.count; ++i) files.output().put(i, answer(lines.first + i));
  files.publish(lines.count, 0, 0);
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
  const std::string other_split = make_part(scratch, "s", {3, 7});
  const std::string other_seed = make_part(scratch, "o", {4, 6}, 2);
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
        Row{{a, b, b}, ExitCode::foreign_output, "one of them twice"},
        Row{{a, other_split}, ExitCode::foreign_output, "another split"},
        Row{{a, other_seed}, ExitCode::foreign_output, "seed: 1 then, 2 now"},
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
