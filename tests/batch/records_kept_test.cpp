// What is kept of a run beside its lines: counts without an input, texts of joined parts, the
// report, the model's name.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "batch/files/existing_output.h"
#include "batch/files/merge.h"
#include "batch/files/publish.h"
#include "batch/files/run_files.h"
#include "batch/run_life.h"
#include "batch/scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;
using test::Life;
using test::life_input;
using test::live;
using test::Scratch;

namespace {

std::string answer_to(uint64_t line) {
  return "{\"id\":\"a" + std::to_string(line) + "\",\"choices\":[],\"error\":null}\n";
}

/// A part of an input of six lines, whose texts have these digests; empty: it keeps none.
std::string part_from(const Scratch& scratch, const std::string& name, uint64_t first,
                      const std::vector<uint64_t>& texts, uint64_t count,
                      const std::string& errors = "") {
  RunFilesOptions options;
  options.output = scratch.path(name);
  if (!errors.empty()) options.errors = scratch.path(errors);
  options.job = {{"errors", !errors.empty()},
                 {"lines", lines_json({.first = first, .count = count}, 6)}};
  options.notes = {{"errors", options.errors}};
  RunFiles files(options, nullptr);
  for (uint64_t i = 0; i < count; ++i) files.output().put(i, answer_to(first + i));
  if (!texts.empty()) {
    files::PagedArray<uint64_t> all;
    for (const uint64_t text : texts) all.push_back(text);
    files.note_texts(std::move(all));
  }
  files.publish(count, 0, 0);
  return options.output;
}

std::vector<uint64_t> texts_in(const Scratch& scratch, const std::string& name) {
  const std::string bytes = scratch.read(name);
  std::vector<uint64_t> texts(bytes.size() / sizeof(uint64_t));
  std::memcpy(texts.data(), bytes.data(), texts.size() * sizeof(uint64_t));
  return texts;
}

RunFilesOptions options_of(const Scratch& scratch, const std::string& model) {
  RunFilesOptions options;
  options.output = scratch.path("out");
  options.job = {{"seed", 1}};
  options.notes = {{"errors", ""}, {"model", model}};
  options.resume.max_line_bytes = 1 << 20;
  return options;
}

}  // namespace

TEST_CASE("what was finished before an input changed is published, and counts as a part of it") {
  for (const bool is_gone : {true, false}) {
    INFO("the input is gone: " << is_gone);
    const Scratch scratch;
    const std::string input = life_input(20);
    scratch.write("in", input);
    CHECK(!live(scratch, {.stop_after = 7}));
    const std::string part = scratch.read("out.part");
    const std::string torn = "{\"id\":\"a";
    scratch.write("out.part", part + torn);
    if (is_gone) std::filesystem::remove(scratch.path("in"));
    if (!is_gone) scratch.write("in", input + "\"more\"\n");
    const Published published = publish_what_is_there(scratch.path("out"));
    CHECK_FALSE(published.in_order);
    CHECK(published.dropped_bytes == torn.size());
    CHECK(scratch.read("out") == part);
    CHECK(published.manifest.state == RunState::partial);
    CHECK(published.manifest.ok + published.manifest.failed == 7);
    CHECK(published.manifest.missing > 0);
    scratch.write("in", input);
    CHECK(live(scratch, {}));
    CHECK(scratch.read("out") == test::life_expected(20, 60, true, true));
  }
}

TEST_CASE("a run that was published in order is whole, and again nothing of it was dropped") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  CHECK(!live(scratch, {.stop_after = 19}));
  const Published published = publish_what_is_there(scratch.path("out"));
  CHECK(published.in_order);
  CHECK(published.dropped_bytes == 0);
  CHECK(published.manifest.missing == 1);
  CHECK(published.manifest.state == RunState::partial);
}

TEST_CASE("joined parts have the texts of all their lines, in the input's order") {
  const Scratch scratch;
  const std::string a = part_from(scratch, "a", 0, {11, 12}, 2);
  const std::string none = part_from(scratch, "none", 2, {}, 0);
  const std::string b = part_from(scratch, "b", 2, {13, 14, 15, 16}, 4);
  const auto join = [&](const std::vector<std::string>& parts, const std::string& to) {
    const Merged merged = merge_parts({.parts = parts, .output = scratch.path(to), .errors = ""});
    CHECK(merged.ok == 6);
    return read_manifest(manifest_path(scratch.path(to)))->texts;
  };
  // Without failures the texts of a whole input are of no use, those of its parts are.
  CHECK(texts_in(scratch, "a.run.texts") == std::vector<uint64_t>{11, 12});
  CHECK(join({b, none, a}, "all") == 0);
  CHECK(!scratch.has("all.run.texts"));
}

TEST_CASE("parts with failures keep the texts when they are joined, if each of them has its own") {
  const std::string failure =
      R"({"id":"f","choices":[],"usage":null,"error":{"code":"c","message":"m","line":6}})"
      "\n";
  for (const bool has_all : {true, false}) {
    INFO("each has its texts: " << has_all);
    const Scratch scratch;
    const std::string a = part_from(scratch, "a", 0, {11, 12}, 2);
    RunFilesOptions options;
    options.output = scratch.path("b");
    options.job = {{"errors", false}, {"lines", lines_json({.first = 2, .count = 4}, 6)}};
    options.notes = {{"errors", ""}};
    {
      RunFiles files(options, nullptr);
      for (uint64_t i = 0; i < 3; ++i) files.output().put(i, answer_to(2 + i));
      files.output().put(3, failure);
      files::PagedArray<uint64_t> texts;
      for (const uint64_t text : {13, 14, 15, 16}) texts.push_back(text);
      files.note_texts(std::move(texts));
      files.publish(3, 1, 0);
    }
    if (!has_all) std::filesystem::remove(scratch.path("a.run.texts"));
    const Merged merged =
        merge_parts({.parts = {options.output, a}, .output = scratch.path("all"), .errors = ""});
    CHECK(merged.ok == 5);
    CHECK(merged.failed == 1);
    CHECK(read_manifest(manifest_path(scratch.path("all")))->texts == (has_all ? 6 : 0));
    CHECK(texts_in(scratch, "all.run.texts") ==
          (has_all ? std::vector<uint64_t>{11, 12, 13, 14, 15, 16} : std::vector<uint64_t>{}));
  }
}

TEST_CASE("where parts have their failures decides whether a file of failures is given") {
  const Scratch scratch;
  const auto told = [&](const std::string& part, const std::string& errors) -> std::string {
    try {
      merge_parts({.parts = {part}, .output = scratch.path("all"), .errors = errors});
      return "";
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      CHECK(!scratch.has("all"));
      return error.what();
    }
  };
  const std::string together = part_from(scratch, "a", 0, {}, 6);
  const std::string apart = part_from(scratch, "b", 0, {}, 6, "bad");
  CHECK_THAT(told(together, scratch.path("all-bad")),
             Contains("in their outputs; leave out --errors"));
  CHECK_THAT(told(apart, ""), Contains("in files of their own; give --errors FILE"));
  CHECK(told(together, "").empty());
  std::filesystem::remove(scratch.path("all"));
  std::filesystem::remove(scratch.path("all.run.json"));
  CHECK(told(apart, scratch.path("all-bad")).empty());
  CHECK(read_manifest(manifest_path(scratch.path("all")))->notes["errors"] ==
        scratch.path("all-bad"));
}

TEST_CASE("answers name the model as in a run's first life, and its report goes when it goes on") {
  const Scratch scratch;
  scratch.write("in", "{\"id\":\"a0\",\"prompt\":\"x\"}\n{\"id\":\"a1\",\"prompt\":\"x\"}\n");
  const auto record = [&] { return *read_manifest(manifest_path(scratch.path("out"))); };
  files::InputFile input = files::InputFile::open(scratch.path("in"));
  {
    RunFiles files(options_of(scratch, "first"), &input);
    files.output().put(1, answer_to(1));
    files.note_report(R"({"too":"early"})");
    CHECK(record().report.is_null());
    files.publish(1, 0, 1);
    files.note_report(R"({"ok":1})");
    CHECK(record().report == OrderedJson{{"ok", 1}});
    CHECK(record().missing == 1);
  }
  input.rewind();
  RunFiles files(options_of(scratch, "second"), &input);
  CHECK(files.is_known_run());
  CHECK(files.was_published());
  CHECK(record().notes["model"] == "first");
  CHECK(record().report.is_null());
  CHECK(record().state == RunState::running);
  files.output().put(0, answer_to(0));
  files.publish(2, 0, 0);
  CHECK(scratch.read("out") == answer_to(0) + answer_to(1));
  CHECK(record().notes["model"] == "first");
}

TEST_CASE("records are counted of files, not of streams") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  const int reading = open(scratch.path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  for (const bool apart : {false, true}) {
    RunFilesOptions options;
    options.output = scratch.path(apart ? "with" : "without");
    if (apart) options.errors = scratch.path("pipe");
    RunFiles files(options, nullptr);
    files.output().put(0, answer_to(0));
    CHECK(files.records() == (apart ? std::nullopt : std::optional<uint64_t>(1)));
    CHECK(files.kept_at() == options.output + ".part");
  }
  RunFilesOptions options;
  options.output = scratch.path("pipe");
  const RunFiles files(options, nullptr);
  CHECK(files.records() == std::nullopt);
  CHECK(files.kept_at() == options.output);
  close(reading);
}

TEST_CASE("the slice of a job ends where its input does") {
  struct Row {
    uint64_t first;
    std::optional<uint64_t> count, of;
    uint64_t lines;
    bool is_part;
  };
  for (const Row& row : {Row{0, {}, {}, UINT64_MAX, false}, Row{0, {}, 10, 10, false},
                         Row{3, {}, 10, 7, true}, Row{3, 9, 10, 7, true}, Row{3, 2, 10, 2, true},
                         Row{0, 9, 10, 9, true}, Row{0, 10, 10, 10, false}, Row{10, 1, 10, 0, true},
                         Row{12, 5, 10, 0, true}, Row{3, 5, {}, 5, true}}) {
    INFO(row.first << " " << row.count.value_or(0) << " " << row.of.value_or(0));
    const OrderedJson job = {
        {"lines",
         lines_json({.first = row.first, .count = row.count.value_or(UINT64_MAX)}, row.of)}};
    CHECK(slice_of(job).first == row.first);
    CHECK(slice_of(job).count == row.lines);
    CHECK(is_part(job) == row.is_part);
  }
}

TEST_CASE("a new run's failures replace no file, and no failures that another run has left") {
  const Scratch scratch;
  RunFilesOptions options = options_of(scratch, "m");
  options.errors = scratch.path("bad");
  const auto told = [&]() -> std::string {
    try {
      const RunFiles files(options, nullptr);
      return "";
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::foreign_output);
      return error.what();
    }
  };
  scratch.write("bad", "mine\n");
  CHECK_THAT(told(), Contains("bad: is there already"));
  CHECK(scratch.read("bad") == "mine\n");
  std::filesystem::remove(scratch.path("bad"));
  scratch.write("bad.part", answer_to(1));
  CHECK_THAT(told(), Contains("bad.part: holds the finished lines of another run"));
  CHECK(scratch.read("bad.part") == answer_to(1));
  CHECK(!scratch.has("out.run.json"));
  options.existing = files::Existing::replace;
  CHECK(told().empty());
  CHECK(!scratch.has("bad.part"));
}

TEST_CASE("a finished output that was changed is told before there is work for it") {
  const Scratch scratch;
  const RunFilesOptions options = options_of(scratch, "m");
  {
    RunFiles files(options, nullptr);
    files.output().put(0, answer_to(0));
    files.publish(1, 0, 0);
  }
  CHECK_NOTHROW(refuse_other_run(options));
  RunFilesOptions other = options;
  other.job["seed"] = 2;
  CHECK_THROWS_WITH(refuse_other_run(other), Contains("belongs to another run (seed: 1 then, 2"));
  scratch.write("out", answer_to(0) + "more\n");
  const std::string then = std::to_string(answer_to(0).size());
  CHECK_THROWS_WITH(refuse_other_run(options),
                    Contains("out: had " + then + " bytes when its run ended"));
  std::filesystem::remove(scratch.path("out"));
  CHECK_NOTHROW(refuse_other_run(other));  // nothing of that run is left
}
