// Containers of compose files and Kubernetes manifests.
#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "cli/plan/paste/shell_words.h"

namespace plimsoll::cli {
namespace {

constexpr int kDeepest = 64;

std::string text_of(const YAML::Node& node) {
  return node.IsScalar() ? node.Scalar() : "";
}

/// "command:" and its kin: a list of words, or a shell's line.
Words words_of(const YAML::Node& node, Variables& variables) {
  Words words;
  if (node.IsScalar()) {
    for (const Words& command : shell_commands(node.Scalar(), variables))
      words.insert(words.end(), command.begin(), command.end());
  } else if (node.IsSequence()) {
    for (const YAML::Node& word : node) words.push_back(text_of(word));
  }
  return words;
}

/// {NAME: VALUE} and ["NAME=VALUE"] of compose, [{name: NAME, value: VALUE}] of Kubernetes.
void read_variables(const YAML::Node& node, Variables& variables) {
  if (node.IsMap()) {
    for (const auto& item : node) variables[text_of(item.first)] = text_of(item.second);
  } else if (node.IsSequence()) {
    for (const YAML::Node& item : node) {
      if (item.IsScalar() && is_assignment(item.Scalar())) assign(variables, item.Scalar());
      if (item.IsMap() && item["name"] && item["value"])
        variables[text_of(item["name"])] = text_of(item["value"]);
    }
  }
}

/// The node below `names`; an undefined one where there is none.
YAML::Node below(YAML::Node node, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node next = node[name];
    if (!next) return YAML::Node(YAML::NodeType::Undefined);
    node.reset(next);
  }
  return node;
}

/// deploy.resources.reservations.devices and "gpus" of compose.
void read_devices(const YAML::Node& devices, PastedLaunch& launch) {
  if (!devices || !devices.IsSequence()) return;
  for (const YAML::Node& device : devices) {
    if (!device.IsMap()) continue;
    if (device["count"]) limit_gpus(launch, text_of(device["count"]), false);
    if (device["device_ids"] && device["device_ids"].IsSequence())
      limit_gpus(launch, std::to_string(device["device_ids"].size()), false);
  }
}

void read_gpus(const YAML::Node& container, PastedLaunch& launch) {
  read_devices(below(container, {"deploy", "resources", "reservations", "devices"}), launch);
  const YAML::Node gpus = below(container, {"gpus"});
  if (gpus) limit_gpus(launch, text_of(gpus), false);
  read_devices(gpus, launch);
  for (const char* kind : {"limits", "requests"}) {
    const YAML::Node count = below(container, {"resources", kind, "nvidia.com/gpu"});
    if (count) limit_gpus(launch, text_of(count), false);
  }
}

std::optional<PastedLaunch> launch_of_container(const YAML::Node& container) {
  PastedLaunch launch;
  const auto at = [&](const char* name) { return below(container, {name}); };
  launch.image = at("image") ? text_of(at("image")) : "";
  for (const char* name : {"environment", "env"})
    if (at(name)) read_variables(at(name), launch.variables);
  const bool kubernetes = static_cast<bool>(at("args")) || at("env");
  const YAML::Node entrypoint = at(kubernetes ? "command" : "entrypoint");
  const YAML::Node command = at(kubernetes ? "args" : "command");
  const Words first = entrypoint ? words_of(entrypoint, launch.variables) : Words();
  const Words rest = command ? words_of(command, launch.variables) : Words();
  if (first.empty() && rest.empty()) return std::nullopt;
  if (!read_container_command(first, rest, launch) &&
      !(kubernetes && read_container_command({}, first, launch))) {
    return std::nullopt;
  }
  if (at("env_file")) launch.left_out.emplace_back("env_file");
  read_gpus(container, launch);
  return launch;
}

std::optional<PastedLaunch> search(const YAML::Node& node, int depth) {
  if (depth > kDeepest || !(node.IsMap() || node.IsSequence())) return std::nullopt;
  if (node.IsMap()) {
    if (auto launch = launch_of_container(node)) return launch;
    for (const auto& item : node)
      if (auto launch = search(item.second, depth + 1)) return launch;
  } else {
    for (const YAML::Node& item : node)
      if (auto launch = search(item, depth + 1)) return launch;
  }
  return std::nullopt;
}

}  // namespace

std::optional<PastedLaunch> launch_of_yaml(const std::string& text) {
  try {
    for (const YAML::Node& document : YAML::LoadAll(text))
      if (auto launch = search(document, 0)) return launch;
  } catch (const YAML::Exception&) {
    return std::nullopt;  // a shell line, most likely
  }
  return std::nullopt;
}

}  // namespace plimsoll::cli
