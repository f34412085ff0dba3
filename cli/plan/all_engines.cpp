// `plan --engine all`: one launch planned for every engine, a row each.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/plan/parts.h"
#include "launch/parameters.h"
#include "plan/report/report.h"

namespace plimsoll::cli {
namespace {

/// Our flags under the engine's names.
std::vector<std::string> words_for(const engines::Engine& engine, const PlanOptions& options) {
  std::vector<std::string> words;
  for (const auto& [parameter, flag, value] : options.launch.given) {
    std::string name;
    for (const auto& [own, theirs] : engine.own_flags)
      if (own == flag) name = theirs;
    if (name.empty() && engines::find_flag(engine.flags, flag) != nullptr) name = flag;
    if (name.empty()) continue;
    words.push_back(name);
    if (!value.empty() && value != "true") words.push_back(value);
  }
  return words;
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
    all.back().engine_words = words_for(engine, options);
    if (engine.name != "llamacpp") all.back().gguf_type.clear();
  }
  return all;
}

std::string table_of_all(const std::vector<plan::PlanResult>& results) {
  std::string text = fmt::format("  {:<14}{:<10}{:<16}{:>12}{:>14}{:>10}\n", "engine", "version",
                                 "verdict", "weights", "KV tokens", "requests");
  for (const plan::PlanResult& result : results) text += row(result);
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
