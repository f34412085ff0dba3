// Runs whose index lies on the disk but for a page of each array: everything is as in memory.
#include <catch2/catch.hpp>

#include "batch/files/merge.h"
#include "batch/files/publish.h"
#include "batch/run_life.h"
#include "files/seam.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::Life;
using test::life_expected;
using test::life_input;
using test::live;
using test::Scratch;

namespace {

constexpr uint64_t kLines = 2000;  // 32 pages of places, 64 of ids

/// Renames that the system makes before one fails.
int renames_left = 0;
int fail_renames(const char* call) {
  return std::string_view(call) == "rename" && renames_left-- == 0 ? EIO : 0;
}

/// While it lives an array has one page in memory.
struct OnDisk {
  OnDisk() { files::set_page_bound(0); }
  ~OnDisk() { files::set_page_bound(SIZE_MAX); }
};

std::string told_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("on the disk: several lives, failures apart or not, some tried again") {
  const OnDisk on_disk;
  for (const bool errors_apart : {false, true}) {
    const Scratch scratch;
    scratch.write("in", life_input(kLines));
    unsigned order = 0;
    Life life{.lines = kLines, .stop_after = 700, .errors_apart = errors_apart};
    do {
      life.order = ++order;
    } while (!live(scratch, life));
    CHECK(order == 3);
    life.options.resume.failed = Failed::retry;
    CHECK(live(scratch, life));
    CHECK(scratch.read("out") == life_expected(kLines, 60, true, !errors_apart));
    if (errors_apart) CHECK(scratch.read("bad") == life_expected(kLines, 60, false, true));
  }
}

TEST_CASE(
    "on the disk: damaged and foreign records are told as in memory, taken out, answered anew") {
  const Scratch scratch;
  scratch.write("in", life_input(kLines));
  CHECK(!live(scratch, {.lines = kLines, .stop_after = 1500}));
  const std::string part = scratch.read("out.part");
  const std::string digests = scratch.read("out.part.xxh3");
  std::vector<size_t> begins{0};
  while (begins.size() < 1500) begins.push_back(part.find('\n', begins.back()) + 1);
  std::string damaged = part;
  for (const size_t line : {3, 700, 701, 1499}) damaged[begins[line] + 45] ^= 1;
  std::string shorter = part;
  for (const size_t line : {701, 700, 3}) {
    shorter.erase(begins[line], begins[line + 1] - begins[line]);
  }
  const std::string foreign = part + "{\"id\":\"zz\",\"choices\":[],\"error\":null}\n";
  const auto tell = [&](const std::string& journal) {
    scratch.write("out.part", journal);
    scratch.write("out.part.xxh3", digests);
    return told_by([&] { live(scratch, {.lines = kLines, .stop_after = 0}); });
  };
  for (const std::string& journal : {damaged, shorter, foreign}) {
    const std::string in_memory = tell(journal);
    CHECK(in_memory.empty() == (journal == shorter));
    const OnDisk on_disk;
    CHECK(tell(journal) == in_memory);
  }
  const OnDisk on_disk;
  CHECK(tell(shorter).empty());
  CHECK(live(scratch, {.lines = kLines}));
  CHECK(scratch.read("out") == life_expected(kLines, 60, true, true));
}

TEST_CASE("on the disk: lines that were corrected are answered anew, and no others") {
  const OnDisk on_disk;
  const Scratch scratch;
  std::string input = life_input(kLines);
  scratch.write("in", input);
  std::vector<uint64_t> open;  // slots of the last life
  // The digests of texts that a runner notes.
  const auto note = [&](Life life, bool publish = true) {
    RunFilesOptions options = life.options;
    options.output = scratch.path("out");
    options.job = {{"input", {{"xxh3", input}}}, {"lines", {{"first", 0}, {"count", UINT64_MAX}}}};
    options.resume.max_line_bytes = 1 << 20;
    files::InputFile file = files::InputFile::open(scratch.write("in", input));
    RunFiles files(options, &file);
    open.clear();
    for (uint64_t slot = 0; slot < kLines; ++slot) {
      if (files.done().at(slot) != DoneLines::State::open) continue;
      open.push_back(slot);
      bool failed = false;
      const std::string record = test::life_record(slot, failed, 60);
      files.output().put(slot, record);
    }
    files::PagedArray<uint64_t> texts;
    LineReader reader(file, 1 << 20);
    Line line;
    while (reader.next(line, -1) == LineReader::Got::line) texts.push_back(digest(line.text).low);
    files.note_texts(std::move(texts));
    if (publish) files.publish(kLines - kLines / 10, kLines / 10, 0);
  };
  scratch.write("out.run.texts", "mine");
  CHECK_THAT(told_by([&] { note({}); }), Catch::Contains("is there already, without a run"));
  std::filesystem::remove(scratch.path("out.run.texts"));
  note({});
  CHECK(open.size() == kLines);
  CHECK(scratch.read("out.run.texts").size() == 8 * kLines);
  const std::string whole = scratch.read("out");
  input.replace(input.find("\"a1999\",\"prompt\":\"x\""), 20, "\"a1999\",\"prompt\":\"y\"");
  Life again;
  again.options.resume.failed = Failed::retry;
  const std::string texts = scratch.read("out.run.texts");
  // Where the output does not get its name, the texts stay those of its answers so far.
  int without_name = 0;
  bool is_named = false;
  for (int renames = 0; !is_named; ++renames) {
    open.clear();
    renames_left = renames;
    files::set_io_fault(fail_renames);
    CHECK(!told_by([&] { note(again); }).empty());
    files::set_io_fault(nullptr);
    const bool is_there = std::filesystem::exists(scratch.path("out"));
    is_named = is_there && renames > 0;  // at first it has not lost its name yet
    if (is_there) continue;
    CHECK(scratch.read("out.run.texts") == texts);
    if (open.empty()) continue;  // the life ended before it
    CHECK(open.size() == kLines / 10 + 1);
    CHECK(open.back() == 1998);
    ++without_name;
  }
  CHECK(without_name > 0);
  note(again);
  CHECK(scratch.read("out") == whole);
  CHECK(scratch.read("out.run.texts") != texts);
  // Without the file corrected lines cannot be known, nor in the middle of a life.
  note(again, false);
  std::filesystem::rename(scratch.path("out.run.texts"), scratch.path("aside"));
  CHECK_THAT(told_by([&] { note(again); }), Catch::Contains("does not have the 2000 lines"));
  std::filesystem::rename(scratch.path("aside"), scratch.path("out.run.texts"));
  note(again);
  std::filesystem::remove(scratch.path("out.run.texts"));
  input.replace(input.find("\"a1999\",\"prompt\":\"y\""), 20, "\"a1999\",\"prompt\":\"z\"");
  const std::string told = told_by([&] { note(again); });
  CHECK_THAT(told, Catch::Contains("belongs to another run (input"));
  CHECK_THAT(told, Catch::Contains("out.run.texts back, which tells corrected lines"));
}

TEST_CASE("on the disk: parts are joined, and a record that is there twice is found") {
  const OnDisk on_disk;
  const Scratch scratch;
  const auto make_part = [&](const std::string& name, uint64_t first) {
    RunFilesOptions options;
    options.output = scratch.path(name);
    options.job = {{"errors", false},
                   {"lines", {{"first", first}, {"count", kLines / 2}, {"of", kLines}}}};
    RunFiles files(options, nullptr);
    bool failed = false;
    for (uint64_t i = kLines / 2; i-- > 0;) {
      files.output().put(i, test::life_record(first + i, failed, 60));
    }
    files.publish(kLines / 2 - kLines / 20, kLines / 20, 0);
    return options.output;
  };
  MergeOptions options;
  options.parts = {make_part("a", 0), make_part("b", kLines / 2)};
  options.output = scratch.path("all");
  CHECK(merge_parts(options).failed == kLines / 10);
  const std::string whole = life_expected(kLines, 60, true, true);
  CHECK(scratch.read("all") == whole);
  scratch.write("b", whole.substr(0, scratch.read("b").size()));
  options.output = scratch.path("again");
  CHECK_THAT(told_by([&] { merge_parts(options); }),
             Catch::Contains("b, line 1: is the record of a line that has one already"));
}
