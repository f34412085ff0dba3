// Names that SGLang's flags had in older releases.
#include <algorithm>

#include "engines/sglang/flags.h"

namespace plimsoll::engines::sglang {
namespace {

/// A flag's name of older releases, and what it stands for (DeprecatedAliasStoreAction and
/// DeprecatedStoreConstAction of sglang/srt/server_args.py).
struct FormerName {
  std::string_view name, now;
  Version last = {0, 5, 19};  // that takes the name
};
constexpr FormerName kFormerNames[] = {
    {"--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"},
    {"--cuda-graph-bs", "--cuda-graph-bs-decode"},
    {"--disable-piecewise-cuda-graph", "--cuda-graph-backend-prefill=disabled"},
    {"--enable-piecewise-cuda-graph", "--cuda-graph-backend-prefill=tc_piecewise", {0, 5, 9}},
    {"--enforce-piecewise-cuda-graph", "--cuda-graph-backend-prefill=tc_piecewise"},
    {"--enable-breakable-cuda-graph", "--cuda-graph-backend-prefill=breakable"},
    {"--piecewise-cuda-graph-max-tokens", "--cuda-graph-max-bs-prefill"},
    {"--piecewise-cuda-graph-tokens", "--cuda-graph-bs-prefill"},
    {"--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"},
    {"--enable-deepep-moe", "--moe-a2a-backend=deepep", {0, 5, 0}},
    {"--nsa-prefill-backend", "--dsa-prefill-backend"},
    {"--nsa-decode-backend", "--dsa-decode-backend"},
};

}  // namespace

std::optional<Version> last_release_of(std::span<const std::string> words) {
  std::optional<Version> last;
  for (const std::string& word : words) {
    const auto* const former = std::ranges::find(
        kFormerNames, std::string_view(word).substr(0, word.find('=')), &FormerName::name);
    if (former != std::end(kFormerNames))
      last = std::min(last.value_or(former->last), former->last);
  }
  return last;
}

std::vector<std::string> with_current_names(std::vector<std::string> words, Version version) {
  for (std::string& word : words) {
    const size_t name_end = std::min(word.find('='), word.size());
    const auto* const former = std::ranges::find(
        kFormerNames, std::string_view(word).substr(0, name_end), &FormerName::name);
    if (former != std::end(kFormerNames) && version <= former->last)
      word.replace(0, name_end, former->now);
  }
  return words;
}

}  // namespace plimsoll::engines::sglang
