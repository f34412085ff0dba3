// Pictures of a line that a launch cannot encode, for the engine and for plans of it.
#pragma once

#include <optional>

#include "engine/layout.h"
#include "engine/request.h"

namespace plimsoll::engine {

/// Why the launch cannot encode the pictures; none: it can. `tower` and `embeddings` are those of
/// Launch, over counting arenas or real ones.
std::optional<RequestOutput::Failure> find_picture_fault(const Pictures& pictures,
                                                         const EngineLayout& layout,
                                                         std::optional<VisionTower>& tower,
                                                         backend::View embeddings);

}  // namespace plimsoll::engine
