// What a launch of our own engine makes of pictures.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/vision/pictures.h"
#include "plan/own/arguments.h"

namespace plimsoll::plan::own {

/// Items of a modality ("image", "video") that a prompt may have: --limit-mm-per-prompt, else as
/// many as the context holds. No word on videos: none where there are no images.
int64_t most_items(const EngineArgs& args, std::string_view modality);

/// Whether the launch computes with the model's towers: not where flags leave all items out.
checkpoint::Towers wanted_towers(const EngineArgs& args);

/// Whether pictures are prepared as for the published models of the kind, as there is a config
/// alone.
bool counts_as_published(const model::VisionSpec& vision, const Arguments& arguments);

/// Why a launch on such sizes answers no pictures; empty where it does.
std::string picture_refusal(const model::ModelSpec& spec, const Arguments& arguments,
                            const backend::Footprint& footprint);

/// What the engine is asked of pictures; nothing where picture_refusal has a reason. Throws
/// Error(usage) for --mm-processor-kwargs that are none, Error(checkpoint_unusable) for the
/// folder's.
std::optional<engine::PictureOptions> picture_options(const model::ModelSpec& spec,
                                                      const Arguments& arguments,
                                                      const backend::Footprint& footprint);

}  // namespace plimsoll::plan::own
