// A power cut must not take from a batch: a name before its bytes, the only copy of a line, a line
// that counts as kept.
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <set>
#include <thread>

#include "base/error.h"
#include "batch/files/journal.h"
#include "batch/run_life.h"
#include "recorder/disk_recorder.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using test::DiskAnswer;
using test::DiskCall;
using test::DiskRecorder;
using test::Life;
using test::live;
using test::Scratch;

namespace {

/// Watches the files of a run: what was written to them and is not synced.
class WatchedDisk {
 public:
  explicit WatchedDisk(const Scratch& scratch) : recorder_(scratch.path("")) {
    recorder_.answer_with([this](const DiskCall& call) { return watch(call); });
  }
  /// The call answers EIO each time that this says so.
  std::function<bool(const DiskCall&)> fails = [](const DiskCall&) { return false; };

  [[nodiscard]] const DiskRecorder& recorder() const { return recorder_; }
  [[nodiscard]] const std::set<std::filesystem::path>& unsynced() const { return unsynced_; }
  /// Bytes that were removed or given back while their copy was not synced: in "out" or
  /// "out.ordered.part" for "out.part", and the other way round.
  [[nodiscard]] const std::vector<std::string>& lost() const { return lost_; }

 private:
  std::optional<DiskAnswer> watch(const DiskCall& call) {
    if (fails(call)) return DiskAnswer{.error = EIO};
    if (call.name == "write") unsynced_.insert(call.path);
    if (call.name == "fsync") unsynced_.erase(call.path);
    const bool takes = call.name == "unlink" || call.name == "fallocate";
    for (const std::filesystem::path& other : unsynced_) {
      if (takes && output_of(other) == output_of(call.path)) {
        lost_.push_back(call.name + " " + call.path.string());
      }
    }
    return std::nullopt;
  }
  static std::string output_of(const std::filesystem::path& file) {
    return file.filename().string().substr(0, file.filename().string().find('.'));
  }

  DiskRecorder recorder_;
  std::set<std::filesystem::path> unsynced_;
  std::vector<std::string> lost_;
};

const std::vector<std::string> kNothing;

}  // namespace

TEST_CASE("a power cut takes nothing of a batch that has its name") {
  for (const uint64_t lines : {1, 20}) {  // one line is in order as it is
    for (const bool errors_apart : {false, true}) {
      for (const Fsync fsync : {Fsync::each, Fsync::interval, Fsync::end}) {
        INFO(lines << " lines, errors apart: " << errors_apart << ", " << static_cast<int>(fsync));
        const Scratch scratch;
        scratch.write("in", test::life_input(lines));
        const WatchedDisk watched(scratch);
        Life life{.lines = lines, .errors_apart = errors_apart};
        life.options.fsync = fsync;
        REQUIRE(live(scratch, life));
        CHECK(watched.recorder().losses() == kNothing);
        CHECK(watched.lost() == kNothing);
        CHECK(scratch.read("out") == test::life_expected(lines, 60, true, !errors_apart));
      }
    }
  }
}

TEST_CASE("lines are given up in one file only when they are safe in another") {
  // Large enough that the journal's head is given back while lines are put in order.
  Life life{.lines = 40, .order = 3, .record_bytes = size_t{1} << 20};
  life.options.fsync = Fsync::end;
  const Scratch scratch;
  scratch.write("in", test::life_input(life.lines));
  WatchedDisk watched(scratch);
  watched.fails = [](const DiskCall& call) {
    return call.name == "rename" && call.to.filename() == "out";
  };
  CHECK_THROWS_AS(live(scratch, life), Error);
  CHECK(scratch.has("out.ordered.part"));
  watched.fails = [](const DiskCall&) { return false; };
  CHECK(live(scratch, life));  // brings the lines back, and puts them in order again
  CHECK(watched.lost() == kNothing);
  CHECK(watched.recorder().losses() == kNothing);
  CHECK(scratch.read("out") ==
        test::life_expected(life.lines, life.record_bytes, true, !life.errors_apart));
}

TEST_CASE("lines that an empty output replaces do not come back") {
  const Scratch scratch;
  {
    Journal journal(scratch.path("out"), Fsync::end);
    journal.append(0, "{\"id\":\"a\"}\n");
    journal.sync();
  }
  const WatchedDisk watched(scratch);
  Journal journal(scratch.path("out"), Fsync::end);
  journal.clear();
  journal.publish(files::Existing::refuse, [](uint64_t) {});
  CHECK(watched.recorder().losses() == kNothing);
  CHECK(scratch.read("out").empty());
}

TEST_CASE("lines that are kept are on the disk, as soon as --fsync says") {
  struct Row {
    Fsync fsync;
    size_t after_small, after_large;  // of records that were appended
  };
  const std::string small = "{\"id\":\"a\"}\n";
  const std::string large = "{\"id\":\"" + std::string(size_t{1} << 20, 'a') + "\"}\n";
  for (const Row& row :
       {Row{Fsync::each, 1, 2}, Row{Fsync::interval, 0, 1}, Row{Fsync::end, 0, 0}}) {
    INFO(static_cast<int>(row.fsync));
    const Scratch scratch;
    const WatchedDisk watched(scratch);
    Journal journal(scratch.path("out"), row.fsync);
    const auto synced = [&] { return watched.recorder().calls("fsync").size(); };
    journal.append(0, small);
    CHECK(synced() == row.after_small);
    journal.append(1, large);
    CHECK(synced() == row.after_large);
    journal.append(2, small);
    journal.sync();
    CHECK(watched.unsynced().empty());
  }
  for (const Fsync fsync : {Fsync::each, Fsync::interval, Fsync::end}) {
    const Scratch scratch;
    scratch.write("in", test::life_input(20));
    const WatchedDisk watched(scratch);
    Life life{.stop_after = 7};
    life.options.fsync = fsync;
    CHECK_FALSE(live(scratch, life));
    CHECK(watched.unsynced().empty());
  }
}

TEST_CASE("lines that come seldom are on the disk within a second of the next one") {
  const std::string small = "{\"id\":\"a\"}\n";
  for (const Fsync fsync : {Fsync::interval, Fsync::end}) {
    const Scratch scratch;
    const WatchedDisk watched(scratch);
    Journal journal(scratch.path("out"), fsync);
    const auto synced = [&] { return watched.recorder().calls("fsync").size(); };
    journal.append(0, small);
    journal.append(1, small);
    CHECK(synced() == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    journal.append(2, small);
    CHECK(synced() == (fsync == Fsync::interval ? 1 : 0));
    journal.append(3, small);
    CHECK(synced() == (fsync == Fsync::interval ? 1 : 0));
  }
}
