// Which images a launch of our own engine makes room for, and why it may have none.
#include "launch/images.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>

#include "backend/cuda/footprint.h"
#include "base/error.h"
#include "model/config.h"
#include "model/tiny_config.h"

using namespace plimsoll;
using namespace plimsoll::launch;
using Catch::Contains;

namespace {

const backend::CudaFootprint kAnyCard({});

/// Qwen2.5-VL 3B, planned by its config alone: a token of an image is 28 pixels wide and high.
struct Sight {
  Json config = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                               "/samples/plans/configs/qwen2.5-vl-3b.json");
  model::ModelSpec spec = model::make_model_spec(config);
  Arguments arguments;

  Sight() { arguments.lone_config = &config; }
  [[nodiscard]] std::optional<engine::ImageOptions> options() const {
    return image_options(spec, arguments, kAnyCard);
  }
  [[nodiscard]] std::string refusal() const { return image_refusal(spec, arguments, kAnyCard); }
};

}  // namespace

TEST_CASE("a launch has no images for a reason") {
  const Sight usual;
  CHECK(usual.refusal() == "");
  CHECK(usual.options());
  Sight text;
  text.arguments.args.language_only = true;
  CHECK_THAT(text.refusal(), Contains("--language-model-only"));
  CHECK(!text.options());
  Sight none;
  none.arguments.args.limits["image"] = {};
  CHECK_THAT(none.refusal(), Contains("image=0"));
  Sight folder;
  folder.arguments.lone_config = nullptr;
  folder.arguments.folder = "/no/such/folder";
  CHECK_THAT(folder.refusal(), Contains("preprocessor_config.json"));
  const model::ModelSpec blind = model::make_model_spec(testing::tiny_config("LlamaForCausalLM"));
  CHECK_THAT(image_refusal(blind, usual.arguments, kAnyCard), Contains("text alone"));
}

TEST_CASE("room is made for images that leave a token of the context to the answer") {
  for (const int64_t length : {26, 101, 1025}) {  // squares of 5, 10 and 32 tokens fit exactly
    INFO(length);
    Sight sight;
    sight.arguments.args.max_model_len = length;
    CHECK(sight.options()->largest() == length - 1);
    sight.arguments.args.max_model_len = length - 1;
    CHECK(sight.options()->largest() < length - 1);
  }
}

TEST_CASE("without a stated context room is made for the images of the model's own") {
  for (const int64_t asked : {0, -1}) {
    INFO(asked);
    Sight sight;
    sight.spec.max_position = 101;
    sight.arguments.args.max_model_len = asked;
    CHECK(sight.options()->largest() == 100);
  }
}

TEST_CASE("room is made for images of a stated size") {
  Sight sight;
  sight.arguments.args.limits["image"] = {3, 280, 140};
  CHECK(sight.options()->largest() == 10 * 5);
  CHECK(sight.options()->extremes.size() == 1);
  sight.arguments.args.limits["image"] = {3, 280, 0};  // half a size is none
  CHECK(sight.options()->largest() > 10 * 5);
}

TEST_CASE("embeddings are kept of as many images as the processor's cache holds") {
  Sight sight;
  sight.arguments.args.limits["image"] = {1, 280, 140};
  struct Row {
    double gib;
    int64_t images;
    uint64_t bytes;
  };
  constexpr double kImage = 3 * 280 * 140;  // bytes of its levels
  for (const Row& row : {Row{4, 64, 512 << 20}, Row{2, 64, 256 << 20},
                         Row{kImage * 9.5 / 0x1p30, 9, static_cast<uint64_t>(kImage * 9.5 / 8)},
                         Row{8, static_cast<int64_t>(0x1p33 / kImage), 1024 << 20}}) {
    INFO(row.gib);
    sight.arguments.args.processor_cache_gib = row.gib;
    CHECK(sight.options()->kept_images == row.images);
    CHECK(sight.options()->kept_bytes == row.bytes);
  }
}

TEST_CASE("settings of the processor are the user's, then those that advice tries") {
  const auto largest_image = [](const Json& kwargs, std::map<std::string, int64_t> tried) {
    Sight sight;
    sight.arguments.processor_kwargs = kwargs;
    sight.arguments.args.processor = std::move(tried);
    return sight.options()->largest_image();
  };
  constexpr int64_t kToken = 28 * 28;
  CHECK(largest_image(Json::object(), {{"max_pixels", 100 * kToken}}) == 100);
  CHECK(largest_image({{"max_pixels", 64 * kToken}}, {}) == 64);
  CHECK(largest_image({{"max_pixels", 64 * kToken}}, {{"max_pixels", 100 * kToken}}) == 64);
  // Nested ones are noted under joined names beside the user's object, which counts.
  const Json sized = {{"size", {{"shortest_edge", 4 * kToken}, {"longest_edge", 64 * kToken}}}};
  CHECK(largest_image(sized, {{"size.longest_edge", 9 * kToken}}) == 64);
}

TEST_CASE("settings that no processor takes are the flag's fault where it is given") {
  const auto code_of = [](const Json& kwargs, std::map<std::string, int64_t> tried) {
    Sight sight;
    sight.arguments.processor_kwargs = kwargs;
    sight.arguments.args.processor = std::move(tried);
    try {
      (void)sight.options();
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Contains("preprocessor_config.json: "));
      CHECK_THAT(error.what(), Catch::StartsWith("--mm-processor-kwargs, "));
      return error.code();
    }
    return ExitCode::done;
  };
  CHECK(code_of(Json::object(), {}) == ExitCode::done);
  CHECK(code_of({{"no_such", 1}}, {}) == ExitCode::usage);
  CHECK(code_of(Json::object(), {{"no_such", 1}}) == ExitCode::usage);
  CHECK(code_of({{"no_such", 1}}, {{"max_pixels", 78400}}) == ExitCode::usage);
}

TEST_CASE("room is made for the larger of images and videos, each with settings of its own") {
  constexpr int64_t kToken = 28 * 28;
  const auto largest = [](int64_t images, int64_t videos) {
    Sight sight;
    sight.arguments.processor_kwargs = {{"images_kwargs", {{"max_pixels", images * kToken}}},
                                        {"videos_kwargs", {{"max_pixels", videos * kToken}}}};
    return sight.options()->largest_image();
  };
  CHECK(largest(64, 400) == 400);
  CHECK(largest(400, 64) == 400);
}
