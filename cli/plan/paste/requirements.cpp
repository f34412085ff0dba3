// Releases of engines that a pasted text installs: "pip install vllm==0.12.0", "uvx vllm@0.12.0".
#include <regex>

#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {

void add_release(const std::string& word, Variables& releases) {
  constexpr size_t kLongest = 300;  // characters of a wheel's address
  // A requirement (PEP 440), uvx's package@release, a repository@tag, or a wheel's file name.
  static const std::regex form(
      R"((?:--[\w-]+=)?(?:\S*/)?(vllm|sglang|lmdeploy|tensorrt[-_]llm|transformers)(?:\.git)?(?:\[[^\]]*\])?)"
      R"((?:===?|~=|@|-(?=\S*\.whl))v?(\d{1,6}\.\d{1,6}(?:\.\d{1,6})*(?:\.?(?:post|dev|rc|a|b)\d+)?)\S*)");
  std::smatch match;
  if (word.size() > kLongest || !std::regex_match(word, match, form)) return;
  std::string package = match[1];
  std::ranges::replace(package, '_', '-');
  releases[package] = match[2];
}

void add_releases(const std::string& text, Variables& releases) {
  constexpr std::string_view kBetween = " \t\r\n\"',()";
  for (size_t at = 0; at < text.size();) {
    const size_t first = text.find_first_not_of(kBetween, at);
    if (first == std::string::npos) return;
    at = std::min(text.find_first_of(kBetween, first), text.size());
    add_release(text.substr(first, at - first), releases);
  }
}

}  // namespace plimsoll::cli
