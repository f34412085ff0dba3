// Images to pixel values: decoders and image processors against Pillow's and transformers' own,
// to the bit.
#include <catch2/catch.hpp>

#include "conformance/image_golden.h"
#include "image/processor.h"
#include "skipped.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::image;
namespace fs = std::filesystem;

std::optional<fs::path> golden() {
  auto folder = testing::golden_with("image_processing/decoded.json");
  if (!folder) testing::skip("no golden results (PLIMSOLL_GOLDEN)");
  return folder;
}

struct Row {
  const char* name;
  ProcessorKind kind;
  PatchShape patches;
};

// Patches and shuffles of the models that the processors belong to.
const Row kProcessors[] = {
    {"qwen2_vl", ProcessorKind::qwen2_vl, {.shuffle = 2}},
    {"gemma3", ProcessorKind::gemma3, {.tokens_per_tile = 256}},
    {"clip", ProcessorKind::clip, {.patch_size = 14}},
    {"siglip", ProcessorKind::siglip, {.patch_size = 16}},
    {"idefics3", ProcessorKind::idefics3, {.patch_size = 14, .shuffle = 2}},
    {"smolvlm", ProcessorKind::idefics3, {.patch_size = 16, .shuffle = 4}},
    {"internvl", ProcessorKind::internvl, {.patch_size = 14, .shuffle = 2}},
};

void check_layout(const Json& row, const Layout& layout) {
  CHECK(layout.shape == row["shape"].get<std::vector<int64_t>>());
  CHECK(layout.tokens == row["placeholder_tokens"]);
  if (row.contains("grid_thw")) {
    CHECK(std::vector{layout.frames, layout.rows, layout.columns} ==
          row["grid_thw"].get<std::vector<int64_t>>());
  }
  if (row.contains("crops")) CHECK(layout.tiles == row["crops"].get<int64_t>() + 1);
  if (row.contains("tiles")) CHECK(layout.tiles == row["tiles"]);
  if (row.contains("rows")) CHECK(layout.rows == row["rows"]);
  if (row.contains("columns")) CHECK(layout.columns == row["columns"]);
}

/// Levels that stand for several frames once for each.
std::vector<uint8_t> repeated_levels(const Pixels& pixels) {
  std::vector<uint8_t> all;
  const int64_t run = pixels.channel_run / pixels.layout.repeats;
  for (auto at = pixels.levels.begin(); at != pixels.levels.end(); at += run) {
    for (int64_t i = 0; i < pixels.layout.repeats; ++i) all.insert(all.end(), at, at + run);
  }
  return all;
}

void check_pixels(const Json& row, const Processor& processor, const Image& image) {
  const Pixels pixels = processor.process(image);
  CHECK(testing::sha256_of(repeated_levels(pixels)) == row["uint8_sha256"]);
  std::vector<float> values(static_cast<size_t>(pixels.layout.values()));
  pixels.write_values(0, std::ssize(values), values.data());
  CHECK(testing::sha256_of(values) == row["sha256"]);
}

}  // namespace

TEST_CASE("images are decoded as the reference decodes them") {
  const auto folder = golden();
  if (!folder) return;
  const Json known = Json::parse(testing::read_file(*folder / "image_processing" / "decoded.json"));
  for (const Json& row : known["images"]) {
    const std::string name = row["image"];
    INFO(name);
    const std::string file = testing::golden_image(*folder, name);
    const Size size{row["width"], row["height"]};
    CHECK(read_header(testing::bytes_of(file)).size() == size);
    const Image image = decode(testing::bytes_of(file));
    CHECK(image.size == size);
    CHECK(testing::sha256_of(image.rgb) == row["rgb_sha256"]);
  }
}

TEST_CASE("processors give the reference's values") {
  const auto folder = golden();
  if (!folder) return;
  for (const Row& processor : kProcessors) {
    const Json known = Json::parse(
        testing::read_file(*folder / "image_processing" / (std::string(processor.name) + ".json")));
    for (const Json& set : known["cases"]) {
      const auto made = make_processor(processor.kind, processor.patches,
                                       known["preprocessor_config"], set["mm_processor_kwargs"]);
      for (const Json& row : set["images"]) {
        const std::string name = row["image"];
        INFO(processor.name << ", " << set["case"] << ", " << name);
        const std::string file = testing::golden_image(*folder, name);
        const Size size = read_header(testing::bytes_of(file)).size();
        if (row.contains("refused")) {
          CHECK_THROWS_AS(made->layout(size), ImageError);
          continue;
        }
        check_layout(row, made->layout(size));
        check_pixels(row, *made, decode(testing::bytes_of(file)));
      }
    }
  }
}
