// `plan --engine all`: one launch planned for every engine, a row each.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/plan/parts.h"
#include "launch/parameters.h"
#include "plan/report/report.h"

namespace plimsoll::cli {
namespace {

/// Puts our flags under the engine's names, and notes those that it has no words for.
void translate_flags(const engines::Engine& engine, PlanOptions& options) {
  for (const auto& [parameter, flag, value] : options.launch.given) {
    const std::vector<std::string> words = engine.translate(flag, value);
    options.engine_words.insert(options.engine_words.end(), words.begin(), words.end());
    if (words.empty())
      options.untold.push_back(value.empty() ? flag : fmt::format("{} {}", flag, value));
  }
}

std::string row(const plan::PlanResult& result) {
  const bool known = result.fits.has_value();
  std::string text =
      fmt::format("  {:<14}{:<10}{:<16}{:>12}{:>14}{:>10.2f}", result.engine, result.version,
                  known ? plan::verdict_name(result) : "no verdict",
                  result.weights_bytes > 0 ? plan::readable_bytes(result.weights_bytes) : "?",
                  result.kv_tokens, result.max_concurrency);
  for (const plan::Suggestion& suggestion : result.advice) {
    if (known && !*result.fits && suggestion.fits) {
      text += "  fits with " + suggestion.flag;
      break;
    }
  }
  return text + "\n";
}

}  // namespace

std::vector<PlanOptions> options_of_all(const PlanOptions& options) {
  std::vector<PlanOptions> all;
  for (const char* name : {"plimsoll", "vllm"}) {
    all.push_back(options);
    all.back().engine = name;
    all.back().gguf_type.clear();
  }
  for (const engines::Engine& engine : engines::engines()) {
    all.push_back(options);
    all.back().engine = engine.name;
    translate_flags(engine, all.back());
    if (engine.name != "llamacpp") all.back().gguf_type.clear();
  }
  return all;
}

std::string table_of_all(const std::vector<plan::PlanResult>& results) {
  std::string text = fmt::format("  {:<14}{:<10}{:<16}{:>12}{:>14}{:>10}\n", "engine", "version",
                                 "verdict", "weights", "KV tokens", "requests");
  for (const plan::PlanResult& result : results) text += row(result);
  for (const plan::PlanResult& result : results) {
    for (const std::string& note : result.notes)
      if (note.starts_with(kWithout)) text += fmt::format("\n{}: {}\n", result.engine, note);
  }
  for (const plan::PlanResult& result : results)
    if (!result.reason.empty()) text += fmt::format("\n{}: {}\n", result.engine, result.reason);
  return text;
}

std::string json_of_all(const std::vector<plan::PlanResult>& results) {
  OrderedJson json;
  json["schema_version"] = plan::kSchemaVersion;
  json["plans"] = OrderedJson::array();
  for (const plan::PlanResult& result : results)
    json["plans"].push_back(OrderedJson::parse(plan::to_json(result)));
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll::cli
