// Placeholders in texts, spelled as each model's processor spells them.
#include "batch/images/placeholders.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "batch/line_error.h"
#include "text/tokenizer_fixture.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

const text::Tokenizer& image_tokenizer() {
  static const auto kTokenizer = text::load_json(R"({"added_tokens":[
      {"id":2,"content":"<image>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":3,"content":"<soi>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":4,"content":"<eoi>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
      "model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}})");
  return kTokenizer;
}

model::VisionSpec vision_of(model::VisionKind kind) {
  model::VisionSpec vision;
  vision.kind = kind;
  vision.image_token = 2;
  vision.begin_token = 3;
  vision.end_token = 4;
  return vision;
}

std::vector<OpenedImage> images_of(const std::vector<image::Layout>& layouts) {
  std::vector<OpenedImage> images;
  for (const image::Layout& layout : layouts) {
    OpenedImage image;
    image.field = "prompt";
    image.layout = layout;
    images.push_back(image);
  }
  return images;
}

std::string spelled(model::VisionKind kind, const std::string& text,
                    const std::vector<image::Layout>& layouts) {
  const model::VisionSpec vision = vision_of(kind);
  return Placeholders(vision, &image_tokenizer()).spell_text(text, images_of(layouts));
}

std::vector<int32_t> spelled_ids(const std::vector<int32_t>& ids,
                                 const std::vector<image::Layout>& layouts) {
  const model::VisionSpec vision = vision_of(model::VisionKind::gemma3);
  return Placeholders(vision, &image_tokenizer()).spell_ids(ids, images_of(layouts));
}

image::Layout tiles(int64_t count, int64_t rows, int64_t columns) {
  image::Layout layout;
  layout.tiles = count;
  layout.rows = rows;
  layout.columns = columns;
  return layout;
}

}  // namespace

TEST_CASE("Idefics3's tiles stand in rows, and the whole image behind them") {
  const auto kind = model::VisionKind::idefics3;
  const std::string f = "<fake_token_around_image>";
  CHECK(spelled(kind, "a<image>b", {tiles(1, 0, 0)}) == "a" + f + "<global-img><image>" + f + "b");
  CHECK(spelled(kind, "<image>", {tiles(3, 1, 2)}) == f + "<row_1_col_1><image>" + f +
                                                          "<row_1_col_2><image>\n\n" + f +
                                                          "<global-img><image>" + f);
}

TEST_CASE("Gemma 3 speaks of the crops of an image that has some") {
  const auto kind = model::VisionKind::gemma3;
  const std::string one = "\n\n<soi><image><eoi>\n\n";
  CHECK(spelled(kind, "a<soi>b<soi>", {tiles(1, 0, 0), tiles(3, 0, 0)}) ==
        "a" + one + "bHere is the original image " + one +
            " and here are some crops to help you see better " + one + " " + one);
}

TEST_CASE("InternVL's placeholders that no image belongs to stay text, others are counted") {
  CHECK(spelled(model::VisionKind::internvl, "<image>a<image>", {tiles(2, 1, 1)}) ==
        "<img><IMG_CONTEXT></img>a<image>");
  CHECK_THROWS_AS(spelled(model::VisionKind::internvl, "a", {tiles(1, 1, 1)}), LineError);
  CHECK_THROWS_WITH(spelled(model::VisionKind::gemma3, "<soi><soi>", {tiles(1, 0, 0)}),
                    Catch::Contains("2 placeholders (<soi>) for 1 image"));
}

TEST_CASE("placeholders in token ids are spelled each by its own image, and counted") {
  using Ids = std::vector<int32_t>;
  const image::Layout whole = tiles(1, 0, 0);
  CHECK(spelled_ids({0, 3, 1}, {whole}) == Ids{0, 3, 2, 4, 1});
  CHECK(spelled_ids({3, 0, 3}, {whole, whole}) == Ids{3, 2, 4, 0, 3, 2, 4});
  const Ids crops = spelled_ids({3, 1, 3}, {tiles(3, 0, 0), whole});  // an image and two crops
  CHECK(std::ranges::count(crops, 2) == 4);
  CHECK(std::vector(crops.end() - 4, crops.end()) == Ids{1, 3, 2, 4});
  CHECK(spelled_ids({0, 3}, {}) == Ids{0, 3});
  CHECK_THROWS_WITH(spelled_ids({3, 0, 3}, {whole}),
                    Catch::Contains("2 placeholders (<soi>) for 1 image"));
  CHECK_THROWS_WITH(spelled_ids({3, 0}, {whole, whole}),
                    Catch::Contains("1 placeholder (<soi>) for 2 images"));
  CHECK_THROWS_WITH(spelled_ids({0, 1}, {whole}), Catch::Contains("0 placeholders"));
}

TEST_CASE("each image's tokens begin at its own first embedding, tile by tile") {
  const auto sized = [](int64_t tokens, int64_t count) {
    image::Layout layout = tiles(count, 0, 0);
    layout.tokens = tokens;
    return layout;
  };
  using Runs = std::vector<std::vector<int64_t>>;  // image, first position, tokens, embedding
  const auto runs_of = [&](const std::vector<int32_t>& ids,
                           const std::vector<image::Layout>& layouts) {
    const model::VisionSpec vision = vision_of(model::VisionKind::gemma3);
    const ExpandedPrompt prompt =
        Placeholders(vision, &image_tokenizer()).expand(ids, images_of(layouts));
    Runs runs;
    for (size_t image = 0; image < prompt.runs.size(); ++image) {
      for (const engine::ImageRun& run : prompt.runs[image])
        runs.push_back({static_cast<int64_t>(image), run.first, run.count, run.embedding});
    }
    return runs;
  };
  CHECK(runs_of({0, 2, 1, 2, 2}, {sized(3, 1), sized(2, 1), sized(4, 1)}) ==
        Runs{{0, 1, 3, 0}, {1, 5, 2, 0}, {2, 7, 4, 0}});
  CHECK(runs_of({2, 0, 2, 2, 1, 2}, {sized(6, 3), sized(5, 1)}) ==
        Runs{{0, 0, 2, 0}, {0, 3, 2, 2}, {0, 5, 2, 4}, {1, 8, 5, 0}});
}

TEST_CASE("line ends beside an image's are tokens together with them") {
  const auto tokenizer = text::load_json(R"({"added_tokens":[
      {"id":5,"content":"<image>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":6,"content":"<soi>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":7,"content":"<eoi>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
      "model":{"type":"BPE","vocab":{"a":0,"b":1,"\n":2,"\n\n":3,"\n\n\n":4},
               "merges":[["\n","\n"],["\n\n","\n"]]}})");
  model::VisionSpec vision = vision_of(model::VisionKind::gemma3);
  vision.image_token = 5, vision.begin_token = 6, vision.end_token = 7;
  const Placeholders placeholders(vision, &tokenizer);
  using Ids = std::vector<int32_t>;
  const auto spelled = [&](const Ids& ids) {
    return placeholders.spell_ids(ids, images_of({tiles(1, 0, 0)}));
  };
  CHECK(spelled({0, 6, 1}) == Ids{0, 3, 6, 5, 7, 3, 1});
  CHECK(spelled({0, 2, 6, 1}) == Ids{0, 4, 6, 5, 7, 3, 1});
  CHECK(spelled({6, 2, 1}) == Ids{3, 6, 5, 7, 4, 1});
}
