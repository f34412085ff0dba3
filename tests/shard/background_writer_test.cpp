// Blocks written beside the work that fills the next ones.
#include "shard/background_writer.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "batch/scratch.h"
#include "recorder/disk_recorder.h"

namespace plimsoll::shard {

using test::DiskAnswer;
using test::DiskCall;
using test::DiskRecorder;
using test::Scratch;

TEST_CASE("blocks that are filled by turns stand in the file in order") {
  const Scratch scratch;
  OutputFolder folder(scratch.path("out"));
  std::string expected;
  {
    TemporaryFile file(folder, "file", 0);
    BackgroundWriter writer(file);
    std::vector<std::byte> blocks[2];
    for (int i = 0; i < 40; ++i) {
      auto& block = blocks[i % 2];  // which the last call but one has written
      block.assign(1000 + static_cast<size_t>(i), static_cast<std::byte>('a' + i % 26));
      expected.append(block.size(), static_cast<char>('a' + i % 26));
      writer.start(block);
    }
    writer.wait();
    file.finish();
    file.publish();
  }
  CHECK(scratch.read("out/file") == expected);
}

TEST_CASE("a file that the disk has no room for leaves nothing in the folder") {
  const Scratch scratch;
  OutputFolder folder(scratch.path("out"));
  DiskRecorder recorder(scratch.path("out"));
  int error = 0;
  recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
    if (call.name != "fallocate") return std::nullopt;
    return DiskAnswer{.error = error};
  });
  for (const int full : {ENOSPC, EDQUOT, EFBIG}) {
    error = full;
    CHECK_THROWS_AS(TemporaryFile(folder, "file", 1 << 20), Error);
    CHECK(std::filesystem::is_empty(scratch.path("out")));
  }
}

TEST_CASE("the failure of one block is told by the next call, and by each after it") {
  const Scratch scratch;
  OutputFolder folder(scratch.path("out"));
  DiskRecorder recorder(scratch.path("out"));
  int writes = 0;
  recorder.answer_with([&](const DiskCall& call) -> std::optional<DiskAnswer> {
    if (call.name != "write" || ++writes != 2) return std::nullopt;
    return DiskAnswer{.error = ENOSPC};
  });
  TemporaryFile file(folder, "file", 0);
  BackgroundWriter writer(file);
  const std::vector<std::byte> block(kDirectBlock);
  writer.start(block);
  writer.start(block);
  CHECK_THROWS_WITH(writer.start(block), Catch::Contains("space"));
  CHECK_THROWS_WITH(writer.wait(), Catch::Contains("space"));
}

}  // namespace plimsoll::shard
