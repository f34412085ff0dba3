#include "engine/vision/tower.h"

#include <catch2/catch.hpp>

#include "backend/counting.h"
#include "backend/test_footprint.h"
#include "base/json.h"
#include "model/config.h"

using namespace plimsoll;

namespace {

const std::string kModels = PLIMSOLL_SOURCE_DIR "/tests/data/golden/multimodal_run/";

/// Memory to encode `frames` frames of 6 x 4 patches.
size_t scratch_for(const std::string& model, int64_t frames) {
  const model::ModelSpec spec =
      model::make_model_spec(read_json_file(kModels + model + "/config.json"));
  const testing::TestFootprint footprint;
  backend::CountingBackend backend(footprint);
  memory::Arena weights = memory::Arena::counting();
  engine::VisionTower tower(spec, DType::bf16, backend, weights);
  const image::Layout layout{.shape = {frames * 24, 3 * 2 * 14 * 14},
                             .tokens = frames * 6,
                             .rows = 6,
                             .columns = 4,
                             .frames = frames};
  const backend::View out{nullptr, DType::bf16, layout.tokens, spec.hidden_size, spec.hidden_size};
  return tower.memory_for(layout, out).scratch;
}

}  // namespace

TEST_CASE("a video takes the encoder's memory for one frame, however long it is") {
  for (const std::string model : {"qwen2_vl", "qwen2_5_vl"}) {
    CAPTURE(model);
    CHECK(scratch_for(model, 1) > 0);
    CHECK(scratch_for(model, 500) == scratch_for(model, 1));
  }
}
