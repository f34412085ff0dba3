// Images of a line that a launch cannot encode, for the engine and for plans of it.
#pragma once

#include <optional>

#include "engine/layout.h"
#include "engine/request.h"

namespace plimsoll::engine {

/// Why the launch cannot encode the images; none: it can. `tower` and `embeddings` are those of
/// Launch, over counting arenas or real ones.
std::optional<RequestOutput::Failure> find_image_fault(const Images& images,
                                                       const EngineLayout& layout,
                                                       std::optional<VisionTower>& tower,
                                                       backend::View embeddings);

}  // namespace plimsoll::engine
