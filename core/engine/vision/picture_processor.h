// The image processor that goes with a model's folder.
#pragma once

#include <filesystem>
#include <memory>

#include "image/processor.h"
#include "model/vision_spec.h"

namespace plimsoll::engine {

/// Whether the folder says how pictures are prepared.
bool has_processor_settings(const model::VisionSpec& vision, const std::filesystem::path& folder);

/// What the folder says of its image processor: preprocessor_config.json, or
/// processor_config.json's image_processor; InternVL: config.json. Throws
/// Error(checkpoint_unusable).
Json read_processor_settings(const model::VisionSpec& vision, const std::filesystem::path& folder);

/// The same for a config without a folder: what the published models of its kind say; InternVL: the
/// config.
Json published_processor_settings(const model::VisionSpec& vision, const Json& config);

/// Settings of a request or a launch: those below images_kwargs stand beside the others then,
/// before which they go. Throws image::SettingsError.
template <typename AnyJson>
AnyJson image_settings(AnyJson overrides) {
  constexpr const char* kScope = "images_kwargs";
  const auto scope = overrides.find(kScope);
  if (scope == overrides.end()) return overrides;
  if (!scope->is_object()) throw image::SettingsError("images_kwargs: expected an object");
  const AnyJson own = *scope;
  overrides.erase(kScope);
  overrides.update(own);
  return overrides;
}

/// Throws image::SettingsError.
std::unique_ptr<const image::Processor> make_picture_processor(
    const model::VisionSpec& vision, const Json& settings, const Json& overrides = Json::object());

}  // namespace plimsoll::engine
