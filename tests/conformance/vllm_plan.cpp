// The plan of vLLM against what the classes of vLLM 0.32.0 and of other releases said of real
// configs: parameter bytes, kinds of cache, groups, blocks, concurrency and the estimated length,
// to the byte. Prints a table of the rows that differ. PLIMSOLL_ROWS=all prints the differences of
// every row.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "base/json.h"
#include "golden.h"
#include "skipped.h"
#include "vllm_config.h"
#include "vllm_rows.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

fs::path find_config(const fs::path& golden, const std::string& name) {
  for (const char* folder :
       {"data/configs", "data/configs_from_docs", "data/configs_derived", "configs"}) {
    const fs::path file = golden / ".." / folder / (name + ".json");
    if (fs::exists(file)) return file;
  }
  return {};
}

struct Tally {
  int rows = 0;
  int equal = 0;
  std::map<std::string, std::string> first_difference;  // by config
};

void run_row(const fs::path& golden, const Json& row, Tally& tally) {
  const auto name = row["config"].get<std::string>();
  const fs::path file = find_config(golden, name);
  if (file.empty()) return;
  ++tally.rows;
  const std::string difference = test::differences(row, test::vllm_config(file));
  if (difference.empty()) {
    ++tally.equal;
    return;
  }
  const char* all = std::getenv("PLIMSOLL_ROWS");
  const std::string line = fmt::format("{} tp {} {}{}", row.value("vllm_version", "0.32.0"),
                                       row["tensor_parallel_size"].get<int64_t>(),
                                       row.contains("args") ? row["args"].dump() : "", difference);
  if (all != nullptr) fmt::print("{:50} {}\n", name, line);
  tally.first_difference.emplace(name, line);
}

void run_file(const std::string& file) {
  const auto golden = testing::golden_with(file);
  if (!golden) return testing::skip("no golden results (PLIMSOLL_GOLDEN)");
  const std::string text = testing::read_maybe_xz(*golden / file);
  Tally tally;
  size_t from = 0;
  while (from < text.size()) {
    const size_t end = std::min(text.find('\n', from), text.size());
    if (end > from)
      run_row(*golden, parse_json<Json>(std::string_view(text).substr(from, end - from)), tally);
    from = end + 1;
  }
  fmt::print("{}: {} of {} rows equal; {} configs differ\n", file, tally.equal, tally.rows,
             tally.first_difference.size());
  for (const auto& [name, line] : tally.first_difference) fmt::print("  {:46} {}\n", name, line);
  CHECK(tally.rows > 0);
  CHECK(tally.equal == tally.rows);
}

TEST_CASE("vLLM's plan of real configs", "[vllm_plan]") {
  run_file("vllm_plan/vllm_plan.jsonl.xz");
}
TEST_CASE("vLLM's plan with other engine arguments", "[variants]") {
  run_file("vllm_plan/variants.jsonl.xz");
}
TEST_CASE("vLLM's plan of each release", "[releases]") {
  for (const char* release : {"0.11.0", "0.19.0", "0.25.1", "0.26.0", "0.28.0", "0.33.0"}) {
    run_file(fmt::format("vllm_plan_releases/{}.jsonl.xz", release));
  }
}

}  // namespace
}  // namespace plimsoll
