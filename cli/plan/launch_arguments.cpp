// `plan --format args`: the flags that were heeded, in a form that both engines' command lines
// take.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/json.h"
#include "cli/arguments.h"
#include "cli/plan/parts.h"
#include "launch/parameters.h"
#include "launch/values.h"
#include "vllm/launch/flags.h"
#include "vllm/launch/runner.h"

namespace plimsoll::cli {
namespace {

// Flags that a plan resolves: it has its own values of them (plan/arguments.cpp).
constexpr std::string_view kResolved[] = {"--tensor-parallel-size", "--pipeline-parallel-size",
                                          "--data-parallel-size",   "--max-model-len",
                                          "--max-num-seqs",         "--max-num-batched-tokens"};

using Arguments = std::vector<std::pair<std::string, std::string>>;

constexpr vllm::VllmVersion kDots{0, 9, 0};  // --hf-overrides.key VALUE

/// Adds {"a": {"b": 1}} as --flag.a.b 1: without quotes, so that $(...) passes it unchanged.
void add_dotted(Arguments& arguments, const std::string& flag, const OrderedJson& object) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = fmt::format("{}.{}", flag, key);
    if (value.is_object() && !value.empty()) {
      add_dotted(arguments, name, value);
    } else {
      arguments.emplace_back(
          name, shell_quoted(value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
}

/// "image=2,video=0" and a list of sizes as vLLM's JSON; other texts as they are.
OrderedJson value_of(const std::string& flag, const std::string& text) {
  if (flag == "--limit-mm-per-prompt" && text.find('{') == std::string::npos) {
    vllm::EngineArgs args;
    launch::read_modality_limits(text, args);
    OrderedJson limits = OrderedJson::object();
    for (const auto& [modality, limit] : args.limits) limits[modality] = limit.count;
    return limits;
  }
  try {
    if (text.starts_with("{")) return parse_json<OrderedJson>(text, kOrderedLimits);
  } catch (const JsonError&) {
  }
  return text;
}

/// {"a": {"b": 1}} for releases that read no dots.
void add_json(Arguments& arguments, const std::string& flag, const OrderedJson& object) {
  arguments.emplace_back(flag, shell_quoted(object.dump()));
}

/// A flag that is heeded as the release spells it; nothing: its line has no such flag.
std::optional<std::pair<std::string, OrderedJson>> spelled(const std::string& flag,
                                                           const OrderedJson& value,
                                                           const vllm::VllmVersion& version) {
  const std::string level = "--optimization-level", config = "--compilation-config";
  if (flag == config && !value.is_object() && vllm::takes_flag(level, version))
    return std::pair(level, value);
  if (flag == config && value.is_object()) {
    OrderedJson known = OrderedJson::object();
    for (const auto& [key, setting] : value.items())
      if (vllm::takes_compilation_key(key, version)) known[key] = setting;
    if (known.empty()) return std::nullopt;
    return std::pair(flag, known);
  }
  if (vllm::takes_flag(flag, version)) return std::pair(flag, value);
  if (flag == level) return std::pair(config, value);
  const std::string largest = "--max-cudagraph-capture-size";
  if (flag == "--cuda-graph-sizes" && vllm::takes_flag(largest, version))
    return std::pair(largest, value);
  if (flag == "--override-pooler-config" && vllm::takes_flag("--pooler-config", version))
    return std::pair(std::string("--pooler-config"), value);
  const bool overrides = vllm::takes_flag("--hf-overrides", version);
  if (flag == "--rope-scaling" && overrides)
    return std::pair(std::string("--hf-overrides"), OrderedJson{{"rope_scaling", value}});
  if (flag == "--rope-theta" && overrides)
    return std::pair(std::string("--hf-overrides"), OrderedJson{{"rope_theta", value}});
  return std::nullopt;
}

/// Notes the keys of --compilation-config that the release lacks.
void note_keys(plan::PlanResult& result, const OrderedJson& config,
               const vllm::VllmVersion& version) {
  if (!config.is_object()) return;
  for (const auto& [key, value] : config.items()) {
    if (!vllm::takes_compilation_key(key, version))
      result.notes.push_back(vllm::unknown_compilation_key(key, version));
  }
}

}  // namespace

void note_flags(plan::PlanResult& result, const PlanOptions& options) {
  if (options.engine != "vllm") return;
  const vllm::VllmVersion& version = options.launch.args.version;
  std::set<std::string> flags(options.ignored.begin(), options.ignored.end());
  for (const auto& [parameter, flag, value] : options.launch.given) {
    flags.insert(flag);
    if (flag == "--compilation-config" && vllm::takes_flag(flag, version))
      note_keys(result, value_of(flag, value), version);
  }
  if (options.launch.args.graphs.largest > 0) flags.insert("--max-cudagraph-capture-size");
  for (const std::string& flag : flags) {
    if (vllm::takes_flag(flag, version)) continue;
    const bool ignored = std::ranges::find(options.ignored, flag) != options.ignored.end();
    result.notes.push_back(fmt::format("vLLM {} refuses the flag{}: {}", result.version,
                                       ignored ? "" : ", which is heeded here",
                                       vllm::unrecognized_flag(flag)));
  }
}

void add_given(plan::PlanResult& result, const PlanOptions& options) {
  const vllm::EngineArgs& args = options.launch.args;
  const bool own = result.engine == "plimsoll";
  const auto is_there = [&](const std::string& name) {
    return std::ranges::find(result.arguments, name, &Arguments::value_type::first) !=
           result.arguments.end();
  };
  const launch::Engine heeding = own ? launch::Engine::plimsoll : launch::Engine::vllm;
  for (const auto& [parameter, flag, value] : options.launch.given) {
    if (std::ranges::find(kResolved, flag) != std::end(kResolved) || is_there(flag)) continue;
    const launch::Engine engine = parameter->facts.engine;
    if (engine != launch::Engine::both && engine != heeding) continue;
    if (!own && value.empty() && !vllm::takes_flag(flag, args.version)) continue;
    if (own || value.empty()) {
      const OrderedJson read = value_of(flag, value);
      if (read.is_object()) {
        add_dotted(result.arguments, flag, read);
      } else {
        result.arguments.emplace_back(flag, value.empty() ? value : shell_quoted(value));
      }
    } else if (flag == "--kv-cache-memory-bytes") {
      result.arguments.emplace_back(flag, std::to_string(args.kv_cache_memory));
    } else if (flag == "--cpu-offload-gb") {
      result.arguments.emplace_back(
          flag, fmt::format("{}", static_cast<double>(args.cpu_offload) / 0x1p30));
    } else if (args.capture_sizes &&
               (flag == "--cudagraph-capture-sizes" ||
                (flag == "--cuda-graph-sizes" && !vllm::takes_flag(flag, args.version)))) {
      const std::string sizes = fmt::format("[{}]", fmt::join(*args.capture_sizes, ","));
      if (args.version < kDots) {
        add_json(result.arguments, "--compilation-config",
                 {{"cudagraph_capture_sizes", *args.capture_sizes}});
      } else {
        result.arguments.emplace_back("--compilation-config.cudagraph_capture_sizes", sizes);
      }
    } else if (flag == "--task" && !vllm::takes_flag(flag, args.version)) {
      for (const auto& [name, word] : vllm::flags_of_task(value))
        result.arguments.emplace_back(name, word);
    } else if (const auto written = spelled(flag, value_of(flag, value), args.version)) {
      const auto& [name, read] = *written;
      if (!read.is_object()) {
        result.arguments.emplace_back(name, shell_quoted(value));
      } else if (args.version < kDots) {
        add_json(result.arguments, name, read);
      } else {
        add_dotted(result.arguments, name, read);
      }
    }
  }
}

}  // namespace plimsoll::cli
