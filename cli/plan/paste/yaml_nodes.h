// Nodes of YAML texts: maps of flags, and ConfigMaps of Kubernetes.
#pragma once

#include <yaml-cpp/yaml.h>

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {

/// Aliases let a short file stand for a tree without end; no manifest has as many nodes.
inline constexpr int kMostNodes = 100'000;
inline constexpr int kDeepest = 64;  // levels
/// A text that stands for more: Error(usage).
[[noreturn]] void refuse_size();

/// A scalar's text; empty for others.
std::string text_of(const YAML::Node& node);
/// The node below `names`, also where a map takes it over by "<<"; an undefined one where there is
/// none.
YAML::Node below(YAML::Node node, std::initializer_list<const char*> names);

/// Appends the flags of a map: true is a flag alone, false none (as vLLM reads its config files).
void append_flags(const YAML::Node& map, Words& words);

/// The ConfigMaps of a manifest, by which containers name their variables.
class ConfigMaps {
 public:
  /// Notes the data of a document that is a ConfigMap; of others nothing.
  void add(const YAML::Node& document);

  /// Adds the variables that a container takes over whole ("envFrom"), with their prefix. What no
  /// ConfigMap of the text has is named in `left_out`.
  void add_whole(const YAML::Node& env_from, Variables& variables,
                 std::vector<std::string>& left_out) const;
  /// Adds the value of an entry of "env" that is one key of a ConfigMap ("valueFrom").
  void add_one(const YAML::Node& entry, Variables& variables,
               std::vector<std::string>& left_out) const;

 private:
  std::map<std::string, Variables> data_;  // by name
};

}  // namespace plimsoll::cli
