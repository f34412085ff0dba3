// Journal, record and publication: the files that remain when a life ends anywhere, and the next
// life's way on.
#include "batch/files/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

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

ExitCode code_of(const std::function<void()>& act, const std::string& told = "") {
  try {
    act();
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains(told));
    return error.code();
  }
  return ExitCode::done;
}

const std::string kWhole = life_expected(20, 60, true, true);

void check_published(const Scratch& scratch, bool errors_apart = false) {
  if (errors_apart) {
    CHECK(scratch.read("out") == life_expected(20, 60, true, false));
    CHECK(scratch.read("bad") == life_expected(20, 60, false, true));
  } else {
    CHECK(scratch.read("out") == kWhole);
  }
  for (const char* name : {"out.part", "out.part.xxh3", "out.ordered.part", "bad.part",
                           "bad.part.xxh3", "bad.ordered.part", "out.run.json.part"}) {
    INFO(name);
    CHECK(!scratch.has(name));
  }
}

}  // namespace

TEST_CASE("a run over several lives: nothing lost, nothing twice, input order") {
  for (const bool errors_apart : {false, true}) {
    const Scratch scratch;
    scratch.write("in", life_input(20));
    unsigned order = 0;
    while (!live(scratch, {.order = ++order, .stop_after = 3, .errors_apart = errors_apart})) {
      CHECK(!scratch.has("out"));
    }
    CHECK(order == 7);
    check_published(scratch, errors_apart);
    // Once more: nothing is touched.
    struct stat before {};
    struct stat after {};
    stat(scratch.path("out").c_str(), &before);
    CHECK(live(scratch, {.errors_apart = errors_apart}));
    stat(scratch.path("out").c_str(), &after);
    CHECK(before.st_ino == after.st_ino);
    check_published(scratch, errors_apart);
  }
}

TEST_CASE("a run into a stream that stops early gives the lines behind a gap too") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  const int reading = open(scratch.path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  {
    RunFilesOptions options;
    options.output = scratch.path("pipe");
    RunFiles files(options, nullptr);
    files.output().put(0, "a\n");
    files.output().put(2, "c\n");
    files.keep();
  }
  char buffer[16];
  REQUIRE(read(reading, buffer, sizeof buffer) == 4);
  close(reading);
  CHECK(std::string(buffer, 4) == "a\nc\n");
}

TEST_CASE("the failed lines of a run into a stream replace a file only where they may") {
  const Scratch scratch;
  REQUIRE(mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  const int reading = open(scratch.path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  scratch.write("bad", "mine\n");
  RunFilesOptions options;
  options.output = scratch.path("pipe");
  options.errors = scratch.path("bad");
  CHECK(code_of([&] { RunFiles(options, nullptr); }, "--overwrite") == ExitCode::foreign_output);
  CHECK(scratch.read("bad") == "mine\n");
  options.existing = files::Existing::replace;
  CHECK(code_of([&] { RunFiles(options, nullptr); }) == ExitCode::done);
  options.existing = files::Existing::refuse;
  options.errors = scratch.path("");
  CHECK(code_of([&] { RunFiles(options, nullptr); }, "is a folder") == ExitCode::output_unwritable);
  close(reading);
}

TEST_CASE("records beyond 4 GiB are put in order") {
  const Scratch scratch;
  const std::string text[] = {"{\"id\":\"a\"}\n", "{\"id\":\"b\"}\n", "{\"id\":\"c\"}\n"};
  const uint64_t places[] = {uint64_t{6} << 30, 0, (uint64_t{4} << 30) + 5};
  const int part = open(scratch.path("out.part").c_str(), O_RDWR | O_CREAT, 0600);
  for (size_t i = 0; i < 3; ++i) {
    const auto bytes = static_cast<ssize_t>(text[i].size());
    REQUIRE(pwrite(part, text[i].data(), text[i].size(), static_cast<off_t>(places[i])) == bytes);
  }
  close(part);
  Journal journal(scratch.path("out"), Fsync::end);
  for (size_t i = 0; i < 3; ++i) journal.adopt(i, {places[i], text[i].size()});
  journal.publish(files::Existing::refuse, [](uint64_t) {});
  CHECK(scratch.read("out") == text[0] + text[1] + text[2]);
}

TEST_CASE("a tail cut at any byte, or of zeros, is dropped and its line done anew") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  CHECK(!live(scratch, {.stop_after = 6}));
  const std::string part = scratch.read("out.part");
  const size_t last = part.rfind('\n', part.size() - 2);
  for (size_t cut = part.rfind('\n', last - 1); cut <= part.size(); ++cut) {
    INFO("cut at " << cut);
    for (const char* tail : {"", "zeros"}) {
      scratch.write("out.part", part.substr(0, cut) + std::string(*tail ? 4096 : 0, '\0'));
      CHECK(!live(scratch, {.stop_after = 0}));
      const std::string kept = scratch.read("out.part");
      CHECK(kept == part.substr(0, part.rfind('\n', cut - 1) + 1));
    }
  }
  CHECK(live(scratch, {}));
  check_published(scratch);
}

TEST_CASE("how much of a journal was dropped is told: torn bytes, not zeros that were given back") {
  const std::string record = "{\"id\":\"a\",\"choices\":[],\"error\":null}\n";
  const std::string torn = "{\"id\":\"b";
  const std::string zeros(64, '\0');
  struct Row {
    std::string part;
    uint64_t dropped;
    size_t records;
  };
  for (const Row& row : {Row{record, 0, 1}, Row{record + torn, torn.size(), 1},
                         Row{zeros + record + torn, torn.size(), 1}, Row{zeros, 0, 0},
                         Row{zeros + torn, torn.size(), 0}, Row{torn, torn.size(), 0}}) {
    INFO(row.part);
    const Scratch scratch;
    scratch.write("out.part", row.part);
    Journal journal(scratch.path("out"), Fsync::end);
    size_t records = 0;
    CHECK(journal.recover([&](const Extent&, const Record&) { ++records; }) == row.dropped);
    CHECK(records == row.records);
  }
}

TEST_CASE("a bad line with an id that is taken does not get the answer of the id's owner") {
  const Scratch scratch;
  scratch.write("in",
                "{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\"}}\n"
                "{\"custom_id\":\"a\"}\n");
  const std::string answer =
      "{\"id\":\"1\",\"custom_id\":\"a\",\"response\":{\"status_code\":200},\"error\":null}\n";
  const std::string failure =
      "{\"id\":\"2\",\"custom_id\":\"a\",\"response\":null,"
      "\"error\":{\"code\":\"bad_field\",\"message\":\"m\",\"line\":2}}\n";
  RunFilesOptions options;
  options.output = scratch.path("out");
  options.job = {{"seed", 1}};
  options.notes = OrderedJson::object();
  options.resume.max_line_bytes = 1 << 20;
  {
    files::InputFile input = files::InputFile::open(scratch.path("in"));
    RunFiles files(options, &input);
    files.output().put(1, failure);
    files.output().put(0, answer);
    files.keep();
  }
  files::InputFile input = files::InputFile::open(scratch.path("in"));
  RunFiles files(options, &input);
  CHECK(files.done().ok == 1);
  CHECK(files.done().failed == 1);
  files.publish(1, 1, 0);
  CHECK(scratch.read("out") == answer + failure);
}

TEST_CASE("a life that ended between an output's name and its note is known for what it was") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  const auto forget = [&](const std::string& state) {
    std::string record = scratch.read("out.run.json");
    const std::string noted = "\"state\": \"" + state + "\"";
    REQUIRE(record.find(noted) != std::string::npos);
    scratch.write("out.run.json",
                  record.replace(record.find(noted), noted.size(), "\"state\": \"publishing\""));
  };
  CHECK(!live(scratch, {.stop_after = 5}));
  CHECK(publish_what_is_there(scratch.path("out")).manifest.missing == 15);
  forget("partial");
  CHECK(live(scratch, {.order = 2}));  // goes on with the lines that are missing
  check_published(scratch);
  forget("complete");
  scratch.write("out.part", "{\"id\":\"a1\",\"choices\":[],\"error\":null}\n");  // not yet removed
  for (int life = 0; life < 3; ++life) CHECK(live(scratch, {}));
  check_published(scratch);
  CHECK_THAT(scratch.read("out.run.json"), Catch::Contains("\"state\": \"complete\""));
}

TEST_CASE("damage before the tail, and records of other lines, are refused and left alone") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  CHECK(!live(scratch, {.stop_after = 6}));
  std::string part = scratch.read("out.part");
  std::string damaged = part;
  damaged[part.find('\n') + 3] = '\x01';
  scratch.write("out.part", damaged);
  CHECK(code_of([&] { live(scratch, {}); }, "line 2 at byte") == ExitCode::foreign_output);
  CHECK(scratch.read("out.part") == damaged);
  scratch.write("out.part", "{\"id\":\"zz\",\"choices\":[],\"error\":null}\n" + part);
  CHECK(code_of([&] { live(scratch, {}); }, "does not have") == ExitCode::foreign_output);
  scratch.write("out.part", part);
  CHECK(live(scratch, {}));
  check_published(scratch);
}

TEST_CASE("another run is refused with the key that differs, unless it may start anew") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  CHECK(!live(scratch, {.stop_after = 6}));
  const std::string part = scratch.read("out.part");
  Life other;
  other.options.job = {{"input", 1}, {"lines", {{"first", 0}, {"count", 9}}}, {"seed", 2}};
  CHECK(code_of([&] { live(scratch, other); }, "input: ") == ExitCode::foreign_output);
  CHECK(scratch.read("out.part") == part);
  other.options.existing = files::Existing::replace;
  scratch.write("out.ordered.part", part);  // of a publication that was cut off
  other.stop_after = 3;
  CHECK(!live(scratch, other));
  CHECK(!scratch.has("out.ordered.part"));
  other.stop_after = 1000;
  CHECK(live(scratch, other));
  CHECK(scratch.read("out") == kWhole);
}

TEST_CASE("difference names a nested key with both values") {
  CHECK(difference({{"a", 1}, {"b", {{"c", 2}}}}, {{"a", 1}, {"b", {{"c", 3}}}}) ==
        "b.c: 2 then, 3 now");
  CHECK(difference({{"a", 1}}, {{"a", 1}, {"b", "x"}}) == "b: none then, \"x\" now");
  CHECK(difference({{"a", 1}, {"b", 2}}, {{"b", 2}, {"a", 1}}).empty());
}

TEST_CASE("an output without a record, or a journal without one, is never touched") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  scratch.write("out", "mine\n");
  CHECK(code_of([&] { live(scratch, {}); }, "--overwrite") == ExitCode::foreign_output);
  CHECK(scratch.read("out") == "mine\n");
  CHECK(!scratch.has("out.part"));
  std::filesystem::remove(scratch.path("out"));
  scratch.write("out.part", "mine\n");
  CHECK(code_of([&] { live(scratch, {}); }, "out.run.json") == ExitCode::foreign_output);
  CHECK(scratch.read("out.part") == "mine\n");
  scratch.write("elsewhere", "mine\n");
  std::filesystem::remove(scratch.path("out.part"));
  REQUIRE(symlink(scratch.path("elsewhere").c_str(), scratch.path("out.part").c_str()) == 0);
  CHECK(code_of([&] { live(scratch, {}); }) == ExitCode::output_unwritable);
  CHECK(scratch.read("elsewhere") == "mine\n");
}

TEST_CASE("a run that fails before its first record leaves nothing") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  CHECK(!live(scratch, {.stop_after = 0}));
  CHECK(!scratch.has("out.part"));
  CHECK(!scratch.has("out.run.json"));
}

TEST_CASE("failed lines are tried again on demand, before and after publication") {
  for (const bool errors_apart : {false, true}) {
    for (const uint64_t stop : {uint64_t{15}, uint64_t{100}}) {
      const Scratch scratch;
      scratch.write("in", life_input(20));
      live(scratch, {.stop_after = stop, .errors_apart = errors_apart});
      Life again{.errors_apart = errors_apart};
      again.options.resume.failed = Failed::retry;
      CHECK(live(scratch, again));
      check_published(scratch, errors_apart);
    }
  }
}

TEST_CASE("what is there can be published, and the same run goes on from it") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  CHECK(!live(scratch, {.stop_after = 12}));
  const Published published = publish_what_is_there(scratch.path("out"));
  CHECK(published.in_order);
  CHECK(published.manifest.missing == 8);
  CHECK(published.manifest.ok + published.manifest.failed == 12);
  CHECK(!scratch.has("out.part"));
  CHECK(live(scratch, {}));
  check_published(scratch);
  CHECK(publish_what_is_there(scratch.path("out")).manifest.missing == 0);
  scratch.write("other.part", "");
  CHECK(code_of([&] { publish_what_is_there(scratch.path("other.part")); },
                "give the name of its output, " + scratch.path("other")) ==
        ExitCode::foreign_output);
  CHECK(code_of([&] { publish_what_is_there(scratch.path("none")); }, "no run to publish") ==
        ExitCode::foreign_output);
}

TEST_CASE("without the input lines are published as they were finished") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  CHECK(!live(scratch, {.stop_after = 12}));
  const std::string part = scratch.read("out.part");
  std::filesystem::remove(scratch.path("in"));
  CHECK(!publish_what_is_there(scratch.path("out")).in_order);
  CHECK(scratch.read("out") == part);
}

TEST_CASE("two processes cannot write one output") {
  const Scratch scratch;
  scratch.write("in", life_input(20));
  Journal journal(scratch.path("out"), Fsync::end);
  // Record locks belong to processes: look from another one.
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(code_of([&] { live(scratch, {}); }, "pid")));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::locked));
}

TEST_CASE("publication gives the journal's space back on the way") {
  const Scratch scratch;
  constexpr uint64_t kLines = 400;
  constexpr size_t kBytes = 256 << 10;  // 100 MiB in all
  scratch.write("in", life_input(kLines));
  // Nearly in order, as a run finishes lines.
  Journal journal(scratch.path("out"), Fsync::end);
  for (uint64_t slot = 0; slot < kLines; ++slot) {
    bool failed = false;
    journal.append(slot ^ 3u, test::life_record(slot ^ 3u, failed, kBytes));
  }
  uint64_t most = 0;
  static const Scratch* watched = nullptr;
  static uint64_t* peak = nullptr;
  watched = &scratch;
  peak = &most;
  files::set_io_fault([](const char* call) {
    if (std::string_view(call) != "fsync" && std::string_view(call) != "rename") return 0;
    uint64_t blocks = 0;
    for (const char* name : {"out.part", "out.ordered.part"}) {
      struct stat status {};
      if (stat(watched->path(name).c_str(), &status) == 0) {
        blocks += static_cast<uint64_t>(status.st_blocks) * 512;
      }
    }
    *peak = std::max(*peak, blocks);
    return 0;
  });
  journal.publish(files::Existing::refuse, [](uint64_t) {});
  files::set_io_fault(nullptr);
  CHECK(scratch.read("out") == life_expected(kLines, kBytes, true, true));
  const auto whole = static_cast<uint64_t>(kLines) * kBytes;
  // A fifth more for what is copied before it is given back; where no holes can be made, twice.
  CHECK((most < whole + whole / 2 || most > 2 * whole - whole / 10));
  WARN("peak of disk space while publishing: " << most << " of " << whole << " bytes");
}
