#include "vllm/launch/served.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <vector>

#include "base/csv.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kRunsTransformers{0, 7, 2};  // its classes, where vLLM has none

struct Served {
  std::string first;  // release, as "0.8.4"
  std::string last;   // empty: the newest too
  bool in_transformers = false;

  [[nodiscard]] bool early(const VllmVersion& version) const {
    return version < parse_version(first);
  }
  // Patches of the last release come from the same branch.
  [[nodiscard]] bool late(const VllmVersion& version) const {
    if (last.empty()) return false;
    const VllmVersion known = parse_version(last);
    return version >= VllmVersion{known.major, known.minor + 1, 0};
  }
  [[nodiscard]] bool runs_transformers(const VllmVersion& version) const {
    return in_transformers && version >= kRunsTransformers;
  }
};

/// Nothing for an architecture of which no release has a class.
std::optional<Served> find_served(const std::string& architecture) {
  const std::string_view table = architectures_text();
  const size_t at = table.find("\n" + architecture + ",");
  if (architecture.empty() || at == std::string_view::npos) return std::nullopt;
  const std::vector<std::string> fields =
      csv_fields(table.substr(at + 1, table.find('\n', at + 1) - at - 1));
  return Served{fields.at(1), fields.at(2), fields.at(3) == "yes"};
}

/// Models that do not generate go by more names than the registry has: vLLM converts generators.
bool names_a_generator(const std::string& architecture) {
  return architecture.ends_with("ForCausalLM") ||
         architecture.ends_with("ForConditionalGeneration");
}

}  // namespace

std::string served_refusal(const std::string& architecture, const VllmVersion& version) {
  const std::optional<Served> served = find_served(architecture);
  if (!served || served->runs_transformers(version)) return "";
  if (served->late(version)) {
    return fmt::format(
        "Model architecture {} was supported in vLLM until v{}, and is not supported anymore. Use "
        "that release, and --vllm-version {}.",
        architecture, served->last, served->last);
  }
  if (served->early(version)) {
    return fmt::format(
        "Model architectures ['{}'] are not supported for now: vLLM {} is the first release with "
        "them. Use that one, and --vllm-version {}.",
        architecture, served->first, served->first);
  }
  return "";
}

std::string served_note(const std::string& architecture, const VllmVersion& version) {
  const std::optional<Served> served = find_served(architecture);
  if (!served && names_a_generator(architecture)) {
    return fmt::format(
        "no release of vLLM known here (0.4 to 0.33) has a class for {}: it runs the one of "
        "transformers or of the checkpoint's own code where that allows it, or refuses the model",
        architecture);
  }
  if (!served || !served->runs_transformers(version)) return "";
  if (!served->early(version) && !served->late(version)) return "";
  return fmt::format(
      "this release has no class for {} ({}): it runs the one of transformers, if the installed "
      "version has it, in about the same memory",
      architecture,
      served->early(version) ? served->first + " is the first that does"
                             : served->last + " was the last that did");
}

}  // namespace plimsoll::vllm
