// Lines with images: where they may come from, what they cost, how their placeholders grow.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "batch/line_error.h"
#include "batch/prompt_builder.h"
#include "scratch.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

namespace fs = std::filesystem;

const std::string kImages = PLIMSOLL_SOURCE_DIR "/tests/data/images";
constexpr int32_t kPad = 7, kVideoPad = 8;
/// A PNG of 5000 x 5000 pixels that has none.
const std::string kHeaderAlone(
    "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x13\x88\0\0\x13\x88\x08\2\0\0\0...."
    "\0\0\0\0IEND....",
    8 + 25 + 12);

ImageRules rules(const std::string& allowed = kImages) {
  auto vision = std::make_shared<model::VisionSpec>();
  vision->kind = model::VisionKind::qwen2_vl;
  vision->merge = 2;
  vision->image_token = kPad;
  vision->video_token = kVideoPad;
  return {.vision = vision,
          .refusal = "",
          .settings = Json::parse(R"({"max_pixels": 100352})"),
          .overrides = OrderedJson::object(),
          .most_images = 2,
          .most_videos = 1,
          .allowed_folder = allowed,
          .cache_bytes = size_t{1} << 20};
}

struct BuiltImages {
  BuiltRequest request;
  std::string code, message;
  [[nodiscard]] const TokenIds& ids() const { return request.prompts.at(0).parts.at(0); }
  [[nodiscard]] const engine::Images& images() const { return *request.prompts.at(0).images; }
};

BuiltImages build_images(const OrderedJson& body, const ImageRules& with = rules(),
                         int64_t context = 1000) {
  PromptBuilder builder({.max_model_len = context, .images = std::make_shared<ImageLoader>(with)},
                        {});
  LineHead head;
  head.endpoint = body.contains("messages") ? Endpoint::chat : Endpoint::completions;
  BuiltImages built;
  try {
    const LineRequest request = read_request(head, body, {}, {.vocab_size = 100},
                                             [](std::string_view, std::string_view) {});
    built.request = builder.build(head, request);
  } catch (const LineError& error) {
    built.code = error.code();
    built.message = error.what();
  }
  return built;
}

OrderedJson with_images(const OrderedJson& images, const OrderedJson& ids = {1, kPad, 2}) {
  return {{"prompt_token_ids", ids}, {"multi_modal_data", {{"image", images}}}};
}

std::string code_of(const OrderedJson& images, const std::string& allowed = kImages) {
  const BuiltImages built = build_images(with_images(images), rules(allowed));
  UNSCOPED_INFO(built.message);
  return built.code;
}

const std::string kOdd = kImages + "/odd_37x53.png";

}  // namespace

TEST_CASE("a placeholder grows to as many tokens as its image has embeddings") {
  const BuiltImages built = build_images(with_images({kOdd}));
  REQUIRE(built.message == "");
  CHECK(built.ids() == TokenIds{1, kPad, kPad, kPad, kPad, kPad, kPad, 2});  // 2 x 3 units
  REQUIRE(built.images().items.size() == 1);
  CHECK(built.images().items[0].runs.front().first == 1);
  CHECK(built.images().rope_delta == 3 - 6);  // an image of 3 rows counts as 3 positions
}

TEST_CASE("equal images have equal keys, other settings others") {
  const OrderedJson ids = {kPad, kPad};
  const BuiltImages twice = build_images(with_images({kOdd, kOdd}, ids));
  REQUIRE(twice.images().items.size() == 2);
  CHECK(twice.images().items[0].key == twice.images().items[1].key);
  CHECK(twice.images().items[0].pixels == twice.images().items[1].pixels);
  OrderedJson larger = with_images({kOdd});
  larger["mm_processor_kwargs"] = {{"min_pixels", 12544}};
  const BuiltImages other = build_images(larger);
  REQUIRE(other.message == "");
  CHECK(!(other.images().items[0].key == twice.images().items[0].key));
  CHECK(other.images().items[0].tokens() > 6);
}

TEST_CASE("videos have equal keys where all their frames are equal, in one order") {
  ImageLoader loader(rules());
  const auto key = [&](std::vector<const char*> frames) {
    Media video{MediaKind::video, {}, "video"};
    for (const char* frame : frames) video.sources.push_back(kImages + "/frame" + frame);
    return loader.open({video}, OrderedJson::object()).at(0).key;
  };
  const char *a = "0_120x90.png", *b = "1_120x90.png", *c = "2_120x90.png";
  CHECK(key({a, b}) == key({a, b}));
  CHECK_FALSE(key({a, b}) == key({a, c}));
  CHECK_FALSE(key({a, b}) == key({b, a}));
  CHECK_FALSE(key({a, b}) == key({a, b, b}));
}

TEST_CASE("a line is told what is wrong with its images") {
  struct Row {
    OrderedJson body;
    std::string code, message;
  };
  const Row rows[] = {
      {with_images({kOdd, kOdd, kOdd}), "too_many_images", "has 3 images"},
      {with_images({kOdd, kOdd}), "bad_field", "has 1 placeholder (7) for 2 images"},
      {with_images({kOdd}, {1, 2}), "bad_field", "has 0 placeholders"},
      {with_images({"https://example.org/a.png"}), "image_not_allowed", "download the file"},
      {with_images({"HTTP://example.org/a.png"}), "image_not_allowed", "over http;"},
      {with_images({"s3://bucket/a.png"}), "image_not_allowed", "over s3;"},
      {with_images({"file://other/a.png"}), "image_not_allowed", "other machines"},
      {with_images({"file://a.png"}), "image_not_allowed", "as file:///FOLDER/FILE, or the bare"},
      {with_images({"/etc/passwd"}), "image_not_allowed", "outside"},
      {with_images({kImages + "/../configs"}), "image_not_allowed", "outside"},
      {with_images({kImages + "/none.png"}), "image_unreadable", "No such file"},
      {with_images({""}), "image_not_allowed", "the address is empty"},
      {with_images({"/9j/" + std::string(96, 'A')}), "image_unreadable", "behind data:image"},
      {with_images({"data:image/png;base64,@@@@"}), "image_unreadable", "base64"},
      {with_images({"data:image/png,abc"}), "image_unreadable", "expected data:"},
      {with_images({"data:image/png;base64,AAAA"}), "image_unreadable", ""},
      {with_images({kOdd, kImages + "/none.png"}), "image_unreadable", "multi_modal_data.image[1]"},
      {{{"messages",
         {{{"role", "user"},
           {"content",
            {{{"type", "image"}, {"image", kOdd}},
             {{"type", "image"}, {"image", kImages + "/none.png"}}}}}}}},
       "image_unreadable",
       "messages[0].content[1]"},
      {with_images(OrderedJson::array()), "bad_field", "several"},
      {{{"prompt_token_ids", {1}}, {"multi_modal_data", {{"audio", "a.wav"}}}},
       "bad_field",
       "audio"},
  };
  for (const Row& row : rows) {
    const BuiltImages built = build_images(row.body);
    INFO(row.body.dump() << ": " << built.message);
    CHECK(built.code == row.code);
    CHECK(built.message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("images are bounded by their pixels, as Pillow bounds them unless told otherwise") {
  ImageRules bounded = rules();
  bounded.most_pixels = 37 * 53;
  CHECK(build_images(with_images({kOdd}), bounded).message == "");
  bounded.most_pixels -= 1;
  const BuiltImages large = build_images(with_images({kOdd}), bounded);
  CHECK(large.code == "image_too_large");
  CHECK_THAT(large.message, Catch::Contains("37 x 53 pixels: --max-image-pixels is 1960"));
  CHECK(rules().most_pixels == 178'956'970);
  // A telephone's 108 megapixels: the header is taken, the pixels are not there.
  std::ifstream file(kOdd, std::ios::binary);
  std::string png{std::istreambuf_iterator<char>(file), {}};
  png.replace(16, 8, std::string("\0\0\x2E\xE0\0\0\x23\x28", 8));  // 12,000 x 9,000
  const test::Scratch scratch;
  const BuiltImages cut =
      build_images(with_images({scratch.write("large.png", png)}), rules(scratch.path("")));
  CHECK(cut.code != "image_too_large");
}

TEST_CASE("a prompt that images make too long says its length") {
  const BuiltImages built = build_images(with_images({kOdd}), rules(), 8);
  CHECK(built.code == "context_too_long");
  CHECK(built.message.find("the prompt has 8 tokens") != std::string::npos);
}

TEST_CASE("settings of a line are those of the model's processor") {
  OrderedJson body = with_images({kOdd});
  body["mm_processor_kwargs"] = {{"max_pixel", 3136}};
  CHECK(build_images(body).code == "bad_field");
  body["mm_processor_kwargs"] = {{"max_pixels", -1}};
  CHECK(build_images(body).code == "bad_field");
}

TEST_CASE("videos have settings of their own") {
  OrderedJson body = {
      {"prompt_token_ids", {kPad, kVideoPad}},
      {"multi_modal_data", {{"image", {kOdd}}, {"video", OrderedJson::array({kOdd, kOdd})}}}};
  const auto tokens = [&] {
    const BuiltImages built = build_images(body);
    INFO(built.message);
    REQUIRE(built.images().items.size() == 2);
    return std::array{built.images().items[0].tokens(), built.images().items[1].tokens()};
  };
  body["mm_processor_kwargs"] = {{"min_pixels", 12544}};
  const auto larger = tokens();
  CHECK(larger[0] == larger[1]);
  CHECK(larger[0] > 6);
  body["mm_processor_kwargs"] = {{"videos_kwargs", {{"min_pixels", 12544}}}};
  CHECK(tokens() == std::array{int64_t{6}, larger[1]});
  body["mm_processor_kwargs"] = {{"images_kwargs", {{"min_pixels", 12544}}}};
  CHECK(tokens() == std::array{larger[0], int64_t{6}});
}

TEST_CASE("files are read below the allowed folder alone, whatever links say") {
  const test::Scratch scratch;
  const std::string allowed = scratch.path("allowed");
  fs::create_directory(allowed);
  fs::create_directory(scratch.path("allowed too"));
  fs::copy(kOdd, allowed + "/a b.png");
  fs::copy(kOdd, scratch.path("allowed too/a.png"));
  fs::create_symlink(kOdd, allowed + "/out.png");
  fs::create_symlink(allowed + "/a b.png", scratch.path("in.png"));
  CHECK(code_of({"file://" + allowed + "/a%20b.png"}, allowed) == "");
  // "%" before other characters than hexadecimal digits is itself.
  for (const char* name : {"x%G1.png", "x%1g.png", "x%.png", "x%4"}) {
    fs::copy(kOdd, allowed + "/" + name);
    CHECK(code_of({"file://" + allowed + "/" + name}, allowed) == "");
  }
  CHECK(code_of({"file://" + allowed + "/a%20%62.pn%67"}, allowed) == "");
  CHECK(code_of({"file://localhost" + allowed + "/a b.png"}, allowed) == "");
  CHECK(code_of({"FILE://" + allowed + "/a%20b.png"}, allowed) == "");
  CHECK(code_of({scratch.path("in.png")}, allowed) == "");
  CHECK(code_of({allowed + "/out.png"}, allowed) == "image_not_allowed");
  CHECK(code_of({scratch.path("allowed too/a.png")}, allowed) == "image_not_allowed");
  CHECK(code_of({allowed + "/a b.png"}, "") == "image_not_allowed");
  CHECK(code_of({allowed}, allowed + "/..") == "image_unreadable");
  CHECK_THROWS_AS(ImageLoader(rules(scratch.path("missing"))), Error);
}

TEST_CASE("settings of the launch that the processor refuses end the launch") {
  ImageRules wrong = rules();
  wrong.overrides = {{"max_pixels", "many"}};
  CHECK_THROWS_AS(ImageLoader(wrong), Error);
}

TEST_CASE("a FIFO among the images keeps nobody waiting") {
  const test::Scratch scratch;
  REQUIRE(mkfifo(scratch.path("fifo.png").c_str(), 0600) == 0);
  CHECK(code_of({scratch.path("fifo.png")}, scratch.path("")) == "image_unreadable");
}

TEST_CASE("a video is its frames, in a list or in one address") {
  const OrderedJson ids = {1, kVideoPad};
  const BuiltImages listed = build_images(
      {{"prompt_token_ids", ids}, {"multi_modal_data", {{"video", {kOdd, kOdd, kOdd}}}}});
  REQUIRE(listed.message == "");
  CHECK(listed.images().items[0].tokens() == 2 * 6);  // two pairs
  CHECK(
      build_images({{"prompt_token_ids", ids}, {"multi_modal_data", {{"video", {{kOdd}, {kOdd}}}}}})
          .code == "too_many_images");
  for (const char* container : {"data:video/mp4;base64,AAAA", "data:video/webm;base64,AAAA"}) {
    const BuiltImages refused =
        build_images({{"prompt_token_ids", ids}, {"multi_modal_data", {{"video", container}}}});
    CHECK(refused.code == "image_unreadable");
    CHECK(refused.message.find("container") != std::string::npos);
  }
  const test::Scratch scratch;
  scratch.write("a.mp4", std::string("\0\0\0\x18"
                                     "ftypisom",
                                     12) +
                             std::string(64, '\0'));
  const BuiltImages file = build_images(
      {{"prompt_token_ids", ids}, {"multi_modal_data", {{"video", scratch.path("a.mp4")}}}},
      rules(scratch.path("")));
  CHECK(file.code == "image_unreadable");
  CHECK(file.message.find("container") != std::string::npos);
}

TEST_CASE("a video's frames are bounded together, as they are decoded together") {
  // 5000 x 5000 pixels in RGB are 71.5 MiB, and all frames have 192 MiB. Nothing is decoded here.
  const test::Scratch scratch;
  scratch.write("frame.png", kHeaderAlone);
  ImageLoader loader(rules(scratch.path("")));
  const auto open = [&](size_t frames) {
    const std::vector<std::string> sources(frames, scratch.path("frame.png"));
    return loader.open({{MediaKind::video, sources, "video"}}, OrderedJson::object());
  };
  CHECK(open(2).size() == 1);
  CHECK_THROWS_WITH(open(3), Catch::Contains("3 frames of 5000 x 5000 pixels are more than"));
}

TEST_CASE("a line's files are bounded together, however many images they are") {
  // All files of a line have 64 MiB; what lies behind an image's end counts.
  const test::Scratch scratch;
  const std::string file = scratch.path("half.png");
  scratch.write("half.png", kHeaderAlone);
  ImageLoader loader(rules(scratch.path("")));
  const auto open = [&](size_t images) {
    return loader.open(std::vector<Media>(images, {MediaKind::image, {file}, "image"}),
                       OrderedJson::object());
  };
  fs::resize_file(file, uintmax_t{32} << 20);
  CHECK(open(2).size() == 2);
  fs::resize_file(file, (uintmax_t{32} << 20) + 1);
  CHECK(open(1).size() == 1);
  CHECK_THROWS_WITH(open(2), Catch::Contains("has more than 33554431 bytes, the most that the"));
  fs::resize_file(file, (uintmax_t{64} << 20) + 1);
  CHECK_THROWS_WITH(open(1), Catch::Contains("has more than 67108864 bytes"));
}

TEST_CASE("a launch without a tower says why") {
  ImageRules none = rules();
  none.vision = nullptr;
  none.refusal = "--limit-mm-per-prompt image=0 leaves the vision tower out";
  const BuiltImages built = build_images(with_images({kOdd}), none);
  CHECK(built.code == "no_images");
  CHECK(built.message.find("image=0") != std::string::npos);
}

TEST_CASE("counting reads headers, and no pixels") {
  PromptBuilder builder({.max_model_len = 1000,
                         .images = std::make_shared<ImageLoader>(rules()),
                         .pixels = PromptOptions::Pixels::counted},
                        {});
  LineHead head;
  const BuiltRequest built =
      builder.build(head, read_request(head, with_images({kOdd}), {}, {.vocab_size = 100},
                                       [](std::string_view, std::string_view) {}));
  CHECK(built.prompts[0].parts[0].size() == 8);
  CHECK(built.prompts[0].images->items[0].pixels->levels.empty());
}

TEST_CASE("images that are decoded give the memory of their files back") {
  const test::Scratch scratch;
  ImageLoader loader(rules(scratch.path("")));
  std::ifstream stream(kOdd, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(stream), {}};
  const auto in_use = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  std::vector<PixelsFuture> kept;
  const size_t before = in_use();
  for (int i = 0; i < 16; ++i) {
    const std::string file =
        scratch.write("a.png", image + std::string(size_t{4} << 20, static_cast<char>('a' + i)));
    auto opened = loader.open({{MediaKind::image, {file}, "image"}}, OrderedJson::object());
    kept.push_back(loader.load(std::move(opened.front())));
    REQUIRE(kept.back().get() != nullptr);
  }
  CHECK(in_use() < before + (size_t{8} << 20));
}

TEST_CASE("of the images that are kept the one that was not used for longest goes first") {
  const test::Scratch scratch;
  std::ifstream stream(kOdd, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(stream), {}};
  ImageRules narrow = rules(scratch.path(""));
  const auto opened = [&](ImageLoader& loader, char name) {
    const std::string file = scratch.write(std::string(1, name) + ".png", image + name);
    return std::move(
        loader.open({{MediaKind::image, {file}, "image"}}, OrderedJson::object()).front());
  };
  {
    ImageLoader loader(narrow);
    narrow.cache_bytes = 2 * static_cast<size_t>(opened(loader, 'a').layout.levels());
  }
  ImageLoader loader(narrow);
  const auto load = [&](char name) { return loader.load(opened(loader, name)).get(); };
  const auto a = load('a');
  const auto b = load('b');
  CHECK(load('a') == a);
  load('c');
  CHECK(load('a') == a);
  CHECK(load('b') != b);
}

TEST_CASE("images fill a loader with 256 MiB beside those that are kept") {
  ImageLoader loader(rules());
  uint64_t key = 0;
  const auto load = [&](int64_t bytes) {
    auto opened = loader.open({{MediaKind::image, {kOdd}, "image"}}, OrderedJson::object());
    opened.front().layout = {.shape = {bytes}};
    opened.front().key = {0, ++key};
    return loader.load(std::move(opened.front())).get();
  };
  const auto almost = load((256 << 20) - 1);  // more than the cache holds, as all but `kept`
  CHECK(!loader.is_full());
  const auto kept = load(1000);
  CHECK(!loader.is_full());
  {
    const auto more = load(2 << 20);
    CHECK(loader.is_full());
  }
  CHECK(!loader.is_full());
}
