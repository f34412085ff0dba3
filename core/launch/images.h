// Images in a launch of our own engine.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/vision/images.h"
#include "launch/arguments.h"

namespace plimsoll::launch {

/// Items of a modality ("image", "video") that a prompt may have: --limit-mm-per-prompt, else as
/// many as the context holds. Without a limit for videos there are none where images are excluded.
int64_t most_items(const EngineArgs& args, std::string_view modality);

/// Whether the launch computes with the model's towers: not where flags exclude all items.
checkpoint::Towers wanted_towers(const EngineArgs& args);

/// True when images are processed as for the published models of the kind, because only a config
/// is given.
bool counts_as_published(const model::VisionSpec& vision, const Arguments& arguments);

/// Why a launch with this footprint answers no images; empty where it does.
std::string image_refusal(const model::ModelSpec& spec, const Arguments& arguments,
                          const backend::Footprint& footprint);

/// The engine's options for images; nothing where image_refusal has a reason. Throws
/// Error(usage) for invalid --mm-processor-kwargs, Error(checkpoint_unusable) for invalid settings
/// in the folder.
std::optional<engine::ImageOptions> image_options(const model::ModelSpec& spec,
                                                  const Arguments& arguments,
                                                  const backend::Footprint& footprint);

}  // namespace plimsoll::launch
