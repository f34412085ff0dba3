// Shards, and checkpoints joined of them, through a power cut, on a disk that fails once, without
// threads, and where shards change.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>

#include "like_cases.h"
#include "recorder/disk_recorder.h"
#include "recorder/thread_limit.h"
#include "shard/llama_shards.h"
#include "shard/unshard.h"

namespace plimsoll::shard {
namespace {

using test::DiskAnswer;
using test::DiskCall;
using test::DiskRecorder;

const JobOptions kSmallParts{.tensor_parallel = 2, .max_file_size = 10000};
const JobOptions kSmallFiles{.max_file_size = 10000};

// Sharding, and joining what was sharded into "shards" before.
struct Action {
  const char* name;
  std::function<void(const Scratch&)> run;
};
const Action kActions[] = {{"shard", [](const Scratch& scratch) { write(scratch, kSmallParts); }},
                           {"unshard", [](const Scratch& scratch) {
                              unshard(scratch.path("shards"), scratch.path("out"), kSmallFiles);
                            }}};

void prepare(const Scratch& scratch) {
  make_model(scratch);
  write(scratch, kSmallParts, "shards");
}

// Inodes of the weight files with a final name: a file that is written again has another.
std::map<std::string, ino_t> weight_files(const fs::path& folder) {
  std::map<std::string, ino_t> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    struct stat status {};
    if (entry.path().extension() == ".safetensors" && stat(entry.path().c_str(), &status) == 0) {
      found[entry.path().filename().string()] = status.st_ino;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("a power cut takes nothing that has its final name") {
  for (const Action& action : kActions) {
    INFO(action.name);
    const Scratch scratch;
    prepare(scratch);
    const DiskRecorder recorder(scratch.path(""));
    action.run(scratch);
    CHECK(recorder.losses() == std::vector<std::string>{});
    CHECK(recorder.calls("rename").size() >= weight_files(scratch.path("out")).size() + 2);
  }
}

TEST_CASE("a call that fails once is noticed, whichever it is, and the same command goes on") {
  for (const Action& action : kActions) {
    const Scratch scratch;
    prepare(scratch);
    std::atomic<int> calls = 0;
    const auto run = [&](int failing) {
      calls = 0;
      fs::remove_all(scratch.path("out"));
      DiskRecorder recorder(scratch.path(""));
      recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
        // Space that cannot be set aside is no failure; what is removed then was unfinished.
        if (call.name == "fallocate" || call.name == "unlink") return std::nullopt;
        if (++calls != failing) return std::nullopt;
        UNSCOPED_INFO("failing: " << call.name << " " << call.path);
        return DiskAnswer{.error = EIO};
      });
      action.run(scratch);
    };
    run(0);
    const int total = calls;
    const auto expected = contents(scratch.path("out"));
    REQUIRE(total > 30);
    for (int failing = 1; failing <= total; ++failing) {
      if (!testing::is_taken(static_cast<size_t>(failing), 5)) continue;
      INFO(action.name << ": call " << failing << " of " << total);
      CHECK(failure([&] { run(failing); }, "Input/output error") == ExitCode::output_unwritable);
      action.run(scratch);
      CHECK(contents(scratch.path("out")) == expected);
    }
  }
}

TEST_CASE("short writes are gone on with") {
  for (const Action& action : kActions) {
    INFO(action.name);
    const Scratch scratch;
    prepare(scratch);
    action.run(scratch);
    const auto expected = contents(scratch.path("out"));
    fs::remove_all(scratch.path("out"));
    DiskRecorder recorder(scratch.path(""));
    recorder.answer_with([](const DiskCall& call) -> std::optional<DiskAnswer> {
      if (call.name != "write" || call.bytes < 2) return std::nullopt;
      return DiskAnswer{.bytes = (call.bytes + 1) / 2};
    });
    action.run(scratch);
    CHECK(contents(scratch.path("out")) == expected);
  }
}

TEST_CASE("what was begun with files of one size is not gone on with in files of another") {
  const Scratch scratch;
  prepare(scratch);
  {
    DiskRecorder recorder(scratch.path(""));
    recorder.answer_with([](const DiskCall& call) -> std::optional<DiskAnswer> {
      if (call.to.extension() != ".safetensors") return std::nullopt;
      return DiskAnswer{.error = EIO};
    });
    for (const Action& action : kActions) {
      INFO(action.name);
      fs::remove_all(scratch.path("out"));
      CHECK(failure([&] { action.run(scratch); }, "error") == ExitCode::output_unwritable);
      fs::rename(scratch.path("out"), scratch.path(std::string(action.name) + "ed"));
    }
  }
  for (const int64_t size : {9999, 10001, 1 << 30}) {
    INFO(size);
    const auto joined = [&] {
      unshard(scratch.path("shards"), scratch.path("unsharded"), {.max_file_size = size});
    };
    CHECK(failure(joined, "another job left unfinished") == ExitCode::foreign_output);
    const auto sharded = [&] {
      write(scratch, {.tensor_parallel = 2, .max_file_size = size}, "sharded");
    };
    CHECK(failure(sharded, "max_file_size") == ExitCode::foreign_output);
  }
}

TEST_CASE("what was finished before a stop is not written again") {
  for (const Action& action : kActions) {
    INFO(action.name);
    const Scratch scratch;
    prepare(scratch);
    {
      DiskRecorder recorder(scratch.path(""));
      size_t finished = 0;
      recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
        const bool weights = call.to.extension() == ".safetensors";
        if (weights) ++finished;
        if (finished < 5 || weights) return std::nullopt;
        // The fifth has its name; the record of it, and all that follows, fails.
        return DiskAnswer{.error = EIO};
      });
      CHECK(failure([&] { action.run(scratch); }, "error") == ExitCode::output_unwritable);
    }
    const auto before = weight_files(scratch.path("out"));
    REQUIRE(before.size() >= 5);
    const DiskRecorder recorder(scratch.path(""));
    action.run(scratch);
    const auto after = weight_files(scratch.path("out"));
    size_t kept = 0;
    for (const auto& [name, inode] : before) kept += after.at(name) == inode ? 1 : 0;
    CHECK(kept >= 4);
  }
}

TEST_CASE("a system with too few threads for the ranks is told, and the same command goes on") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  const Job job(source, {.tensor_parallel = 4});
  const auto run = [&](const std::string& out) {
    write_shards(job, scratch.path(out), {.tool_version = "test", .threads = 4});
  };
  run("expected");
  const auto expected = contents(scratch.path("expected"));
  alarm(60);  // ends the program where a thread waits for one that never began
  // A thread for each rank's file, and one for each rank.
  for (int most = 0; most < 4 + 4; ++most) {
    INFO(most << " threads");
    const test::ThreadLimit limit(most);
    CHECK_THROWS_AS(run("out"), std::system_error);
    CHECK(weight_files(scratch.path("out")).empty());
  }
  alarm(0);
  run("out");
  CHECK(contents(scratch.path("out")) == expected);
}

TEST_CASE("a stop between two parts keeps all files of the first") {
  const Scratch scratch;
  make_model(scratch);
  const Source source(scratch.path("model"));
  const Job job(source, kSmallParts);
  const int64_t first = job.stages().front().parts.front().bytes() * 2;
  std::atomic<bool> stop = false;
  const auto progress = [&](int64_t done) { stop = done > first; };
  const auto run = [&] {
    return write_shards(job, scratch.path("out"),
                        {.tool_version = "test", .stop = &stop, .progress = progress});
  };
  CHECK(failure(run, "stopped") == ExitCode::stopped_resumable);
  stop = false;
  const WriteResult result = write_shards(job, scratch.path("out"), {.tool_version = "test"});
  CHECK(result.kept_bytes >= first);
  CHECK(result.kept_bytes + result.written_bytes == job.bytes());
}

TEST_CASE("shards that change while they are joined leave an unfinished checkpoint") {
  struct Row {
    const char* what;
    std::function<void(const fs::path& shards)> change;
  };
  const Row rows[] = {
      {"a weight file of the same size, written again",
       [](const fs::path& shards) {
         const fs::path file = shards / "model-rank-1-part-0.safetensors";
         fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
       }},
      {"a file more",
       [](const fs::path& shards) { std::ofstream(shards / "model-rank-2-part-0.safetensors"); }},
      {"a file less",
       [](const fs::path& shards) { fs::remove(shards / "model-rank-1-part-0.safetensors"); }},
      {"a longer side file", [](const fs::path& shards) {
         std::ofstream(shards / "tokenizer.json", std::ios::app) << " ";
       }}};
  for (const Row& row : rows) {
    INFO(row.what);
    const Scratch scratch;
    prepare(scratch);
    bool changed = false;
    DiskRecorder recorder(scratch.path(""));
    recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
      if (changed || call.to.extension() != ".safetensors") return std::nullopt;
      changed = true;
      row.change(scratch.path("shards"));
      return std::nullopt;
    });
    CHECK(failure([&] { kActions[1].run(scratch); }, "were changed") ==
          ExitCode::checkpoint_unusable);
    CHECK(scratch.has(std::string("out/") + kJournal));
  }
}

}  // namespace plimsoll::shard
