// Plans of published models at several releases of vLLM and on several cards, against what the
// releases' own classes said of them (tests/data/vllm/releases.jsonl).
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "like_cases.h"
#include "vllm_config.h"
#include "vllm_rows.h"

using namespace plimsoll;

TEST_CASE("each release of vLLM lays a model out as its own classes do") {
  const std::string folder = PLIMSOLL_SOURCE_DIR "/tests/data/vllm/";
  std::ifstream lines(folder + "releases.jsonl");
  std::map<std::string, Json> configs;
  size_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    constexpr size_t kFew = 9;
    if (!plimsoll::testing::is_taken(rows, kFew)) continue;
    const auto row = parse_json<Json>(line);
    const auto name = row["config"].get<std::string>();
    Json& config = configs[name];
    if (config.is_null()) config = test::vllm_config(folder + "configs/" + name + ".json");
    INFO(name << " " << row["vllm_version"] << " " << row.value("gpu", "")
              << row.value("args", Json()));
    CHECK(test::differences(row, config) == "");  // NOLINT(readability-container-size-empty)
  }
  CHECK(rows > 150);
}
