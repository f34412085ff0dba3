#include "vllm/launch/served.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/vllm/classes.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kRunsTransformers{0, 7, 2};  // its classes, where vLLM has none

using model::KnownClass;

/// Which classes releases before this one had is not known.
constexpr VllmVersion kOldest{0, 4, 1};

bool too_early(const KnownClass& known, const VllmVersion& version) {
  return version < known.first && known.first > kOldest;
}

bool runs_transformers(const KnownClass& known, const VllmVersion& version) {
  return known.in_transformers && version >= std::max(kRunsTransformers, *known.in_transformers);
}

/// Models that do not generate go by more names than the registry has: vLLM converts generators.
bool names_a_generator(const std::string& architecture) {
  return architecture.ends_with("ForCausalLM") ||
         architecture.ends_with("ForConditionalGeneration");
}

}  // namespace

std::string served_refusal(const std::string& architecture, const VllmVersion& version) {
  const std::optional<KnownClass> known = model::find_class(architecture);
  if (!known || runs_transformers(*known, version)) return "";
  if (known->gone(version)) {
    return fmt::format(
        "Model architecture {} was supported in vLLM until v{}, and is not supported anymore. Use "
        "that release, and --vllm-version {}.",
        architecture, version_text(*known->last), version_text(*known->last));
  }
  if (too_early(*known, version)) {
    return fmt::format(
        "Model architectures ['{}'] are not supported for now: vLLM {} is the first release with "
        "them. Use that one, and --vllm-version {}.",
        architecture, version_text(known->first), version_text(known->first));
  }
  return "";
}

std::string served_note(const std::string& architecture, const VllmVersion& version) {
  const std::optional<KnownClass> known = model::find_class(architecture);
  if (!known && names_a_generator(architecture)) {
    return fmt::format(
        "no release of vLLM known here (0.4 to 0.{}) has a class for {}: it runs the one of "
        "transformers or of the checkpoint's own code where that allows it, or refuses the model",
        model::kNewestRelease.minor, architecture);
  }
  if (!known || !runs_transformers(*known, version)) return "";
  if (!too_early(*known, version) && !known->gone(version)) return "";
  return fmt::format(
      "this release has no class for {} ({}): it runs the one of transformers, if the installed "
      "version has it, in about the same memory",
      architecture,
      too_early(*known, version) ? version_text(known->first) + " is the first that does"
                                 : version_text(*known->last) + " was the last that did");
}

}  // namespace plimsoll::vllm
