#include "batch/files/manifest.h"

#include <catch2/catch.hpp>

#include "batch/files/same_run.h"
#include "batch/scratch.h"

using namespace plimsoll;

TEST_CASE("counts in a record that are none make it no record") {
  const test::Scratch scratch;
  const std::string path = scratch.path("out.run.json");
  batch::Manifest manifest;
  manifest.job = OrderedJson::object();
  manifest.notes = OrderedJson::object();
  manifest.ok = 7;
  batch::write_manifest(path, manifest);
  REQUIRE(batch::read_manifest(path)->ok == 7);
  const std::string sound = scratch.read("out.run.json");
  const size_t at = sound.find("\"ok\": 7") + 6;
  for (const char* count : {"-1", "1.5", "18446744073737951615", "\"7\"", "null"}) {
    INFO(count);
    scratch.write("out.run.json", std::string(sound).replace(at, 1, count));
    CHECK_THROWS_WITH(batch::read_manifest(path), Catch::Contains("is no record"));
  }
}

TEST_CASE("what is said of another input is true of the run that it is given to") {
  const test::Scratch scratch;
  const std::string texts = scratch.path("out.run.texts");
  const auto cure = [&](uint64_t lines, uint64_t failed, uint64_t kept, batch::RunState state) {
    batch::Manifest run;
    run.job["lines"] = batch::lines_json({.first = 0, .count = lines}, 4);
    run.state = state;
    run.failed = failed;
    run.texts = kept;
    return batch::cure_of("input.xxh3: 1 then, 2 now", batch::Failed::retry, run, texts);
  };
  using State = batch::RunState;
  CHECK_THAT(cure(4, 0, 0, State::complete), Catch::Contains("no line of it failed"));
  CHECK_THAT(cure(2, 0, 0, State::complete), Catch::Contains("--publish ended this run"));
  CHECK_THAT(cure(4, 1, 0, State::complete), Catch::Contains("--publish ended this run"));
  CHECK_THAT(cure(2, 0, 2, State::complete), Catch::Contains(texts + " back"));
  CHECK_THAT(cure(2, 0, 0, State::partial), Catch::Contains("until the run has ended"));
}

TEST_CASE("a key that one of two jobs lacks differs, whichever lacks it and however deep it lies") {
  const OrderedJson without = {{"seed", 1}, {"answers", {{"echo", false}, {"stop", {{"n", 1}}}}}};
  for (const char* key : {"/first", "/answers/temperature", "/answers/stop/texts"}) {
    for (const OrderedJson& value : {OrderedJson(0.5), OrderedJson(), OrderedJson::object()}) {
      INFO(key << ": " << value.dump());
      const OrderedJson::json_pointer at(key);
      OrderedJson with = without;
      with[at] = value;
      CHECK_THAT(batch::difference(without, with), Catch::Contains(at.back() + ": "));
      CHECK_THAT(batch::difference(with, without), Catch::Contains(at.back() + ": "));
      CHECK(batch::difference(with, with).empty());
      OrderedJson other = with;
      other[at] = "other";
      CHECK_THAT(batch::difference(with, other), Catch::Contains(at.back() + ": "));
      CHECK_THAT(batch::difference(other, with), Catch::Contains(at.back() + ": "));
    }
  }
}

TEST_CASE("a retry of failed lines may change what made them fail, and nothing else") {
  const test::Scratch scratch;
  const std::string texts = scratch.write("out.run.texts", std::string(4 * 8, 'x'));
  const OrderedJson job = {
      {"version", "1"},
      {"input", {{"xxh3", 1}}},
      {"lines", batch::lines_json({}, 4)},
      {"max_line_bytes", 100},
      {"strict", true},
      {"answers", {{"long_prompt", "error"}, {"split_overlap", 0}, {"temperature", 0.5}}}};
  struct Row {
    OrderedJson patch;   // of the job then
    OrderedJson now;     // of that job
    bool may = true;     // with --retry-failed
    uint64_t texts = 4;  // lines whose texts the run kept
  };
  const Row rows[] = {
      {{}, {{"input", {{"xxh3", 2}}}}},
      {{}, {{"input", {{"xxh3", 2}}}, {"lines", {{"of", 3}}}}},
      {{}, {{"strict", false}}},
      {{}, {{"max_line_bytes", 101}}},
      {{}, {{"answers", {{"long_prompt", "split"}}}}},
      {{}, {{"answers", {{"long_prompt", "split"}, {"split_overlap", 16}}}}},
      {{}, {{"answers", {{"split_overlap", 16}}}}},
      {{}, {{"input", {{"xxh3", 2}}}}, false, 0},
      {{}, {{"lines", {{"of", 3}}}}, false, 0},
      {{{"strict", false}}, {{"strict", true}}, false},
      {{}, {{"max_line_bytes", 99}}, false},
      {{{"answers", {{"long_prompt", "split"}}}}, {{"answers", {{"split_overlap", 16}}}}, false},
      {{{"answers", {{"long_prompt", "split"}}}}, {{"answers", {{"long_prompt", "error"}}}}, false},
      {{}, {{"answers", {{"temperature", 1}}}}, false},
      {{}, {{"version", "2"}}, false},
      {{}, {{"answers", {{"long_prompt", "split"}, {"temperature", 1}}}}, false},
  };
  for (const Row& row : rows) {
    INFO(row.patch.dump() << " " << row.now.dump() << " " << row.texts);
    batch::Manifest run;
    run.job = job;
    if (!row.patch.is_null()) run.job.merge_patch(row.patch);
    run.texts = row.texts;
    OrderedJson now = run.job;
    now.merge_patch(row.now);
    const auto differs = [&](batch::Failed failed) {
      return !batch::difference_from_run(run, now, failed, texts).empty();
    };
    CHECK(differs(batch::Failed::keep));
    CHECK(differs(batch::Failed::retry) != row.may);
  }
}

TEST_CASE("a run goes on with more lines behind its own, and with no others") {
  const auto goes_on = [](const batch::Slice& then, const batch::Slice& now) {
    batch::Manifest run;
    run.job = {{"version", "1"}, {"lines", batch::lines_json(then, std::nullopt)}};
    const OrderedJson job = {{"version", "1"}, {"lines", batch::lines_json(now, std::nullopt)}};
    return batch::difference_from_run(run, job, batch::Failed::keep, "").empty();
  };
  for (const uint64_t count : {uint64_t{4}, uint64_t{5}, UINT64_MAX})
    CHECK(goes_on({5, 4}, {5, count}));
  CHECK_FALSE(goes_on({5, 4}, {5, 3}));
  for (const uint64_t first : {0, 4, 6})
    for (const uint64_t count : {uint64_t{4}, uint64_t{9}, UINT64_MAX}) {
      INFO(first << " " << count);
      CHECK_FALSE(goes_on({5, 4}, {first, count}));
    }
}

TEST_CASE("--retry-failed is offered for another input where a run has failures to correct") {
  const test::Scratch scratch;
  const std::string texts = scratch.write("out.run.texts", std::string(4 * 8, 'x'));
  const auto cure = [&](batch::RunState state, uint64_t failed, uint64_t kept,
                        const std::string& differs = "input.xxh3: 1 then, 2 now") {
    batch::Manifest run;
    run.job["lines"] = batch::lines_json({}, 4);
    run.state = state;
    run.failed = failed;
    run.texts = kept;
    return batch::cure_of(differs, batch::Failed::keep, run, texts);
  };
  using State = batch::RunState;
  const auto offers = Catch::Contains("with --retry-failed");
  CHECK_THAT(cure(State::complete, 1, 4), offers);
  CHECK_THAT(cure(State::complete, 0, 4), !offers);
  CHECK_THAT(cure(State::complete, 1, 0), !offers);
  CHECK_THAT(cure(State::complete, 1, 3), !offers);
  CHECK_THAT(cure(State::partial, 1, 4), !offers);
  CHECK_THAT(cure(State::running, 1, 4), !offers);
  CHECK(cure(State::complete, 1, 4, "seed: 1 then, 2 now") == "give the same command");
  CHECK_THAT(cure(State::running, 0, 0, "version: \"1\" then, \"2\" now"),
             Catch::Contains("build that began it"));
  CHECK_THAT(cure(State::running, 0, 0, "launch.cpu_isa: \"a\" then, \"b\" now"),
             Catch::Contains("--cpu-isa"));
}
