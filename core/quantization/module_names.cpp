#include "quantization/module_names.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "base/error.h"

namespace plimsoll::quantization {
namespace {

constexpr std::string_view kRegexMark = "re:";

/// Shell wildcards `*` and `?` over the whole name; linear in practice, quadratic at worst.
bool wildcard_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// "layers.12" of a canonical name that begins with a layer, else "".
std::string layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (name.substr(0, kLayers.size()) != kLayers) return {};
  const size_t dot = name.find('.', kLayers.size());
  if (dot == std::string_view::npos) return {};
  const std::string_view number = name.substr(kLayers.size(), dot - kLayers.size());
  const bool digits =
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::string(name.substr(0, dot)) : std::string();
}

std::string shortened(const std::string& text) {
  constexpr size_t kShown = 120;
  return text.size() > kShown ? text.substr(0, kShown) + "..." : text;
}

}  // namespace

std::string canonical_name(std::string_view name) {
  for (const std::string_view prefix : {"model.", "language_model.", "model.", "backbone."}) {
    if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  }
  return std::string(name);
}

struct NameList::Pattern {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* limits = nullptr;
  std::string text;

  explicit Pattern(const std::string& pattern) : text(pattern) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_ANCHORED,
                         &error, &at, nullptr);
    if (code == nullptr) {
      fail(ExitCode::checkpoint_unusable,
           "quantization_config: \"{}\" is not a regular expression (position {})", shortened(text),
           at);
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    data = pcre2_match_data_create_from_pattern(code, nullptr);
    limits = pcre2_match_context_create(nullptr);
    constexpr uint32_t kMostSteps = 200'000;
    pcre2_set_match_limit(limits, kMostSteps);
  }
  ~Pattern() {
    pcre2_match_context_free(limits);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  [[nodiscard]] bool matches(const std::string& name) const {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0,
                                  0, data, limits);
    if (found >= PCRE2_ERROR_NOMATCH) return found >= 0;
    fail(ExitCode::checkpoint_unusable,
         "quantization_config: the pattern \"{}\" takes too long for \"{}\"; write one that "
         "repeats nothing within what is repeated",
         shortened(text), shortened(name));
  }
};

NameList::NameList(const std::vector<std::string>& entries, NameMatch match)
    : match_(match), entries_(entries.size()) {
  for (const std::string& entry : entries) {
    if (match == NameMatch::regex && entry.starts_with(kRegexMark)) {
      patterns_.push_back(std::make_shared<const Pattern>(entry.substr(kRegexMark.size())));
      continue;
    }
    const std::string name = canonical_name(entry);
    exact_.insert(name);
    const std::string layer = layer_of(name);
    const bool own = !layer.empty() && name.find_first_of("*?") > layer.size();
    (own ? by_layer_[layer] : anywhere_).push_back(name);
  }
}

bool NameList::matches(const std::string& entry, const std::string& name) const {
  if (name.find(entry) != std::string::npos) return true;
  return match_ == NameMatch::wildcard && wildcard_matches(entry, name);
}

bool NameList::lists_name(const std::string& name) const {
  if (exact_.contains(name)) return true;
  if (match_ == NameMatch::exact) return false;
  if (match_ == NameMatch::regex) return fits(name) || fits("model." + name);
  const auto listed = [&](const std::string& entry) { return matches(entry, name); };
  if (std::any_of(anywhere_.begin(), anywhere_.end(), listed)) return true;
  const auto own = by_layer_.find(layer_of(name));
  return own != by_layer_.end() && std::any_of(own->second.begin(), own->second.end(), listed);
}

bool NameList::fits(const std::string& name) const {
  return std::ranges::any_of(patterns_,
                             [&](const auto& pattern) { return pattern->matches(name); });
}

bool NameList::lists(const ModuleName& module) const {
  if (entries_ == 0) return false;
  const std::string name = module.full();
  // A pattern is made for the checkpoint's names, which may begin before vLLM's.
  if (match_ == NameMatch::regex &&
      (module.stored == "model." + name || module.stored == "backbone." + name))
    return exact_.contains(name) || fits(module.stored);
  if (lists_name(name)) return true;
  if (!module.stored.empty() && fits(module.stored)) return true;
  if (module.shards.empty()) return false;
  for (size_t i = 0; i < module.shards.size(); ++i) {
    if (!lists_name(module.shard(i))) return false;
  }
  return true;
}

bool NameList::mentions(const std::string& name) const {
  const auto contains = [&](const std::string& entry) {
    return entry.find(name) != std::string::npos;
  };
  const auto own = by_layer_.find(layer_of(name));
  return std::any_of(anywhere_.begin(), anywhere_.end(), contains) ||
         (own != by_layer_.end() && std::any_of(own->second.begin(), own->second.end(), contains));
}

}  // namespace plimsoll::quantization
