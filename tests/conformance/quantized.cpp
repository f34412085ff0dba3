// Quantised golden models on the CPU: every format, computed from its exact weights.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/error.h"
#include "conformance/cpu.h"
#include "conformance/golden_models.h"

using namespace plimsoll;
using namespace plimsoll::testing;

namespace {

/// The folders of models whose architecture is run; of others the refusal by name is checked.
std::vector<fs::path> quantised_folders() {
  const std::vector<std::string> known = model::supported_architectures();
  std::vector<fs::path> folders;
  for (const fs::path& folder : model_folders("quantized")) {
    const Json config = model::read_config(folder);
    const auto name = config.at("architectures").at(0).get<std::string>();
    if (std::ranges::find(known, name) != known.end()) {
      folders.push_back(folder);
    } else {
      CHECK_THROWS_WITH(model::make_model_spec(config), Catch::Contains(name));
    }
  }
  return folders;
}

}  // namespace

TEST_CASE("quantised golden models from exact weights, in float32") {
  for (const fs::path& folder : quantised_folders()) {
    DYNAMIC_SECTION(folder.filename().string()) {
      Subject subject(folder, cpu_backend());
      check_float32(subject);
    }
  }
}
