// Sizes, crops and settings of the image processors; their values are compared with the references'
// in tests/conformance.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "image/decode.h"
#include "image/processor.h"

using namespace plimsoll;
using namespace plimsoll::image;

namespace {

Image plain(Size size, uint8_t level) {
  return {size, Levels(static_cast<size_t>(3 * size.width * size.height), level)};
}

std::unique_ptr<const Processor> make(ProcessorKind kind, const char* settings,
                                      const char* overrides = "{}") {
  return make_processor(kind, {.shuffle = 2, .tokens_per_tile = 256}, Json::parse(settings),
                        Json::parse(overrides));
}

}  // namespace

TEST_CASE("Qwen's sides are multiples of 28, halves to even ones") {
  const auto processor = make(ProcessorKind::qwen2_vl, "{}");
  const auto [side, rows] =
      GENERATE(table<int64_t, int64_t>({{70, 4}, {98, 8}, {112, 8}, {126, 8}}));
  const Layout layout = processor->layout({side, 280});
  CHECK(layout.columns == rows);
  CHECK(layout.rows == 20);
  CHECK(layout.tokens == layout.rows * layout.columns / 4);
}

TEST_CASE("a strip that Qwen makes smaller keeps one square of each side at least") {
  const auto processor = make(ProcessorKind::qwen2_vl, R"({"max_pixels": 50176})");
  // By the root of 117600 / 50176, 1.53: 0.65 squares by 97.98.
  for (const bool wide : {false, true}) {
    const Layout layout = processor->layout(wide ? Size{4200, 28} : Size{28, 4200});
    CHECK((wide ? layout.rows : layout.columns) == 2);
    CHECK((wide ? layout.columns : layout.rows) == 2 * 97);
    CHECK(layout.tokens == 97);
  }
}

TEST_CASE("Qwen refuses one side of over 200 times the other") {
  const auto processor = make(ProcessorKind::qwen2_vl, "{}");
  CHECK_NOTHROW(processor->layout({400, 2}));
  CHECK_THROWS_WITH(processor->layout({402, 2}), Catch::Contains("201.0 times"));
}

TEST_CASE("frames go in pairs, of which the last may be one twice") {
  const auto processor = make(ProcessorKind::qwen2_vl, "{}");
  const std::vector<Image> frames = {plain({56, 56}, 0), plain({56, 56}, 1), plain({56, 56}, 2)};
  const Pixels pixels = processor->process_video(frames);
  CHECK(pixels.layout.frames == 2);
  CHECK(pixels.layout.shape == std::vector<int64_t>{32, 1176});
  CHECK(pixels.levels[0] == 0);
  CHECK(pixels.levels[196] == 1);              // the channel's second frame
  CHECK(pixels.levels[16 * 1176] == 2);        // the second pair
  CHECK(pixels.levels[16 * 1176 + 196] == 2);  // its only frame once more
}

TEST_CASE("each frame of a video stands at its place of its pair") {
  const auto processor = make(ProcessorKind::qwen2_vl, "{}");
  std::vector<Image> frames;
  for (uint8_t level = 0; level < 7; ++level) frames.push_back(plain({56, 56}, level));
  const Pixels pixels = processor->process_video(frames);
  CHECK(pixels.layout.frames == 4);
  const std::vector<int> expected = {0, 1, 2, 3, 4, 5, 6, 6};
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO(i);
    CHECK(pixels.levels[i / 2 * 16 * 1176 + i % 2 * 196] == expected[i]);
  }
}

TEST_CASE("an image's two frames are kept once, and are two of its values") {
  const auto processor = make(ProcessorKind::qwen2_vl, "{}");
  const Pixels pixels = processor->process(plain({56, 56}, 3));
  CHECK(pixels.layout.shape == std::vector<int64_t>{16, 1176});
  CHECK(std::ssize(pixels.levels) == 16 * 588);
  std::vector<float> values(1176);
  pixels.write_values(1176, 1176, values.data());
  CHECK(values[0] == (*pixels.tables)[0][3]);
  CHECK(values[391] == values[0]);
  CHECK(values[392] == (*pixels.tables)[1][3]);
}

TEST_CASE("models without videos say so") {
  const auto processor = make(ProcessorKind::internvl, "{}");
  CHECK_THROWS_WITH(processor->video_layout({8, 8}, 2), Catch::Contains("takes no videos"));
}

TEST_CASE("InternVL's grids are near the image's aspect ratio") {
  const auto processor = make(ProcessorKind::internvl, "{}");
  const Layout wide = processor->layout({1344, 896});
  CHECK(wide.columns == 3);
  CHECK(wide.rows == 2);
  CHECK(wide.tiles == 7);
  CHECK(processor->layout({100, 100}).tiles == 1);
}

TEST_CASE("settings that are none are named") {
  const auto [kind, overrides, message] = GENERATE(table<ProcessorKind, const char*, const char*>({
      {ProcessorKind::qwen2_vl, R"({"max_pixel": 5})", "\"max_pixel\" is none of the model's"},
      {ProcessorKind::qwen2_vl, R"({"max_pixels": 0})", "max_pixels: expected a whole number"},
      {ProcessorKind::qwen2_vl, R"({"size": {"shortest_edge": "x"}})", "size.shortest_edge"},
      {ProcessorKind::internvl, R"({"max_dynamic_patch": -1})", "max_dynamic_patch: expected"},
      {ProcessorKind::internvl, R"({"use_thumbnail": 1})", "expected true or false"},
      {ProcessorKind::gemma3, R"([1])", "expected an object"},
  }));
  CHECK_THROWS_WITH(make(kind, "{}", overrides), Catch::Contains(message));
}

TEST_CASE("the request's numbers of pixels come before the config's") {
  const char* config = R"({"min_pixels": 3136, "max_pixels": 100352})";
  const Size large{2000, 2000};
  const auto rows = [&](const char* overrides) {
    return make(ProcessorKind::qwen2_vl, config, overrides)->layout(large).rows;
  };
  CHECK(rows("{}") == 22);
  CHECK(rows(R"({"max_pixels": 50176})") == 16);
  CHECK(rows(R"({"size": {"longest_edge": 50176}})") == 16);
}

TEST_CASE("CLIP and SigLIP take what their classes do for settings that are missing") {
  const auto clip = make(ProcessorKind::clip, "{}");
  CHECK(clip->layout({300, 500}).shape == std::vector<int64_t>{1, 3, 224, 224});
  const Pixels pixels = clip->process(plain({224, 224}, 255));
  std::vector<float> values(static_cast<size_t>(pixels.layout.values()));
  pixels.write_values(0, std::ssize(values), values.data());
  CHECK(values[0] == Approx((1 - 0.48145466) / 0.26862954));
  CHECK(make(ProcessorKind::siglip, R"({"crop_size": 64})")->layout({300, 500}).shape[2] == 224);
}

TEST_CASE("a size that is one number is the short side, of Gemma's squares both") {
  Image striped = plain({100, 50}, 0);
  for (size_t i = 0; i < striped.rgb.size(); ++i) striped.rgb[i] = i / 3 % 100 < 25 ? 255 : 0;
  // The middle of 56 x 28 is what lies right of the stripe but for its reach.
  const auto clip = make(ProcessorKind::clip, R"({"size": 28, "crop_size": 28})");
  CHECK(clip->process(striped).levels[27] == 0);
  CHECK(clip->process(striped).levels[10] == 0);
  const auto squashed =
      make(ProcessorKind::clip, R"({"size": {"height": 28, "width": 28}, "crop_size": [28, 28]})");
  CHECK(squashed->process(striped).levels[0] == 255);
  CHECK(make(ProcessorKind::gemma3, R"({"size": 28})")->layout({9, 3}).shape[3] == 28);
}

TEST_CASE("CLIP resizes of a long image what it keeps alone") {
  const auto clip = make(ProcessorKind::clip,
                         R"({"size":{"shortest_edge":56},"crop_size":{"height":56,"width":56}})");
  Image image = plain({1, 65535}, 7);
  image.rgb[static_cast<size_t>(3 * (65535 / 2))] = 255;  // of the middle
  const Pixels pixels = clip->process(image);             // the whole would be 56 x 3,669,960
  CHECK(pixels.layout.shape == std::vector<int64_t>{1, 3, 56, 56});
  CHECK(std::ranges::count(pixels.levels, 7) > 0);
  CHECK(std::ranges::max(pixels.levels) > 200);
}

TEST_CASE("settings that ask for images of any size are bounded") {
  const auto code_of = [](ProcessorKind kind, const char* settings, Size size) {
    try {
      (void)make(kind, settings)->layout(size);
    } catch (const ImageError& error) {
      return std::string(error.code());
    }
    return std::string("none");
  };
  const char* wide = R"({"size":{"shortest_edge":300000}})";
  CHECK(code_of(ProcessorKind::clip, wide, {640, 480}) == "none");
  CHECK(code_of(ProcessorKind::clip, wide, {1, 60}) == code::too_large);
  const char* square = R"({"size":{"height":100000,"width":100000}})";
  CHECK(code_of(ProcessorKind::idefics3, square, {64, 48}) == code::too_large);
  CHECK_THROWS_WITH(make(ProcessorKind::siglip, R"({"size":{"height":4294967296,"width":1}})"),
                    Catch::Contains("size.height"));
}

TEST_CASE("Gemma refuses images of which a crop would be empty") {
  const auto processor = make(ProcessorKind::gemma3, R"({"size": 28, "do_pan_and_scan": true,
      "pan_and_scan_min_crop_size": 1, "pan_and_scan_max_num_crops": 4})");
  CHECK(processor->layout({8, 2}).tiles == 5);
  CHECK_THROWS_WITH(processor->layout({5, 1}), Catch::Contains("the last has none"));
  CHECK_THROWS_AS(processor->process(plain({5, 1}, 0)), ImageError);
}

TEST_CASE("Gemma's pan and scan begins at its ratio, as transformers compares it") {
  const auto processor = make(ProcessorKind::gemma3, R"({"size": 28, "do_pan_and_scan": true,
      "pan_and_scan_min_crop_size": 1, "pan_and_scan_min_ratio_to_activate": 1.2})");
  CHECK(processor->layout({119, 100}).tiles == 1);
  CHECK(processor->layout({120, 100}).tiles == 1 + 2);
  CHECK(processor->layout({100, 120}).tiles == 1 + 2);
  CHECK(processor->layout({100, 119}).tiles == 1);
}

TEST_CASE("Gemma's crops are no smaller than their least size, which is allowed") {
  const auto processor = make(ProcessorKind::gemma3, R"({"size": 28, "do_pan_and_scan": true,
      "pan_and_scan_min_crop_size": 60})");
  CHECK(processor->layout({120, 60}).tiles == 1 + 2);
  CHECK(processor->layout({118, 60}).tiles == 1);  // crops of 59
  CHECK(processor->layout({120, 59}).tiles == 1);
}

TEST_CASE("without do_resize images are taken as they are, or refused") {
  const auto qwen = make(ProcessorKind::qwen2_vl, R"({"do_resize": false, "max_pixels": 784})");
  CHECK(qwen->layout({280, 28}).tokens == 10);
  CHECK_THROWS_WITH(qwen->layout({280, 27}), Catch::Contains("multiples of 28"));
  const auto clip = make(ProcessorKind::siglip, R"({"do_resize": false, "size": 28})");
  CHECK_NOTHROW(clip->layout({28, 28}));
  CHECK_THROWS_WITH(clip->layout({28, 27}), Catch::Contains("28 x 28 alone"));
}

TEST_CASE("a request may change what every processor has") {
  const auto processor =
      make(ProcessorKind::gemma3, R"({"size": 28})", R"({"image_mean": [0, 0, 0], "resample": 0})");
  CHECK((*processor->process(plain({9, 9}, 0)).tables)[0][0] == 0);
}

TEST_CASE("InternVL cuts nothing where no number of tiles is allowed") {
  const auto processor =
      make(ProcessorKind::internvl, R"({"min_dynamic_patch": 3})", R"({"max_dynamic_patch": 2})");
  CHECK(processor->layout({1344, 896}).tiles == 1);
}

TEST_CASE("the colour that stands for none is white, but for InternVL and without conversion") {
  Image image = plain({28, 28}, 7);
  image.clear = Colour{7, 7, 7};
  CHECK(make(ProcessorKind::gemma3, R"({"size": 28})")->process(image).levels[0] == 255);
  CHECK(make(ProcessorKind::internvl, R"({"image_size": 28})")->process(image).levels[0] == 7);
  for (const auto* settings :
       {R"({"size": 28, "do_convert_rgb": null})", R"({"size": 28, "do_convert_rgb": false})"}) {
    CHECK(make(ProcessorKind::gemma3, settings)->process(image).levels[0] == 7);
  }
}

TEST_CASE("the largest image for so many tokens has no more, and a whole unit less does not do") {
  struct Row {
    ProcessorKind kind;
    const char* settings;
    int64_t tokens, largest;
  };
  // A tile has 256 tokens, of Idefics3's 364 pixels in patches of 14 and units of 2 x 2: 169.
  for (const Row& row :
       {Row{ProcessorKind::qwen2_vl, "{}", 100, 100}, Row{ProcessorKind::idefics3, "{}", 169, 169},
        Row{ProcessorKind::idefics3, "{}", 5 * 169, 5 * 169},
        Row{ProcessorKind::idefics3, "{}", 5 * 169 - 1, 4 * 169},
        Row{ProcessorKind::idefics3, R"({"do_image_splitting": false})", 5 * 169, 169},
        Row{ProcessorKind::internvl, "{}", 256, 256},
        Row{ProcessorKind::internvl, "{}", 5 * 256, 5 * 256},
        Row{ProcessorKind::internvl, "{}", 5 * 256 - 1, 4 * 256},
        Row{ProcessorKind::gemma3, R"({"do_pan_and_scan": true})", 3 * 256, 3 * 256},
        Row{ProcessorKind::gemma3, R"({"do_pan_and_scan": true})", 99 * 256, 5 * 256}}) {
    INFO(static_cast<int>(row.kind) << " " << row.settings << " " << row.tokens);
    CHECK(make(row.kind, row.settings)->extremes(row.tokens).front().tokens == row.largest);
  }
}

TEST_CASE("the README's image costs what the README says") {
  struct Row {
    const char* said;  // # tokens
    ProcessorKind kind;
    PatchShape patches;
    const char* settings;
    const char* overrides = "{}";
  };
  const PatchShape fours{.shuffle = 2}, smolvlm{.patch_size = 16, .shuffle = 4};
  const char* const kSmolvlm =
      R"({"size": {"longest_edge": 2048}, "max_image_size": {"longest_edge": 512}})";
  const Row row = GENERATE_COPY(values<Row>({
      {"Qwen2-VL, Qwen2.5-VL | # |", ProcessorKind::qwen2_vl, fours, "{}"},
      {"| # with `{\"max_pixels\": 50176}`", ProcessorKind::qwen2_vl, fours, "{}",
       R"({"max_pixels": 50176})"},
      {"Gemma 3 | # |", ProcessorKind::gemma3, {.tokens_per_tile = 256}, "{}"},
      {"LLaVA-1.5 | # |", ProcessorKind::clip, {}, R"({"crop_size": 336})"},
      {"InternVL2 | # |", ProcessorKind::internvl, fours, "{}"},
      {"| # with `{\"max_dynamic_patch\": 1}`", ProcessorKind::internvl, fours, "{}",
       R"({"max_dynamic_patch": 1})"},
      {"Idefics3 | # |", ProcessorKind::idefics3, fours, "{}"},
      {"| # with `{\"size\": {\"longest_edge\": 728}}`", ProcessorKind::idefics3, fours, "{}",
       R"({"size": {"longest_edge": 728}})"},
      {"SmolVLM | # |", ProcessorKind::idefics3, smolvlm, kSmolvlm},
      {"| # with `{\"size\": {\"longest_edge\": 1024}}`", ProcessorKind::idefics3, smolvlm,
       kSmolvlm, R"({"size": {"longest_edge": 1024}})"},
  }));
  const auto read = [](const char* name) {
    std::ifstream file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string file = read("samples/coffee.jpg");
  const Size size =
      read_header({reinterpret_cast<const uint8_t*>(file.data()), file.size()}).stored;
  const auto processor =
      make_processor(row.kind, row.patches, Json::parse(row.settings), Json::parse(row.overrides));
  std::string tokens = std::to_string(processor->layout(size).tokens);
  if (tokens.size() > 3) tokens.insert(tokens.size() - 3, ",");
  std::string said = row.said;
  CHECK_THAT(read("README.md"), Catch::Contains(said.replace(said.find('#'), 1, tokens)));
}
