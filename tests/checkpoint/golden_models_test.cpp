// Every golden recipe's checkpoint opens and holds what its weight table asks for.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "reference/recipe.h"

namespace fs = std::filesystem;
using namespace plimsoll;

TEST_CASE("checkpoints from recipes open and give every weight") {
  const char* named = std::getenv("PLIMSOLL_GOLDEN");
  const fs::path golden = named ? fs::path(named) : fs::path(PLIMSOLL_SOURCE_DIR) / "../shared/golden";
  if (!fs::is_directory(golden / "models")) {
    WARN("no golden models at " << golden << ": skipped");
    return;
  }
  const fs::path out = fs::temp_directory_path() / "plimsoll_golden_models_test";
  for (const auto& entry : fs::directory_iterator(golden / "models")) {
    if (!fs::exists(entry.path() / "recipe.json")) continue;
    INFO(entry.path().filename().string());
    testing::write_checkpoint(entry.path(), out);
    const model::ModelSpec spec = model::make_model_spec(model::read_config(out));
    const auto checkpoint = checkpoint::Checkpoint::open(out);
    const checkpoint::WeightReader reader(checkpoint, spec);
    for (const model::WeightSpec& weight : spec.weights) {
      std::vector<float> values(static_cast<size_t>(weight.elements()));
      reader.read_rows(weight, 0, weight.matrices() * weight.rows(), DType::f32, values.data());
    }
    fs::remove_all(out);
  }
}
