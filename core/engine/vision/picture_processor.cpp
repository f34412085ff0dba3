#include "engine/vision/picture_processor.h"

#include "base/error.h"

namespace plimsoll::engine {

Json read_processor_settings(const model::VisionSpec& vision, const std::filesystem::path& folder) {
  if (vision.kind == model::VisionKind::internvl) {
    Json settings = read_json_file(folder / "config.json");
    settings["image_size"] = vision.image;
    return settings;
  }
  const std::filesystem::path nested = folder / "processor_config.json";
  if (std::filesystem::exists(nested)) {
    const Json whole = read_json_file(nested);
    const auto image = whole.find("image_processor");
    if (image != whole.end() && image->is_object()) return *image;
  }
  const std::filesystem::path file = folder / "preprocessor_config.json";
  if (std::filesystem::exists(file)) return read_json_file(file);
  fail(ExitCode::checkpoint_unusable,
       "{} is missing: it says how the model's pictures are prepared", file.string());
}

std::unique_ptr<const image::Processor> make_picture_processor(const model::VisionSpec& vision,
                                                               const Json& settings,
                                                               const Json& overrides) {
  image::PatchShape patches{.patch_size = vision.patch, .shuffle = vision.merge};
  if (vision.merging == model::Merging::averaged) {
    const int64_t side = vision.image / vision.patch / vision.merge;
    patches.tokens_per_tile = side * side;
  }
  return image::make_processor(static_cast<image::ProcessorKind>(vision.kind), patches, settings,
                               overrides);
}

}  // namespace plimsoll::engine
