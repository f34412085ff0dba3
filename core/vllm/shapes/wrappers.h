// The language model within a config: its architecture, and facts of its multimodal wrapper.
// Internal to this folder.
#pragma once

#include <optional>
#include <string>

#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

/// Whether the output is the embedding's table where the outer config does not say.
enum class Tied : uint8_t {
  as_text,  // as the language model's config has it
  usually,  // its class of configs ties the two
  never,    // it has a head of its own, whatever the config says
  by_text,  // as the language model's config has it, whatever the outer one says
  either,   // where one of the two configs says so
};

/// A multimodal architecture.
struct Wrapper {
  const char* architecture;
  const char* language = nullptr;  // its language model's; nullptr: as the config within says
  bool both_widths = false;        // the stated width is of gate and up together
  bool counted_positions = false;  // in time, height and width never exceed the count of tokens
  Tied tied = Tied::as_text;
  bool in_sections = false;   // has positions in time, height and width, whatever the config says
  bool whole_videos = false;  // reads an item at once: steps hold the largest by default
  std::string (*language_of)(const ConfigView& config) = nullptr;  // by the config's own version
};
/// The wrapper of an architecture; nullptr: none.
const Wrapper* find_wrapper(const std::string& architecture);

/// The language model's own architecture inside `outer`.
std::string language_architecture(const ConfigView& config, const std::string& outer);

/// True for a wrapper with an encoder that no row describes.
bool has_unknown_tower(const ConfigView& config, const std::string& architecture);

/// Whether the output is the embedding's table by a multimodal model's outer config; nullopt: the
/// language model's config decides. `usual` where the outer config does not say.
std::optional<bool> tied_by_wrapper(const ConfigView& config, const std::string& name, bool usual);

/// The language model's config with the wrapper's corrections.
nlohmann::json wrapped_text(const ConfigView& config, const std::string& name);

}  // namespace plimsoll::vllm
