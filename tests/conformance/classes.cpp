// Families that transformers has no class of: log probabilities of vLLM 0.32.0's own classes
// (earlier releases' where it dropped them), which tests/against/classes asked in float32.
#include <catch2/catch.hpp>
#include <fstream>

#include "conformance/cpu.h"
#include "conformance/golden_models.h"
#include "reference/drawn_recipe.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

/// A row as a folder of the golden results: config, recipe, cases.
fs::path write_row(const Json& row) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("plimsoll-class-{}", getpid());
  fs::create_directories(folder);
  const auto write = [&](const char* name, const Json& content) {
    std::ofstream(folder / name) << content.dump();
  };
  const Json& config = row.at("config");
  write("config.json", config);
  write("recipe.json", drawn_recipe(model::make_model_spec(config), DType::f32));
  Json cases = row.at("cases");
  for (Json& each : cases) {
    for (const char* key : {"last_logits", "greedy_token_ids", "greedy_margins"}) {
      each[key] = Json::array();
    }
  }
  write("golden.json", {{"cases", cases}});
  return folder;
}

}  // namespace

TEST_CASE("log probabilities of vLLM's own classes in float32") {
  std::ifstream rows(fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/classes.jsonl");
  size_t count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const Json row = parse_json(line);
    const fs::path folder = write_row(row);
    Subject subject(folder, cpu_backend());
    ModelRunner runner = subject.runner(DType::f32);
    for (const Case& c : subject.golden.cases) {
      runner.restart();
      const Answer found{runner.run(std::vector<Feed>{{0, c.prompt}}), {}};
      const std::vector<double> errors = found.logprob_errors(c);
      REQUIRE(errors.size() == c.prompt_logprobs.size());
      INFO(row.at("config").at("architectures") << ", row " << count);
      // Two orders of float32 sums, as against transformers, and rows' five decimals.
      for (size_t i = 0; i < errors.size(); ++i) {
        CHECK(errors[i] <= 5e-4 + 5e-5 * std::abs(c.prompt_logprobs[i]));
      }
    }
    fs::remove_all(folder);
  }
  CHECK(count > 0);
}
