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

/// Throws image::SettingsError.
std::unique_ptr<const image::Processor> make_picture_processor(
    const model::VisionSpec& vision, const Json& settings, const Json& overrides = Json::object());

}  // namespace plimsoll::engine
