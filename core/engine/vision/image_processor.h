// The image processor of a model's folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "image/processor.h"
#include "model/vision_spec.h"

namespace plimsoll::engine {

/// True when the folder has settings of the image processor.
bool has_processor_settings(const model::VisionSpec& vision, const std::filesystem::path& folder);

/// The folder's settings of the image processor: preprocessor_config.json, or
/// processor_config.json's image_processor; InternVL: config.json. Throws
/// Error(checkpoint_unusable).
Json read_processor_settings(const model::VisionSpec& vision, const std::filesystem::path& folder);

/// The settings of the published models of a kind, for a config without a folder; InternVL: the
/// config.
Json published_processor_settings(const model::VisionSpec& vision, const Json& config);

/// Settings of a request or a launch for images, or for videos (model::kImageScope, kVideoScope):
/// settings below the scope's name go before those beside it, and those below the other scope's
/// name are left out. Throws image::SettingsError.
template <typename AnyJson>
AnyJson scoped_settings(AnyJson overrides, std::string_view scope) {
  AnyJson own = AnyJson::object();
  for (const char* name : {model::kImageScope, model::kVideoScope}) {
    const auto found = overrides.find(name);
    if (found == overrides.end()) continue;
    if (!found->is_object()) {
      throw image::SettingsError(std::string(name) + ": expected an object");
    }
    if (name == scope) own = *found;
    overrides.erase(name);
  }
  overrides.update(own);
  return overrides;
}

/// Makes the processor; `overrides` are of one scope. Throws image::SettingsError.
std::unique_ptr<const image::Processor> make_image_processor(
    const model::VisionSpec& vision, const Json& settings, const Json& overrides = Json::object());

}  // namespace plimsoll::engine
