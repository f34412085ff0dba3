// Sizes of the files that `plimsoll shard` writes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/program.h"

using namespace plimsoll;
using Catch::Contains;
using test::Outcome;
using test::Scratch;
using test::shell;

namespace {

/// The payload of the largest of a folder's .safetensors, to within its header; how many there are.
std::pair<size_t, uint64_t> weight_files(const std::string& folder) {
  size_t count = 0;
  uint64_t largest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++count;
    largest = std::max<uint64_t>(largest, entry.file_size());
  }
  return {count, largest};
}

}  // namespace

TEST_CASE("shards are cut at the size that is asked for, at 5 GiB, or not at all") {
  const Scratch scratch;
  struct Row {
    std::string folder, flags;
    Json recorded;
  };
  constexpr int64_t kUsual = int64_t{5} << 30;
  constexpr int64_t kSmall = int64_t{1} << 20;
  const Row rows[] = {{"usual", "", kUsual},
                      {"small", " --max-file-size 1MiB", kSmall},
                      {"whole", " --max-file-size none", nullptr}};
  for (const Row& row : rows) {
    INFO(row.folder);
    REQUIRE(shell(scratch, "plimsoll shard $MODEL -o " + row.folder + row.flags).status == 0);
    const Json record = parse_json<Json>(scratch.read(row.folder + "/plimsoll-shard.json"));
    CHECK(record["job"]["max_file_size"] == row.recorded);
    const auto [files, largest] = weight_files(scratch.path(row.folder));
    CHECK((files > 1) == (row.recorded == kSmall));
    CHECK((largest < kSmall + (1 << 16)) == (row.recorded == kSmall));
  }
  // A flag says what the record says, or it is left out.
  struct Verified {
    const char* arguments;
    std::string message;  // empty: the shards are sound
  };
  for (const Verified& row : {Verified{"whole --max-file-size none", ""},
                              {"small --max-file-size 1024KiB", ""},
                              {"usual --max-file-size none", "says 5368709120; leave the flag out"},
                              {"whole --max-file-size 1MiB", "says none; leave the flag out"}}) {
    INFO(row.arguments);
    const Outcome verified =
        shell(scratch, std::string("plimsoll shard --verify ") + row.arguments);
    CHECK(verified.status == (row.message.empty() ? 0 : 2));
    CHECK_THAT(verified.err, Contains(row.message));
  }
}

TEST_CASE("shards without a record are compared with their source by the stated partition") {
  const Scratch scratch;
  REQUIRE(shell(scratch,
                "VLLM_PP_LAYER_PARTITION=1,5 plimsoll shard $MODEL -o out -pp 2; "
                "rm out/plimsoll-shard.json")
              .status == 0);
  const std::string verify = "plimsoll shard --verify out --source $MODEL -pp 2";
  CHECK(shell(scratch, "VLLM_PP_LAYER_PARTITION=1,5 " + verify).status == 0);
  CHECK(shell(scratch, verify).status != 0);
  CHECK(shell(scratch, "VLLM_PP_LAYER_PARTITION=2,4 " + verify).status != 0);
}
