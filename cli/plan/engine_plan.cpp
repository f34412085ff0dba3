// `plan` of an engine other than vLLM and ours.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/plan/parts.h"
#include "model/config.h"
#include "plan/engines/engine_plan.h"

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;

/// The config of a draft model: a file, a folder, or a hub id in the cache.
Json draft_config(const std::string& model, const Environment& environment) {
  std::error_code ignored;
  if (fs::is_regular_file(model, ignored) ||
      fs::is_regular_file(fs::path(model) / "config.json", ignored))
    return model::read_config(model);
  return model::read_config(checkpoint::find_model(model, {environment.hub_cache}));
}

/// The name that the engine is told: MODEL, or the folder of a config.json that stands for it.
std::string told_model(const PlanOptions& options) {
  const fs::path model = options.model;
  std::error_code ignored;
  if (!fs::is_regular_file(model, ignored)) return options.model;
  return model.filename() == "config.json" ? fs::absolute(model).parent_path().string()
                                           : model.stem().string();
}

/// The flags as given, a pair each, for --format args.
void add_words(plan::PlanResult& result, const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos) {
      result.arguments.emplace_back(words[i].substr(0, equals),
                                    shell_quoted(words[i].substr(equals + 1)));
      continue;
    }
    std::string values;
    const std::string& flag = words[i];
    while (i + 1 < words.size() && engines::is_value(words[i + 1]))
      values += (values.empty() ? "" : " ") + shell_quoted(words[++i]);
    result.arguments.emplace_back(flag, values);
  }
}

}  // namespace

std::string engine_line(const engines::Engine& engine, const plan::PlanResult& result,
                        const PlanOptions& options) {
  std::string line(engine.program);
  if (!engine.model_flag.empty()) line += fmt::format(" {}", engine.model_flag);
  return fmt::format("{} {} {}", line, shell_quoted(options.model), plan::to_args(result));
}

plan::PlanResult make_engine_plan(const ConfigView& config, const PlanOptions& options,
                                  const Environment& environment,
                                  const std::optional<hardware::Gpu>& gpu) {
  const engines::Engine& engine = *engines::find_engine(options.engine);
  engines::Question question;
  question.config = &config.json();
  question.config_path = config.path();
  question.model = told_model(options);
  question.version = options.engine_version;
  question.words = options.engine_words;
  question.fields = options.engine_fields;
  question.gpu = gpu ? &*gpu : nullptr;
  question.card_bytes = options.gpu_total_memory.value_or(0);
  question.free = options.free_memory;
  question.read_config = [&environment](const std::string& model) {
    return draft_config(model, environment);
  };
  plan::PlanResult result = plan::plan_engine(engine, question, config, options.advise);
  add_words(result, options.engine_words);
  if (!options.left_out.empty()) {
    result.notes.push_back(
        fmt::format("left out, not known to plan: {}", fmt::join(options.left_out, ", ")));
  }
  result.notes.insert(result.notes.end(), options.pasted_notes.begin(), options.pasted_notes.end());
  return result;
}

}  // namespace plimsoll::cli
