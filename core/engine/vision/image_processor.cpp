#include "engine/vision/image_processor.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::engine {

bool has_processor_settings(const model::VisionSpec& vision, const std::filesystem::path& folder) {
  if (folder.empty()) return false;
  if (vision.kind == model::VisionKind::internvl) return true;  // its config does
  return std::filesystem::exists(folder / "processor_config.json") ||
         std::filesystem::exists(folder / "preprocessor_config.json");
}

namespace {

Json read_stored_settings(const std::filesystem::path& folder) {
  const std::filesystem::path nested = folder / "processor_config.json";
  if (std::filesystem::exists(nested)) {
    const Json whole = read_json_file(nested);
    const auto image = whole.find("image_processor");
    if (image != whole.end() && image->is_object()) return *image;
  }
  const std::filesystem::path file = folder / "preprocessor_config.json";
  if (std::filesystem::exists(file)) return read_json_file(file);
  fail(ExitCode::checkpoint_unusable, "{} is missing: it says how the model's images are prepared",
       file.string());
}

Json internvl_settings(const model::VisionSpec& vision, Json config) {
  config["image_size"] = vision.image;
  return config;
}

}  // namespace

Json published_processor_settings(const model::VisionSpec& vision, const Json& config) {
  const Json square{{"height", vision.image}, {"width", vision.image}};
  switch (vision.kind) {
    case model::VisionKind::qwen2_vl:
      return {{"min_pixels", 56 * 56}, {"max_pixels", 28 * 28 * 16384}};
    case model::VisionKind::clip:
      return {{"size", {{"shortest_edge", vision.image}}}, {"crop_size", square}};
    case model::VisionKind::idefics3:
      return {{"size", {{"longest_edge", 4 * vision.image}}},
              {"max_image_size", {{"longest_edge", vision.image}}}};
    case model::VisionKind::gemma3:
    case model::VisionKind::siglip:
      return {{"size", square}};
    case model::VisionKind::internvl:
      return internvl_settings(vision, config);
  }
  return Json::object();
}

Json read_processor_settings(const model::VisionSpec& vision, const std::filesystem::path& folder) {
  if (vision.kind == model::VisionKind::internvl) {
    return internvl_settings(vision, read_json_file(folder / "config.json"));
  }
  Json settings = read_stored_settings(folder);
  // Gemma 3's processor of text and images together asks for RGB whatever the file says.
  if (vision.kind == model::VisionKind::gemma3) settings["do_convert_rgb"] = true;
  return settings;
}

std::unique_ptr<const image::Processor> make_image_processor(const model::VisionSpec& vision,
                                                             const Json& settings,
                                                             const Json& overrides) {
  image::PatchShape patches{.patch_size = vision.patch, .shuffle = vision.merge};
  if (vision.merging == model::Merging::averaged) {
    const int64_t side = vision.image / vision.patch / vision.merge;
    patches.tokens_per_tile = side * side;
  } else if (vision.kind == model::VisionKind::clip || vision.kind == model::VisionKind::siglip) {
    const int64_t side = vision.image / vision.patch;
    const int64_t before = vision.class_token == model::kNoWeight ? 0 : 1;
    patches.tokens_per_tile = before + side * side - vision.first_row;
  }
  auto processor = image::make_processor(static_cast<image::ProcessorKind>(vision.kind), patches,
                                         settings, overrides);
  if (vision.image == 0) return processor;
  const std::vector<int64_t> shape = processor->extremes(1).front().shape;
  if (shape[2] != vision.image || shape[3] != vision.image) {
    throw image::SettingsError(fmt::format(
        "size, crop_size or max_image_size: {} x {} pixels, and the tower takes {} x {} "
        "(config.json: vision_config.image_size)",
        shape[3], shape[2], vision.image, vision.image));
  }
  return processor;
}

}  // namespace plimsoll::engine
