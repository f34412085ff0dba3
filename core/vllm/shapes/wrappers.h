// The language model within a config: its architecture, and what a multimodal wrapper knows of it.
// Internal to this folder.
#pragma once

#include <optional>
#include <string>

#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

/// A multimodal architecture whose language model has a plain one.
struct Wrapper {
  const char* architecture;
  const char* language;
  bool both_widths = false;  // as Family's
  bool counted_positions =
      false;  // in time, height and width they never exceed the count of tokens
};
/// nullptr: none.
const Wrapper* find_wrapper(const std::string& architecture);

/// The language model's own architecture inside `outer`.
std::string language_architecture(const ConfigView& config, const std::string& outer);

/// A wrapper with an encoder that no row describes.
bool has_unknown_tower(const ConfigView& config, const std::string& architecture);

/// Whether the output is the embedding's table, where a multimodal model's outer config decides it,
/// not the one of its language model.
std::optional<bool> tied_by_wrapper(const ConfigView& config, const std::string& name, bool usual);

/// The language model's config with what its wrapper knows better.
nlohmann::json wrapped_text(const ConfigView& config, const std::string& name);

}  // namespace plimsoll::vllm
