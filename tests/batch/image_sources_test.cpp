// Where images and videos of a request come from, and what of them is kept and counted.
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "batch/images/image_loader.h"
#include "batch/images/placeholders.h"
#include "batch/line_error.h"
#include "batch/prompt_builder.h"
#include "batch/read_request.h"
#include "batch/scratch.h"
#include "text/tokenizer_fixture.h"

using namespace plimsoll;
using namespace plimsoll::batch;
using Catch::Contains;
using testing::read;
using testing::Read;

namespace {

const std::string kImageFolder = PLIMSOLL_SOURCE_DIR "/tests/data/images";
const std::string kOddImage = kImageFolder + "/odd_37x53.png";

ImageRules source_rules(const std::string& folder = kImageFolder) {
  auto vision = std::make_shared<model::VisionSpec>();
  vision->kind = model::VisionKind::qwen2_vl;
  vision->merge = 2;
  vision->image_token = 7;
  vision->video_token = 8;
  return {.vision = vision,
          .refusal = "",
          .settings = Json::parse(R"({"max_pixels": 100352})"),
          .overrides = OrderedJson::object(),
          .most_images = 9,
          .most_videos = 9,
          .allowed_folder = folder,
          .cache_bytes = size_t{1} << 20};
}

OpenedImage opened_of(ImageLoader& loader, MediaKind kind, const std::vector<std::string>& files) {
  return std::move(loader.open({{kind, files, "field"}}, OrderedJson::object()).front());
}

/// The code and the message of an error of these files.
std::pair<std::string, std::string> refused(MediaKind kind, const std::string& folder,
                                            const std::vector<std::string>& files) {
  ImageLoader loader(source_rules(folder));
  try {
    (void)opened_of(loader, kind, files);
    return {};
  } catch (const LineError& error) {
    CHECK(error.param() == "field");
    return {error.code(), error.what()};
  }
}

/// The sources of the media of a message's parts.
std::vector<std::vector<std::string>> sources(const std::string& parts) {
  const Read line = read(R"({"messages":[{"role":"user","content":[)" + parts + "]}]}");
  INFO(line.message);
  CHECK(line.code == "");
  std::vector<std::vector<std::string>> all;
  for (const Media& media : line.request.media) all.push_back(media.sources);
  return all;
}

}  // namespace

TEST_CASE("an address of frames is parted at its commas, each frame an image of its own") {
  const auto frames = [](const std::string& address) {
    return sources(R"({"type":"video_url","video_url":{"url":")" + address + "\"}}").at(0);
  };
  using Frames = std::vector<std::string>;
  const std::string image = "data:image/jpeg;base64,";
  CHECK(frames("data:video/jpeg;base64,AAAA") == Frames{image + "AAAA"});
  CHECK(frames("data:video/jpeg;base64,AAAA,BB==,CCC=") ==
        Frames{image + "AAAA", image + "BB==", image + "CCC="});
  // A comma at the end has an empty frame behind it, which is no image.
  CHECK(frames("data:video/jpeg;base64,AAAA,") == Frames{image + "AAAA", image});
  CHECK(frames("file:///a.mp4") == Frames{"file:///a.mp4"});
  CHECK(sources(R"({"type":"video","video":["a.png","b.png"]},{"type":"image","image":"c.png"})") ==
        std::vector<Frames>{{"a.png", "b.png"}, {"c.png"}});
}

TEST_CASE("videos in containers of each kind are told from frames, images in none") {
  const test::Scratch scratch;
  const std::string rest(64, '\0');
  for (const std::string& begin :
       {std::string("\0\0\0\x18"
                    "ftypisom",
                    12),
        std::string("\x1a\x45\xdf\xa3"), std::string("RIFF\0\0\0\0AVI ", 12)}) {
    const std::string file = scratch.write("video", begin + rest);
    const auto [code, message] = refused(MediaKind::video, scratch.path(""), {file});
    CHECK(code == "image_unreadable");
    CHECK_THAT(message, Contains("give its frames as files"));
    CHECK_THAT(refused(MediaKind::image, scratch.path(""), {file}).second,
               !Contains("give its frames as files"));
  }
  // RIFF holds WebP images too.
  const std::string webp = scratch.write("webp", std::string("RIFF\0\0\0\0WEBP", 12) + rest);
  CHECK_THAT(refused(MediaKind::video, scratch.path(""), {webp}).second,
             !Contains("give its frames as files"));
}

TEST_CASE("bytes in an address are bounded as those of a file are") {
  const MediaReader reader("");
  const auto bytes = [&](size_t count, size_t most) -> std::string {
    std::string base64;
    for (size_t i = 0; i < count / 3; ++i) base64 += "QUJD";
    try {
      return std::to_string(reader.read("data:image/png;base64," + base64, "field", most).size());
    } catch (const LineError& error) {
      return error.code();
    }
  };
  CHECK(bytes(3000, 3000) == "3000");
  CHECK(bytes(3000, 2999) == "image_too_large");
  CHECK(bytes(3, 3) == "3");
  CHECK(bytes(3, 2) == "image_too_large");
  CHECK(bytes(0, 0) == "0");
}

TEST_CASE("an address that is none says what it should have been") {
  const MediaReader reader(kImageFolder);
  const auto told = [&](const std::string& source) -> std::string {
    try {
      (void)reader.read(source, "field", 1 << 20);
      return "";
    } catch (const LineError& error) {
      return error.code() + " " + error.what();
    }
  };
  const std::string more(120, 'A');
  for (const char* start : {"/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR"}) {
    INFO(start);
    CHECK_THAT(told(start + more), Contains("base64 goes behind data:image/...;base64,"));
    CHECK_THAT(told(std::string(start) + "AAAA"), !Contains("base64 goes behind"));
    const std::string exactly = start + std::string(100 - std::strlen(start), 'A');
    CHECK_THAT(told(exactly), Contains("base64 goes behind"));
    CHECK_THAT(told(exactly.substr(1)), !Contains("base64 goes behind"));
  }
  CHECK_THAT(told(kOddImage + std::string("\0.jpg", 5)), Contains("has a zero byte"));
  CHECK_THAT(told("file://" + kOddImage + std::string("\0", 1)), Contains("has a zero byte"));
  CHECK(told("file:" + kOddImage).empty());
  CHECK(told("FiLe://" + kOddImage).empty());
  CHECK_THAT(told("ftp://a/b.png"), Contains("image_not_allowed") && Contains("over ftp;"));
}

TEST_CASE("an image and a video of the same bytes are different things") {
  ImageLoader loader(source_rules());
  const auto key = [&](MediaKind kind) { return opened_of(loader, kind, {kOddImage}).key; };
  CHECK(key(MediaKind::image) == key(MediaKind::image));
  CHECK(key(MediaKind::video) == key(MediaKind::video));
  CHECK_FALSE(key(MediaKind::image) == key(MediaKind::video));
}

TEST_CASE("images that are prepared are counted once, those of the cache are not") {
  ImageLoader loader(source_rules());
  CHECK(loader.prepared().count == 0);
  for (int time = 0; time < 3; ++time)
    loader.load(opened_of(loader, MediaKind::image, {kOddImage})).get();
  CHECK(loader.prepared().count == 1);
  CHECK(loader.prepared().processor_seconds > 0);
  loader.load(opened_of(loader, MediaKind::video, {kOddImage, kOddImage})).get();
  CHECK(loader.prepared().count == 2);
}

TEST_CASE("InternVL's places in token ids are its text's, or else the tokens of its embeddings") {
  const auto tokenizer = text::load_json(R"({"added_tokens":[
      {"id":7,"content":"<IMG_CONTEXT>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":8,"content":"<img>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":9,"content":"</img>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
      "model":{"type":"BPE","vocab":{"a":0,"<":1,"i":2,"m":3,"g":4,"e":5,">":6},"merges":[]}})");
  model::VisionSpec vision;
  vision.kind = model::VisionKind::internvl;
  const Placeholders placeholders(vision, &tokenizer);
  using Ids = std::vector<int32_t>;
  const auto spelled = [&](const Ids& ids, size_t images) {
    std::vector<OpenedImage> all(images);
    for (OpenedImage& image : all) image.layout.tiles = 1;
    return placeholders.spell_ids(ids, all);
  };
  const Ids text = {1, 2, 3, 0, 4, 5, 6};  // "<image>", a letter a token
  Ids with_text = {0};
  with_text.insert(with_text.end(), text.begin(), text.end());
  CHECK(spelled(with_text, 1) == Ids{0, 8, 7, 9});
  CHECK(spelled({0, 7, 0}, 1) == Ids{0, 8, 7, 9, 0});
  CHECK(spelled({7, 7}, 2) == Ids{8, 7, 9, 8, 7, 9});
  CHECK_THROWS_WITH(spelled({7}, 2), Contains("has 1 placeholder"));
  CHECK_THROWS_WITH(spelled({0}, 1), Contains("has 0 placeholders"));
}

TEST_CASE("an image that its settings blow up is refused before its pixels are made") {
  ImageLoader loader(source_rules());
  const auto open = [&](int64_t pixels) {
    return loader.open({{MediaKind::image, {kOddImage}, "field"}},
                       {{"min_pixels", pixels}, {"max_pixels", 2 * pixels}});
  };
  CHECK(open(1'000'000).size() == 1);
  CHECK_THROWS_WITH(open(400'000'000),
                    Catch::StartsWith("field: prepared as the settings say it has ") &&
                        Contains("192.0 MiB are the most"));
}

TEST_CASE("an image whose pixels are broken costs its line, with its place in the line") {
  const test::Scratch scratch;
  std::ifstream stream(kOddImage, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  for (size_t at = bytes.size() / 2; at < bytes.size() / 2 + 20; ++at) bytes[at] ^= 0x55;
  ImageLoader loader(source_rules(scratch.path("")));
  for (const MediaKind kind : {MediaKind::image, MediaKind::video}) {
    OpenedImage image = opened_of(loader, kind, {scratch.write("broken.png", bytes)});
    const PixelsFuture pixels = loader.load(std::move(image));
    CHECK_THROWS_AS(pixels.get(), LineError);
    CHECK_THROWS_WITH(pixels.get(), Catch::StartsWith("field: "));
  }
  CHECK(loader.prepared().count == 0);
}

TEST_CASE("images and videos beside a prompt have each their place, one or several") {
  const auto media = [](const std::string& data) {
    const Read line = read(R"({"prompt":"x","multi_modal_data":)" + data + "}");
    INFO(line.message);
    CHECK(line.code == "");
    return line.request.media;
  };
  CHECK(media(R"({"image":"a.png"})").at(0).field == "multi_modal_data");
  const auto images = media(R"({"image":["a.png","b.png"]})");
  REQUIRE(images.size() == 2);
  CHECK(images[0].field == "multi_modal_data.image[0]");
  CHECK(images[1].field == "multi_modal_data.image[1]");
  CHECK(images[1].sources == std::vector<std::string>{"b.png"});
  using Files = std::vector<std::string>;
  CHECK(media(R"({"video":["a.png","b.png"]})").at(0).sources == Files{"a.png", "b.png"});
  CHECK(media(R"({"video":[["a.png","b.png"]]})").at(0).sources == Files{"a.png", "b.png"});
  const auto videos = media(R"({"video":[["a.png"],["b.png","c.png"]],"image":"d.png"})");
  REQUIRE(videos.size() == 3);
  CHECK(videos[1].sources == Files{"b.png", "c.png"});
  CHECK(videos[2].kind == MediaKind::image);
}

TEST_CASE("a prompt with images may be as long as it is to be cut to, and no longer") {
  PromptBuilder builder(
      {.max_model_len = 100, .images = std::make_shared<ImageLoader>(source_rules())}, {});
  const auto refused = [&](int64_t most) -> std::string {
    LineHead head;
    const OrderedJson body = {{"prompt_token_ids", {1, 7, 2}},
                              {"multi_modal_data", {{"image", kOddImage}}},
                              {"truncate_prompt_tokens", most}};
    try {
      const LineRequest request = read_request(head, body, {}, {.vocab_size = 100},
                                               [](std::string_view, std::string_view) {});
      const BuiltRequest built = builder.build(head, request);
      CHECK(built.prompts.at(0).parts.at(0).size() == 8);  // two, and six of the image
      CHECK(built.dropped_tokens == 0);
      return "";
    } catch (const LineError& error) {
      CHECK_THAT(error.what(), Contains("has 8 tokens with those of its images"));
      return error.param();
    }
  };
  for (const int64_t most : {-1, 8, 9}) CHECK(refused(most).empty());
  for (const int64_t most : {1, 7}) CHECK(refused(most) == "truncate_prompt_tokens");
}
