// Runs of lines with images, drawn at random: they answer and refuse what they did when
// tests/data/digests/runs_of_images.txt was written (README there).
#include <catch2/catch.hpp>

#include "cli/drawn_runs.h"
#include "like_cases.h"
#include "reference/recipe.h"

using namespace plimsoll;
using namespace plimsoll::testing;
using test::Scratch;
using test::shell;

namespace {

using Words = std::vector<std::string>;

const fs::path kSeeingModels = kData / "golden/multimodal_run";
const std::string kImageFiles = (kData / "images").string();

const Words kImageNames = {
    "scene_640x480.jpg",  "frame0_120x90.png", "frame1_120x90.png",       "frame1_120x90.png",
    "half_70x98.png",     "odd_37x53.png",     "lossy_400x300.webp",      "alpha_200x150.png",
    "turned_320x240.jpg", "moving_120x90.gif", "palette_clear_48x40.png", "banner_1000x200.png",
    "README.md",          "missing.png"};

const Words kImageFlags = {"--max-num-seqs 1",
                           "--max-num-seqs 3",
                           "--max-num-batched-tokens 300",
                           "--max-model-len 400",
                           "--limit-mm-per-prompt '{\"image\": 1}'",
                           "--limit-mm-per-prompt '{\"image\": 3, \"video\": 1}'",
                           "--limit-mm-per-prompt '{\"image\": 0}'",
                           "--max-image-pixels 30000",
                           "--language-model-only",
                           "--no-enable-prefix-caching",
                           "--mm-processor-kwargs '{\"max_pixels\": 20000}'",
                           "--mm-processor-kwargs '{\"do_pan_and_scan\": true}'",
                           "--mm-processor-kwargs '{\"max_dynamic_patch\": 2}'",
                           "--long-prompt truncate-left",
                           "--strict"};

/// A chat with images between texts, or a prompt that has their files beside it.
Json drawn_line(Draw& draw) {
  Json line = {{"max_tokens", 1 + draw.below(3)}, {"temperature", 0}};
  Json names = Json::array();
  for (size_t count = draw.below(4); count > 0; --count)
    names.push_back(kImageFiles + "/" + draw.of(kImageNames));
  if (draw.below(5) == 0) {
    line["prompt"] = "see";
    line["multi_modal_data"] = {{draw.below(4) == 0 ? "video" : "image", names}};
    return line;
  }
  Json parts = {{{"type", "text"}, {"text", draw.below(2) == 0 ? "What is" : "Is it"}}};
  for (const Json& name : names) {
    parts.push_back(
        {{"type", "image_url"}, {"image_url", {{"url", "file://" + name.get<std::string>()}}}});
    if (draw.below(2) == 0) parts.push_back({{"type", "text"}, {"text", "this?"}});
  }
  if (draw.below(6) == 0) parts.push_back({{"type", "video"}, {"video", names}});
  line["messages"] = {{{"role", "user"}, {"content", parts}}};
  return line;
}

void write_seeing_model(const Scratch& scratch, const std::string& name) {
  const fs::path golden = kSeeingModels / name;
  write_checkpoint(golden, scratch.path("model"));
  for (const auto& entry : fs::directory_iterator(golden)) {
    const fs::path to = fs::path(scratch.path("model")) / entry.path().filename();
    if (!fs::exists(to)) fs::copy(entry.path(), to);
  }
}

}  // namespace

TEST_CASE("runs of images drawn at random answer what they did") {
  Digests digests("runs_of_images");
  Words models;
  for (const auto& entry : fs::directory_iterator(kSeeingModels))
    if (entry.is_directory()) models.push_back(entry.path().filename());
  std::ranges::sort(models);
  for (const std::string& model : models) {
    const Scratch scratch;
    write_seeing_model(scratch, model);
    for (int run = 0; run < testing::times(20, 4); ++run) {
      const std::string name = fmt::format("{}-{:02}", model, run);
      Draw draw(name);
      std::string lines;
      for (size_t count = 2 + draw.below(6); count > 0; --count)
        lines += drawn_line(draw).dump() + "\n";
      scratch.write("in", lines);
      Words flags;
      for (size_t count = draw.below(3); count > 0; --count) flags.push_back(draw.of(kImageFlags));
      const test::Outcome outcome =
          shell(scratch, alone(fmt::format("plimsoll run model -q --cpu-isa portable -i in "
                                           "--allowed-local-media-path {} {}",
                                           kImageFiles, fmt::join(flags, " "))));
      const std::map<std::string, std::string> folder = {{kImageFiles, "IMAGES"}};
      const std::string answer = plain(
          scratch, fmt::format("{} {}\n{}", outcome.status, outcome.out, outcome.err), folder);
      const std::string question =
          plain(scratch, fmt::format("{}\n{}", fmt::join(flags, " "), lines), folder);
      digests.compare(name, {{question, answer}});
    }
  }
  digests.finish(testing::takes_all_cases());
}
