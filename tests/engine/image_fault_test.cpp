// Images that a launch cannot encode: each of its bounds is heeded, and reached.
#include "engine/vision/image_fault.h"

#include <catch2/catch.hpp>

#include "backend/counting.h"
#include "backend/test_footprint.h"
#include "base/json.h"
#include "model/config.h"

using namespace plimsoll;
using namespace plimsoll::engine;

namespace {

const std::string kConfig =
    PLIMSOLL_SOURCE_DIR "/tests/data/golden/multimodal_run/qwen2_vl/config.json";

/// A launch that has room for an image of 6 x 4 patches and for no more, and a prompt with it.
struct Fitted {
  Fitted() {
    const image::Layout extent{
        .shape = {24, 3 * 2 * 14 * 14}, .tokens = 6, .rows = 6, .columns = 4};
    embeddings = {nullptr, DType::bf16, 6, spec.hidden_size, spec.hidden_size};
    const VisionTower::Memory needed = tower->memory_for(extent, embeddings);
    layout.images.emplace().extremes = {extent};
    layout.images->cache_tokens = extent.tokens;
    layout.scratch_bytes = needed.scratch;
    layout.image_staging_bytes = needed.staging;
    layout.limits.batched_tokens = extent.tokens;
    auto pixels = std::make_shared<image::Pixels>();
    pixels->layout = extent;
    images.items.push_back({.key = {}, .pixels = pixels, .runs = {{3, extent.tokens, 0}}});
  }
  /// The code of the fault; empty: there is none.
  std::string fault() {
    const auto found = find_image_fault(images, layout, tower, embeddings);
    return found ? found->code : "";
  }

  model::ModelSpec spec = model::make_model_spec(read_json_file(kConfig));
  testing::TestFootprint footprint;
  backend::CountingBackend backend{footprint};
  memory::Arena weights = memory::Arena::counting();
  std::optional<VisionTower> tower{std::in_place, spec, DType::bf16, backend, weights};
  backend::View embeddings{};
  EngineLayout layout;
  Images images;
};

}  // namespace

TEST_CASE("an image of just the size that a launch has room for is encoded, a larger one is not") {
  Fitted at;
  CHECK(at.fault().empty());
  SECTION("by its embeddings") {
    --at.layout.images->cache_tokens;
  }
  SECTION("by the encoder's memory") {
    --at.layout.scratch_bytes;
  }
  SECTION("by what lies in host memory on the way") {
    if (at.layout.image_staging_bytes == 0) return;  // memory is shared
    --at.layout.image_staging_bytes;
  }
  SECTION("by the second of two") {
    at.images.items.insert(at.images.items.begin(), at.images.items[0]);
    CHECK(at.fault().empty());
    auto large = std::make_shared<image::Pixels>(*at.images.items[1].pixels);
    large->layout.tokens = 7;
    at.images.items[1].pixels = large;
  }
  CHECK(at.fault() == "image_too_large");
}

TEST_CASE("tokens that see each other both ways must fit a step, of one run and no more") {
  Fitted at;
  at.layout.limits.batched_tokens = 5;
  CHECK(at.fault().empty());
  at.images.two_way = true;
  CHECK(at.fault() == "image_too_large");
  at.layout.limits.batched_tokens = 6;
  CHECK(at.fault().empty());
  at.layout.limits.batched_tokens = 3;
  at.images.items[0].runs = {{0, 3, 0}, {5, 3, 3}};
  CHECK(at.fault().empty());
  at.images.items[0].runs = {{0, 2, 0}, {5, 4, 2}};
  CHECK(at.fault() == "image_too_large");
}

TEST_CASE("a launch without an encoder has no images") {
  Fitted at;
  at.tower.reset();
  CHECK(at.fault() == "no_images");
}
