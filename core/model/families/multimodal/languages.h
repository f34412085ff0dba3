// Language models that an architecture's name does not tell: by a release, or by what a config
// holds.
#pragma once

#include <string>
#include <string_view>

#include "base/config_view.h"

namespace plimsoll::model {

/// MiniCPM-V's release, as its config states it; empty: the first.
std::string mini_cpm_version(const ConfigView& config);

/// Architectures of the language models of MiniCPM-V, MiniCPM-o and Mistral 3, by the whole config.
std::string_view language_of_mini_cpm_v(const ConfigView& config);
std::string_view language_of_mini_cpm_o(const ConfigView& config);
std::string_view language_of_mistral_3(const ConfigView& config);

/// The architecture that a language model's config describes where it names another; empty: it
/// describes the named one.
std::string_view described_language(std::string_view named, const ConfigView& text);

/// The architecture as which a decoder of an unknown architecture is read, and what that is called.
struct Kin {
  std::string_view architecture;
  const char* words;
};
/// The nearest kin of a decoder, with experts (`mixture`) or without.
Kin nearest_kin(const ConfigView& text, bool mixture);

}  // namespace plimsoll::model
