// Launches in YAML: containers of compose files and Kubernetes manifests, models of KServe, Ray
// Serve and vLLM's Helm chart, tasks of SkyPilot, and vLLM's own config files.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/lower_case.h"
#include "base/split_text.h"
#include "cli/plan/paste/shell/shell_words.h"
#include "cli/plan/paste/yaml_nodes.h"

namespace plimsoll::cli {
namespace {

constexpr size_t kLongestText = size_t{1} << 20;

/// A text of Kubernetes with $(NAME) replaced by the container's variables.
std::string refer(std::string text, const Variables& variables) {
  for (const auto& [name, value] : variables) {
    const std::string reference = "$(" + name + ")";
    for (size_t at = text.find(reference); at != std::string::npos;
         at = text.find(reference, at + value.size())) {
      text.replace(at, reference.size(), value);
      if (text.size() > kLongestText) refuse_size();
    }
  }
  return text;
}

/// "command:" and its kin: a list of words, or a shell's line.
Words words_of(const YAML::Node& node, Variables& variables) {
  Words words;
  if (node.IsScalar()) {
    for (const Words& command : shell_commands(node.Scalar(), variables))
      words.insert(words.end(), command.begin(), command.end());
  } else if (node.IsSequence()) {
    Variables unset;  // compose reads the shell's variables, not the container's
    for (const YAML::Node& word : node)
      words.push_back(expand_variables(refer(text_of(word), variables), unset));
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
  const YAML::Node limits = below(container, {"resources", "limits"});
  if (!limits || !limits.IsMap()) return;
  for (const auto& item : limits) {
    const std::string name = text_of(item.first);
    if (name.starts_with("nvidia.com/mig-"))
      launch.left_out.push_back(name + " (--gpu plans on the card that it names)");
  }
}

/// "volumes" of compose: "HOST:CONTAINER" or {source: HOST, target: CONTAINER}.
void read_volumes(const YAML::Node& volumes, PastedLaunch& launch) {
  if (!volumes || !volumes.IsSequence()) return;
  for (const YAML::Node& volume : volumes) {
    if (volume.IsScalar()) add_mount(volume.Scalar(), launch);
    const YAML::Node source = below(volume, {"source"}), target = below(volume, {"target"});
    if (source && target) add_mount(text_of(source) + ":" + text_of(target), launch);
  }
}

std::optional<PastedLaunch> launch_of_container(const YAML::Node& container,
                                                const ConfigMaps& maps) {
  PastedLaunch launch;
  const auto at = [&](const char* name) { return below(container, {name}); };
  Variables unset;
  launch.image = at("image") ? expand_variables(text_of(at("image")), unset) : "";
  if (at("envFrom")) maps.add_whole(at("envFrom"), launch.variables, launch.left_out);
  for (const char* name : {"environment", "env"})
    if (at(name)) read_variables(at(name), launch.variables);
  if (at("env") && at("env").IsSequence())
    for (const YAML::Node& entry : at("env"))
      maps.add_one(entry, launch.variables, launch.left_out);
  const bool kubernetes = at("args") || at("env") || at("envFrom");
  const YAML::Node entrypoint = at(kubernetes ? "command" : "entrypoint");
  const YAML::Node command = at(kubernetes ? "args" : "command");
  const Words first = entrypoint ? words_of(entrypoint, launch.variables) : Words();
  const Words rest = command ? words_of(command, launch.variables) : Words();
  const bool by_variables = std::ranges::any_of(
      launch.variables, [](const auto& one) { return one.first.starts_with("LLAMA_ARG_"); });
  if (first.empty() && rest.empty() && !by_variables) return std::nullopt;
  if (!read_container_command(first, rest, launch) &&
      !(kubernetes && read_container_command({}, first, launch))) {
    return std::nullopt;
  }
  read_volumes(at("volumes"), launch);
  if (at("env_file")) launch.left_out.emplace_back("env_file");
  read_gpus(container, launch);
  return launch;
}

/// A model that a server for Kubernetes starts by values of its own: KServe's predictor, vLLM's
/// Helm chart (modelURL, vllmConfig), Ray Serve (model_loading_config, engine_kwargs).
std::optional<PastedLaunch> launch_of_model(const YAML::Node& model) {
  PastedLaunch launch;
  const std::string format = lower_case(text_of(below(model, {"modelFormat", "name"})));
  const YAML::Node url = below(model, {"modelURL"});
  const YAML::Node loading = below(model, {"model_loading_config"});
  if (format == "vllm" || format == "huggingface") {
    const YAML::Node args = below(model, {"args"});
    if (!args) return std::nullopt;
    for (std::string word : words_of(args, launch.variables)) {
      for (const std::string_view name : {"--model_id", "--model-id"})
        if (word.starts_with(name)) word.replace(0, name.size(), "--model");
      launch.words.push_back(word);
    }
  } else if (url) {
    launch.words = {text_of(url)};
    append_flags(below(model, {"vllmConfig"}), launch.words);
    const YAML::Node tag = below(model, {"tag"});
    if (const YAML::Node repository = below(model, {"repository"}))
      launch.image = text_of(repository) + (tag ? ":" + text_of(tag) : "");
    if (const YAML::Node count = below(model, {"requestGPU"}))
      limit_gpus(launch, text_of(count), false);
  } else if (loading) {
    const YAML::Node source = below(loading, {"model_source"});
    launch.words = {text_of(source && source.IsScalar() ? source : below(loading, {"model_id"}))};
    append_flags(below(model, {"engine_kwargs"}), launch.words);
  } else {
    return std::nullopt;
  }
  if (const YAML::Node env = below(model, {"env"})) read_variables(env, launch.variables);
  read_gpus(model, launch);
  return launch;
}

/// True for the parent of a launch on several nodes, each with a container's GPUs: a
/// LeaderWorkerSet, a Ray cluster.
bool has_several_nodes(const YAML::Node& map) {
  return map["leaderWorkerTemplate"] || map["workerGroupSpecs"];
}

std::optional<PastedLaunch> search(const YAML::Node& node, const ConfigMaps& maps, int depth,
                                   int& nodes) {
  if (--nodes < 0) refuse_size();
  if (depth > kDeepest || !(node.IsMap() || node.IsSequence())) return std::nullopt;
  if (node.IsMap()) {
    if (auto launch = launch_of_container(node, maps)) return launch;
    if (auto launch = launch_of_model(node)) return launch;
    for (const auto& item : node) {
      auto launch = search(item.second, maps, depth + 1, nodes);
      if (launch && has_several_nodes(node)) launch->gpus.reset();
      if (launch) return launch;
    }
  } else {
    for (const YAML::Node& item : node)
      if (auto launch = search(item, maps, depth + 1, nodes)) return launch;
  }
  return std::nullopt;
}

/// GPUs of a node in "accelerators: L40S:2", {L40S: 2, A100: 2} or a list: those of the first.
std::string count_of(const YAML::Node& accelerators) {
  YAML::Node first = accelerators;
  if (accelerators.IsSequence() && accelerators.size() > 0) first.reset(accelerators[0]);
  std::string text = text_of(first);
  if (first.IsMap() && first.size() > 0) {
    const std::string count = text_of(first.begin()->second);
    text = text_of(first.begin()->first) + (count.empty() ? "" : ":" + count);
  }
  const size_t colon = text.find(':');
  return text.empty() ? "" : colon == std::string::npos ? "1" : text.substr(colon + 1);
}

/// Notes what a task's setup installs; a text that is no shell's starts nothing.
void read_setup(const std::string& text, PastedLaunch& launch) {
  try {
    Variables variables;
    for (const Words& command : shell_commands(text, variables))
      add_installed(command, launch.releases);
  } catch (const Error&) {
  }
}

}  // namespace

std::optional<PastedLaunch> launch_of_task(const std::string& text) {
  if (!text.starts_with("run:") && text.find("\nrun:") == std::string::npos) return std::nullopt;
  try {
    const YAML::Node task = YAML::Load(text);
    const YAML::Node run = below(task, {"run"});
    const YAML::Node resources = below(task, {"resources"});
    if (!run || !run.IsScalar() || !resources) return std::nullopt;
    Variables variables;
    if (const YAML::Node envs = below(task, {"envs"})) read_variables(envs, variables);
    const YAML::Node accelerators = below(resources, {"accelerators"});
    std::string gpus = accelerators ? count_of(accelerators) : "";
    for (const char* list : {"any_of", "ordered"}) {  // one of several is taken: the first with any
      const YAML::Node choices = below(resources, {list});
      for (const YAML::Node& choice : choices&& choices.IsSequence() ? choices : YAML::Node()) {
        const YAML::Node of_choice = below(choice, {"accelerators"});
        if (gpus.empty() && of_choice) gpus = count_of(of_choice);
      }
    }
    if (!gpus.empty()) variables.emplace("SKYPILOT_NUM_GPUS_PER_NODE", gpus);
    auto launch = launch_of_shell(run.Scalar(), std::move(variables));
    if (!launch) return std::nullopt;
    const YAML::Node setup = below(task, {"setup"});
    if (launch->releases.empty() && launch->image.empty() && setup)
      read_setup(text_of(setup), *launch);
    if (!gpus.empty() && !below(task, {"num_nodes"})) limit_gpus(*launch, gpus, false);
    return launch;
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
}

namespace {

/// The documents of a YAML text, parted by lines of "---". YAML::LoadAll never ends on some texts
/// that are no YAML, such as f([\n"a", # b\n"c", g(1),\n]).
std::vector<std::string> documents_of(const std::string& text) {
  constexpr size_t kMostDocuments = 1000;
  std::vector<std::string> documents(1);
  for (const std::string_view line : split_text(text, "\n")) {
    if (line.starts_with("---")) documents.emplace_back();
    if (documents.size() > kMostDocuments)
      fail(ExitCode::usage, "--from: the text has more than {} YAML documents", kMostDocuments);
    documents.back().append(line.starts_with("---") ? line.substr(3) : line).append("\n");
  }
  return documents;
}

/// The documents up to the first that is no YAML; notes their ConfigMaps.
std::vector<YAML::Node> read_documents(const std::string& text, ConfigMaps& maps) {
  std::vector<YAML::Node> documents;
  for (const std::string& part : documents_of(text)) {
    try {
      documents.push_back(YAML::Load(part));
    } catch (const YAML::Exception&) {
      break;
    }
    maps.add(documents.back());
  }
  return documents;
}

}  // namespace

bool looks_like_manifest(const std::string& text) {
  constexpr std::string_view kKeys[] = {
      "apiVersion:", "services:", "spec:", "containers:", "image:", "servingEngineSpec:"};
  return std::ranges::any_of(split_text(text, "\n"), [&](std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(" -"), line.size()));
    return std::ranges::any_of(kKeys, [&](std::string_view key) { return line.starts_with(key); });
  });
}

std::optional<PastedLaunch> launch_of_yaml(const std::string& text) {
  try {
    ConfigMaps maps;
    for (const YAML::Node& document : read_documents(text, maps)) {
      int nodes = kMostNodes;
      if (auto launch = search(document, maps, 0, nodes)) return launch;
      const YAML::Node model = below(document, {"model"});
      if (!model || !model.IsScalar()) continue;
      PastedLaunch launch;
      append_flags(document, launch.words);
      return launch;
    }
  } catch (const YAML::Exception&) {
    return std::nullopt;  // a shell line, most likely
  }
  return std::nullopt;
}

}  // namespace plimsoll::cli
