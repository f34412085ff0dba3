// The language model within a config: its architecture, its row in the table of architectures, and
// facts of its multimodal wrapper.
#pragma once

#include <optional>
#include <string>

#include "model/config.h"
#include "model/families/family.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

using model::is_language_model;
using model::Tied;
using model::Wrapper;

/// The wrapper of a multimodal architecture; nullptr: none.
const Wrapper* find_wrapper(const std::string& architecture);

/// The language model's own architecture inside `outer`.
std::string language_architecture(const ConfigView& config, const std::string& outer);

/// The row of a config's language model in the table of architectures; nullptr: none.
const model::Family* language_family(const ConfigView& config);

/// True for a wrapper with an encoder that no row describes.
bool has_unknown_tower(const ConfigView& config, const std::string& architecture);

/// Whether the output is the embedding's table by a multimodal model's outer config; nullopt: the
/// language model's config decides. `usual` where the outer config does not say.
std::optional<bool> tied_by_wrapper(const ConfigView& config, const std::string& name, bool usual);

/// The language model's config with the wrapper's corrections.
nlohmann::json wrapped_text(const ConfigView& config, const std::string& name);

}  // namespace plimsoll::vllm
