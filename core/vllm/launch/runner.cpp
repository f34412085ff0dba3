#include "vllm/launch/runner.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/lower_case.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {
namespace {

constexpr VllmVersion kAdapts{0, 6, 5};        // classes that generate, and heeds modules.json
constexpr VllmVersion kTypeOfClass{0, 10, 1};  // before: a type that nothing states is none
constexpr VllmVersion kAlone{0, 22, 0};        // --convert without --runner pooling
constexpr VllmVersion kNoRewards{0, 16, 0};    // --convert reward
constexpr VllmVersion kAllButSome{0, 12, 0};   // before: the last token's vector alone
constexpr VllmVersion kEachToken{0, 13, 0};    // vectors of all tokens

/// Whether the model's class answers with vectors or classes alone, by its name.
bool is_pooling_class(const ConfigView& config) {
  const std::vector<std::string> names = config.texts({"architectures"});
  if (names.empty()) return false;
  const std::string& name = names.front();
  for (const char* mark : {"MaskedLM", "SequenceClassification", "TokenClassification",
                           "RewardModel", "ForEmbedding"}) {
    if (name.find(mark) != std::string::npos) return true;
  }
  // Those that registry.py has among text and multimodal generation.
  constexpr auto kGenerating = std::to_array<std::string_view>(
      {"AquilaModel", "BartModel", "ChatGLMModel", "MiDashengLMModel", "MossAudioModel",
       "Qwen2_5OmniModel", "UltravoxModel"});
  return name.ends_with("Model") && !name.ends_with("LMHeadModel") &&
         !name.ends_with("ChatModel") && std::ranges::find(kGenerating, name) == kGenerating.end();
}

bool generates(std::string_view task) {
  return task == "generate" || task == "transcription" || task == "draft";
}

bool makes_classes(std::string_view task) {
  return task == "classify" || task == "score";
}

/// Whether flags or files ask for a runner of vectors; nothing: neither does.
std::optional<bool> asks_for_pooling(const PoolingArgs& args, const VllmVersion& version) {
  if (args.runner != "auto") return args.runner == "pooling";
  if (args.convert != "auto" && args.convert != "none") return true;
  if (args.task != "auto") return !generates(args.task);
  if (args.sentences && version >= kAdapts) return true;
  return std::nullopt;
}

/// The pooling of the model's class: the last token's vector, but for rewards, of each step or
/// token (@default_pooling_type of model_executor/models/).
std::string_view usual_pooling(const ConfigView& config, const PoolingArgs& args) {
  const std::string name = architecture_name(config);
  if (name.ends_with("ProcessRewardModel")) return "STEP";
  const bool rewards = args.convert == "reward" || args.task == "reward";
  return rewards || name.ends_with("RewardModel") ? "ALL" : "LAST";
}

Converts conversion(const PoolingArgs& args) {
  const bool classes = args.convert == "classify" || makes_classes(args.task);
  return classes ? Converts::to_classes : Converts::to_vectors;
}

/// Throws for conversions that the release does not have.
void check_conversion(const PoolingArgs& args, const VllmVersion& version) {
  if (args.convert == "reward" && version >= kNoRewards) {
    fail(ExitCode::usage,
         "argument --convert: invalid choice: 'reward' (choose from auto, classify, embed, none); "
         "vLLM has it from 0.10.1 to 0.15.1");
  }
  const bool alone = args.runner == "auto" && args.task == "auto" && !args.sentences;
  if (version < kAlone && alone && args.asked()) {
    fail(ExitCode::usage,
         "vLLM before 0.22 converts a model that generates for --runner pooling alone: add it");
  }
}

}  // namespace

Runner runner_of(const ConfigView& config, const EngineArgs& args) {
  const bool by_class = is_pooling_class(config);
  if (!by_class) check_conversion(args.pooling, args.version);
  Runner runner;
  runner.pools = asks_for_pooling(args.pooling, args.version).value_or(by_class);
  if (!runner.pools && by_class) {
    const std::string& task = args.pooling.task;
    if (args.pooling.runner == "auto") {
      fail(ExitCode::usage, "This model does not support the '{}' task. Leave --task out.", task);
    }
    fail(ExitCode::usage, "This model does not support `--runner generate`. Leave --runner out.");
  }
  if (runner.pools && !by_class) {
    if (args.pooling.convert == "none") {
      fail(ExitCode::usage,
           "This model does not support `--runner pooling`. You can pass `--convert "
           "<embed|classify> to adapt it into a pooling model.");
    }
    if (args.version < kAdapts) {
      fail(ExitCode::usage, "This model does not support the '{}' task. vLLM 0.6.5 has it.",
           args.pooling.task);
    }
    runner.converts = conversion(args.pooling);
  }
  return runner;
}

std::vector<std::pair<std::string, std::string>> flags_of_task(const std::string& task) {
  if (task == "auto") return {};
  if (generates(task)) return {{"--runner", "generate"}};
  if (makes_classes(task)) return {{"--runner", "pooling"}, {"--convert", "classify"}};
  return {{"--runner", "pooling"}};
}

std::string stated_pooling(const Json& pooling) {
  constexpr std::string_view kPrefix = "pooling_mode_";
  constexpr auto kTypes = std::to_array<std::string_view>({"LAST", "MEAN", "CLS", "ALL", "STEP"});
  if (!pooling.is_object()) return "";
  for (const auto& [key, value] : pooling.items()) {
    const bool named = key == "pooling_mode" && value.is_string();
    if (!named && value != true) continue;
    std::string name = named ? value.get<std::string>() : key;
    if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
    name.resize(std::min(name.find('_'), name.size()));
    if (name.find("lasttoken") != std::string::npos) name = "last";
    name = upper_case(name);
    if (std::ranges::find(kTypes, name) != kTypes.end()) return name;
  }
  return "";
}

bool pools_in_parts(const ConfigView& config, const EngineArgs& args) {
  if (reads_whole_prompts(config)) return false;
  const VllmVersion& version = args.version;
  std::string_view type = args.pooling.type;
  if (type.empty() && version >= kTypeOfClass) type = usual_pooling(config, args.pooling);
  if (version < kAllButSome) return type == "LAST";
  if (type == "ALL") return version >= kEachToken;
  return type != "MEAN" && type != "CLS" && type != "STEP";
}

}  // namespace plimsoll::vllm
