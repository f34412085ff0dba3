// `plan --engine all`: one launch planned for every engine, a row each.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

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

/// Requests of the launch's context at once; below 1 where not even one fits.
double requests_of_context(const plan::PlanResult& result) {
  const bool of_shorter = !result.fits.value_or(true) && result.auto_max_model_len > 0;
  if (!of_shorter || result.max_model_len == 0) return result.max_concurrency;
  return result.max_concurrency * static_cast<double>(result.auto_max_model_len) /
         static_cast<double>(result.max_model_len);
}

/// True where a search chose other cards for one engine than for another.
bool cards_differ(const std::vector<plan::PlanResult>& results) {
  std::vector<std::pair<std::string, int64_t>> known;
  for (const plan::PlanResult& result : results)
    if (!result.gpu.empty()) known.emplace_back(result.gpu, result.gpus);
  return std::ranges::adjacent_find(known, std::ranges::not_equal_to()) != known.end();
}

std::string row(const plan::PlanResult& result, bool with_cards) {
  const bool known = result.fits.has_value();
  std::string text =
      fmt::format("  {:<14}{:<10}{:<16}{:>12}{:>14}{:>10.2f}", result.engine, result.version,
                  known ? plan::verdict_name(result) : "no verdict",
                  result.weights_bytes > 0 ? plan::readable_bytes(result.weights_bytes) : "?",
                  result.kv_tokens, requests_of_context(result));
  if (with_cards && !result.gpu.empty()) text += fmt::format("  {} x {}", result.gpus, result.gpu);
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
    if (std::exchange(all.back().launch.args.available_kv, 0) > 0)
      all.back().untold.emplace_back("--available-kv-memory");
    if (engine.name != "llamacpp") all.back().gguf_type.clear();
  }
  return all;
}

std::string table_of_all(const std::vector<plan::PlanResult>& results) {
  std::string text = fmt::format("  {:<14}{:<10}{:<16}{:>12}{:>14}{:>10}\n", "engine", "version",
                                 "verdict", "weights", "KV tokens", "requests");
  const bool with_cards = cards_differ(results);
  for (const plan::PlanResult& result : results) text += row(result, with_cards);
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
